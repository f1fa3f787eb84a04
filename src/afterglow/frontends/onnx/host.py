"""Nodes of a model that run on the host, because data decide the shapes of their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import onnx

from afterglow.frontends.onnx.frame import Frame, Session
from afterglow.frontends.onnx.graph import GraphImporter
from afterglow.frontends.onnx.importer import input_constant, model_functions, model_opsets
from afterglow.frontends.onnx.order import reads
from afterglow.frontends.onnx.parts import Cut, needed_nodes
from afterglow.frontends.onnx.reader import ModelFile
from afterglow.frontends.onnx.signature import Parameter, ParameterKind, model_signature
from afterglow.graph import Array, Function, Module, Value


class HostNodes:
    """The nodes that the host runs at a cut: each time they are imported with all values known.

    `given` names what there will be, `values` has inputs that are always the same.
    """

    def __init__(
        self, file: ModelFile, cut: Cut, given: Iterable[str], values: Mapping[str, Any]
    ) -> None:
        self.file = file
        self.cut = cut
        self.values = values
        self.parameters = {p.name: p for p in model_signature(file).inputs}
        self.frame = Frame(model_opsets(file.proto))
        self.functions = model_functions(file.proto)
        self.nodes = needed_nodes(file.proto.graph, cut.host, given)
        self.names = frozenset().union(*map(reads, self.nodes))
        self.constants = _constants(file.proto.graph, self.names)

    def run(self, known: Mapping[str, Any]) -> dict[str, Array]:
        """Their results by name; none of them if one is no tensor."""
        module = Module("host")
        session = Session(self.file, module, self.functions)
        graph = GraphImporter(session, Function("main", module), self.frame)
        known = {**self.values, **known}
        for name in sorted(self.names & known.keys()):
            parameter = self.parameters.get(name) or Parameter(name, ParameterKind.TENSOR)
            graph.scope.define(name, input_constant(module, parameter, known[name]))
        graph.add_constants(self.constants)
        graph.add_nodes(self.nodes)
        values = graph.results(self.cut.host)
        tensors = [value for value in values if isinstance(value, Value)]
        if len(tensors) < len(values):
            return {}
        arrays = dict(zip(self.cut.host, map(session.known.array, tensors), strict=True))
        return {**arrays, **{name: arrays[twin] for name, twin in self.cut.twins.items()}}


def _constants(graph: onnx.GraphProto, names: frozenset[str]) -> onnx.GraphProto:
    """A graph that has nothing but the constants of these names."""
    kept = onnx.GraphProto()
    kept.initializer.extend(tensor for tensor in graph.initializer if tensor.name in names)
    sparse = graph.sparse_initializer
    kept.sparse_initializer.extend(tensor for tensor in sparse if tensor.values.name in names)
    return kept
