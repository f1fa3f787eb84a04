"""Definitions as sources: what compiles and runs a model, however it was opened."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from afterglow.frontends.base import (
    Bindings,
    FileDigests,
    HostLimits,
    HostRun,
    KeptState,
    NeedsValuesError,
    RunBody,
    Source,
)
from afterglow.frontends.definition.binding import Binding
from afterglow.frontends.definition.bodies import BodyGraph
from afterglow.frontends.definition.dialect import Dialect
from afterglow.frontends.definition.host import HostNodes
from afterglow.frontends.definition.host_graph import graph_of, model_of
from afterglow.frontends.definition.importer import ModelImporter
from afterglow.frontends.definition.model import ModelDef
from afterglow.frontends.definition.signature import Parameter, model_signature
from afterglow.frontends.partition import plan_boundary
from afterglow.graph import HostOp, Module, print_module, verify_module
from afterglow.graph.payload import pack_constants
from afterglow.runtime import Signature, TensorInfo
from afterglow.support.digest import digest_of_bytes, digest_of_texts
from afterglow.support.errors import UsageError
from afterglow.types import OutputForm


class DefinedSource:
    """A definition, imported for each binding."""

    def __init__(self, model: ModelDef) -> None:
        self.model = model

    @property
    def path(self) -> Path | None:
        """None: it is in memory."""
        return None

    def load(self, bindings: Bindings) -> tuple[Module, tuple[OutputForm, ...]]:
        """Import it."""
        bound = Binding(bindings.shapes, bindings.dims, bindings.values, bindings.max_memory)
        unchecked = bindings.unchecked
        try:
            return ModelImporter(
                self.model,
                bound,
                bindings.partition,
                unchecked=unchecked,
                data_lengths=bindings.data_lengths,
            ).run()
        except NeedsValuesError as error:
            if error.progress is None:
                raise
            given = () if bindings.partition is None else bindings.partition.given
            boundary = plan_boundary(self.graph.main, error.progress, given)
            raise NeedsValuesError(error.inputs, boundary, error.progress) from None

    @cached_property
    def graph(self) -> Module:
        """The graph IR of the model, each node as the model has it."""
        return graph_of(self.model)

    @property
    def output_names(self) -> list[str]:
        """Those of the main graph."""
        return [output.name for output in self.model.graph.output]

    def on_host(
        self,
        wanted: Sequence[str],
        given: Iterable[str],
        values: Mapping[str, Any],
        run_body: RunBody,
        limits: HostLimits,
    ) -> HostRun:
        """Node by node: each is imported once for the types of its operands, and replayed."""
        return HostNodes(self.model, wanted, given, values, run_body, limits).run

    def body_source(self, body: BodyGraph, given: Collection[str]) -> Source | None:
        """A body as a model without inputs; None if all that it returns is given."""
        model = body.as_model(given)
        return None if model is None else BodySource(self, body, model)

    def digest(self, files: FileDigests) -> str | None:
        """None: there is no telling what it came from."""
        return None

    @property
    def state(self) -> tuple[KeptState, ...]:
        """None: what it keeps is for its user to say."""
        return ()

    def files(self) -> list[Path]:
        """None: it is in memory."""
        return []

    @property
    def attachments(self) -> Mapping[str, bytes]:
        """None."""
        return {}

    def signature(self, bindings: Bindings) -> Signature:
        """What the file declares, with what the bindings determine filled in."""
        declared = model_signature(self.model)
        inputs = (p for p in declared.inputs if p.name not in bindings.values)
        return Signature(
            tuple(_info(parameter, bindings) for parameter in inputs),
            tuple(_info(parameter, bindings) for parameter in declared.outputs),
        )


class HostGraphSource(DefinedSource):
    """Graph IR of host nodes, such as what was left of a model when it was saved."""

    def __init__(self, graph: Module, dialect: Dialect) -> None:
        verify_module(graph)
        _refuse_other_nodes(graph)
        super().__init__(model_of(graph, dialect))
        self.graph = graph

    @cached_property
    def _digest(self) -> str:
        weights = pack_constants(self.graph.constants.values())
        return digest_of_texts([print_module(self.graph), digest_of_bytes(weights)])

    def digest(self, files: FileDigests) -> str | None:
        """A digest of the graph and of the weights."""
        return self._digest


def _refuse_other_nodes(graph: Module) -> None:
    for node in (node for function in graph.functions.values() for node in function.nodes):
        if not isinstance(node.op, HostOp):
            raise UsageError(
                f"%{node.name} ({node.op.mnemonic}) stands among host nodes",
                help="give a module of host nodes alone, or one without any",
            )


class BodySource(DefinedSource):
    """A body as a model, which takes all its inputs as boundary values."""

    def __init__(self, outer: Source, body: BodyGraph, model: ModelDef) -> None:
        super().__init__(model)
        self.outer = outer
        self.body = body

    def digest(self, files: FileDigests) -> str | None:
        """A digest of the model around it, and of what the body is."""
        outer = self.outer.digest(files)
        return None if outer is None else digest_of_texts([outer, self.body.digest])


def _info(parameter: Parameter, bindings: Bindings) -> TensorInfo:
    shape: Sequence[int | str | None] | None = bindings.shapes.get(parameter.name, parameter.shape)
    if shape is not None:
        dims = bindings.dims
        shape = tuple(dims.get(e, e) if isinstance(e, str) else e for e in shape)
    return TensorInfo(parameter.name, parameter.dtype, shape)
