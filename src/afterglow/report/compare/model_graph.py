"""A model's main graph by its own names: which node makes which tensor, and parts of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from afterglow.frontends.base import KeptState, Source
from afterglow.frontends.definition.defined import DefinedSource
from afterglow.frontends.definition.model import (
    GraphDef,
    ModelDef,
    NodeDef,
    TensorDef,
    TypeDef,
    ValueDef,
    constant,
)
from afterglow.frontends.definition.order import in_order, reads
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType

_QUANTIZED = re.compile(r"Quantize|QLinear|Integer|^Q[A-Z]")
"""Names of ops whose results are a step off where a sum is rounded otherwise."""
INTERNAL = "\0"
"""What only names have that the model itself does not."""


@dataclass(frozen=True)
class ModelGraph:
    """The main graph of a model; nodes are called by their places in topological order."""

    model: ModelDef

    @cached_property
    def nodes(self) -> Sequence[NodeDef]:
        """In topological order."""
        graph = self.model.graph
        defined = {*(x.name for x in graph.input), *(x.name for x in graph.constants)}
        return in_order(graph.node, defined).nodes

    @cached_property
    def reads(self) -> list[list[str]]:
        """What each node reads, with what its bodies take from outside."""
        return [list(dict.fromkeys(reads(node))) for node in self.nodes]

    @cached_property
    def producer(self) -> dict[str, int]:
        """The node that computes each tensor."""
        return {name: i for i, node in enumerate(self.nodes) for name in node.output if name}

    @cached_property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return [output.name for output in self.model.graph.output]

    @cached_property
    def tensors(self) -> list[str]:
        """What is computed and read or returned, in topological order."""
        used = {*self.outputs, *(name for names in self.reads for name in names)}
        constants = {i for i, node in enumerate(self.nodes) if node.op_type == "Constant"}
        return [
            name
            for name, index in self.producer.items()
            if name in used and INTERNAL not in name and index not in constants
        ]

    @cached_property
    def is_quantized(self) -> bool:
        """Whether the model itself computes in integers that stand for floats."""
        return any(_QUANTIZED.search(node.op_type) for node in self.nodes)

    @cached_property
    def varying(self) -> frozenset[str]:
        """The tensors that depend on inputs: all others are constants."""
        fixed = {tensor.name for tensor in self.model.graph.constants}
        found = {x.name for x in self.model.graph.input if x.name not in fixed}
        for node, names in zip(self.nodes, self.reads, strict=True):
            if not found.isdisjoint(names) or (not names and node.op_type != "Constant"):
                found.update(filter(None, node.output))  # without operands it may be random
        return frozenset(found)

    def ancestors(self, names: Iterable[str]) -> set[int]:
        """The nodes that some tensors depend on."""
        waiting, found = list(names), set[int]()
        while waiting:
            index = self.producer.get(waiting.pop())
            if index is not None and index not in found:
                found.add(index)
                waiting.extend(self.reads[index])
        return found

    def taken(self, nodes: Collection[int]) -> list[str]:
        """What nodes read of others: tensors that are computed elsewhere, and inputs."""
        inside = {name for index in nodes for name in self.nodes[index].output}
        fixed = {tensor.name for tensor in self.model.graph.constants}
        names = dict.fromkeys(name for index in sorted(nodes) for name in self.reads[index])
        return [name for name in names if name not in inside and name not in fixed]

    def observed(self, names: Sequence[str]) -> ModelDef:
        """The model with more outputs."""
        graph = self.model.graph
        more = tuple(ValueDef(name) for name in names if name not in self.outputs)
        return replace(self.model, graph=replace(graph, output=(*graph.output, *more)))

    def returning(self, names: Sequence[str]) -> ModelDef:
        """The model with other outputs, and without the nodes that these do not need."""
        return self._with(self.ancestors(names), self.model.graph.input, (), names)

    def part(self, nodes: Collection[int], wanted: str, given: Mapping[str, Array]) -> ModelDef:
        """Some nodes, which take arrays instead of what others compute; constants stay such."""
        inputs = {name: x for name, x in given.items() if name in self.varying}
        fixed = [constant(name, x) for name, x in given.items() if name not in inputs]
        declared = tuple(ValueDef(name, _declared(x)) for name, x in inputs.items())
        return self._with(nodes, declared, fixed, [wanted])

    def _with(
        self,
        nodes: Collection[int],
        inputs: Sequence[ValueDef],
        fixed: Sequence[TensorDef],
        outputs: Sequence[str],
    ) -> ModelDef:
        old = self.model.graph
        kept = tuple(self.nodes[index] for index in sorted(nodes))
        needed = {*outputs, *(name for index in nodes for name in self.reads[index])}
        constants = (*(x for x in old.constants if x.name in needed), *fixed)
        graph = GraphDef(
            old.name, kept, tuple(inputs), tuple(map(ValueDef, outputs)), constants, old.types
        )
        return replace(self.model, graph=graph)

    def body_nodes(self, index: int) -> int:
        """How many nodes there are in the bodies of a node."""
        return sum(_count(graph) for graph in self.nodes[index].graphs())


class PartSource(DefinedSource):
    """A changed definition of a model, which keeps the same state if it is given the whole one."""

    def __init__(self, model: ModelDef, whole: Source | None = None) -> None:
        super().__init__(model)
        self._whole = whole

    @property
    def state(self) -> tuple[KeptState, ...]:
        """That of the whole model."""
        return () if self._whole is None else self._whole.state


def graph_of_source(source: Source) -> ModelGraph | None:
    """The main graph of a model; None if its front end tells nothing about it."""
    return ModelGraph(source.model) if isinstance(source, DefinedSource) else None


def _declared(array: Array) -> TypeDef:
    type = TensorType.of(array)
    return TypeDef("tensor", type.dtype, type.shape)


def _count(graph: GraphDef) -> int:
    return sum(1 + sum(map(_count, node.graphs())) for node in graph.node)
