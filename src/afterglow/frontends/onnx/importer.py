"""From an ONNX model to the graph IR: names to values, node by node, every problem collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import numpy_helper

from afterglow.frontends.onnx.context import Imported, NeedsValuesError, NodeContext, StaticSequence
from afterglow.frontends.onnx.elements import DTYPE_OF_ONNX
from afterglow.frontends.onnx.registry import find_importer
from afterglow.graph import Array, Builder, Function, Module, Subgraph, Value
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.types import TensorType


@dataclass
class Binding:
    """What the caller knows about the inputs of a model.

    `shapes` gives the whole shape of an input, `dims` the extent of a named dimension,
    `values` the value of an input, which then is a constant.
    """

    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Array] = field(default_factory=dict)


class ModelImporter:
    """Imports one model; `problems` fills with everything that is in the way."""

    def __init__(self, model: onnx.ModelProto, binding: Binding) -> None:
        self.model = model
        self.binding = binding
        self.module = Module(model.graph.name or "model")
        self.opsets = {_domain(entry.domain): entry.version for entry in model.opset_import}
        self.functions = {(_domain(f.domain), f.name): f for f in model.functions}
        self.problems: list[str] = []
        self.needed: dict[str, None] = {}

    def run(self) -> Module:
        """Import the main graph, or raise one error with every problem."""
        function = Function("main", self.module)
        graph = GraphImporter(self, function, None, self.opsets)
        graph.add_initializers(self.model.graph)
        for info in self.model.graph.input:
            if info.name not in graph.values:
                self._add_input(graph, info)
        graph.add_nodes(self.model.graph.node)
        graph.add_outputs([output.name for output in self.model.graph.output])
        if self.problems:
            first, *rest = self.problems
            what = f"the model has {1 + len(rest)} problems" if rest else first
            raise UnsupportedError(what, excerpt=self.problems if rest else ())
        if self.needed:
            raise NeedsValuesError(tuple(self.needed))
        return self.module

    def _add_input(self, graph: GraphImporter, info: onnx.ValueInfoProto) -> None:
        if info.name in self.binding.values:
            bound = self.binding.values[info.name]
            graph.values[info.name] = self.module.constant(info.name, bound)
            return
        type = self._input_type(info)
        placeholder = graph.function.input(info.name, type)
        graph.values[info.name] = placeholder
        graph.input_names[placeholder] = info.name

    def _input_type(self, info: onnx.ValueInfoProto) -> TensorType:
        tensor = info.type.tensor_type
        dtype = DTYPE_OF_ONNX[tensor.elem_type]
        if info.name in self.binding.shapes:
            return TensorType(dtype, tuple(self.binding.shapes[info.name]))
        extents = []
        for dim in tensor.shape.dim:
            extents.append(self.binding.dims[dim.dim_param] if dim.dim_param else dim.dim_value)
        return TensorType(dtype, tuple(extents))


class GraphImporter:
    """Imports nodes of one graph, or of a function body, into a function."""

    def __init__(
        self,
        owner: ModelImporter,
        function: Function,
        outer: GraphImporter | None,
        opsets: Mapping[str, int],
    ) -> None:
        self.owner = owner
        self.function = function
        self.outer = outer
        self.opsets = opsets
        self.values: dict[str, Imported | None] = {"": None}
        self.broken: set[str] = set()
        self.input_names: dict[Value, str] = {}

    def input_name(self, value: Value) -> str:
        """What the model calls an input."""
        return self.input_names.get(value, value.name)

    def add_initializers(self, graph: onnx.GraphProto) -> None:
        """The graph's own constants."""
        for tensor in graph.initializer:
            self.values[tensor.name] = self.function.module.constant(
                tensor.name, numpy_helper.to_array(tensor)
            )

    def add_nodes(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Import nodes in order; one that fails poisons what depends on it, silently."""
        for proto in nodes:
            if any(name in self.broken for name in proto.input):
                self.broken.update(proto.output)
                continue
            try:
                self._add_node(proto)
            except NeedsValuesError as error:
                self.owner.needed.update(dict.fromkeys(error.inputs))
                self.broken.update(proto.output)
            except AfterglowError as error:
                self.owner.problems.append(f"{proto.op_type} {proto.name!r}: {error.what}")
                self.broken.update(proto.output)

    def _add_node(self, proto: onnx.NodeProto) -> None:
        domain = _domain(proto.domain)
        opset = self.opsets.get(domain, 1)
        importer = find_importer(domain, proto.op_type, opset)
        if importer is None:
            raise UnsupportedError(f"no importer for {proto.op_type} version {opset}")
        name = next((output for output in proto.output if output), proto.name)
        origin = proto.name or name
        builder = Builder(self.function, name=name, origin=origin)
        operands = [self._look_up(name) for name in proto.input]
        results = importer(NodeContext(self, proto, operands, opset, builder))
        if isinstance(results, (Value, StaticSequence)):
            results = (results,)
        for output, value in zip(proto.output, results, strict=False):
            if output and value is not None:
                self.values[output] = value

    def _look_up(self, name: str) -> Imported | None:
        if name in self.values:
            return self.values[name]
        raise ModelError(f"input {name!r} is not defined")

    def add_outputs(self, names: Sequence[str]) -> None:
        """Return the values of these names."""
        for name in names:
            if name in self.broken:
                continue
            value = self._look_up(name)
            assert isinstance(value, Value)
            self.function.output(name, value)

    def import_body(
        self, node: NodeContext, graph: onnx.GraphProto, types: Sequence[TensorType]
    ) -> tuple[Subgraph, list[Value]]:
        """See `NodeContext.body`."""
        raise node.fail("sub-graphs are not supported yet")

    def import_inline(self, graph: onnx.GraphProto) -> list[Imported]:
        """See `NodeContext.inline`."""
        raise UnsupportedError("sub-graphs are not supported yet")


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain
