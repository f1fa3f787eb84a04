"""FX graphs of functional ATen calls as definitions, such as AOTAutograd traces.

Parameters are placeholders among others: those whose tensors are given become constants. A
placeholder that is a size is that of an axis of another one, if there is one of that size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx

from afterglow.frontends.definition.defined import DefinedSource
from afterglow.frontends.definition.model import (
    AttributeDef,
    AttributeKind,
    GraphDef,
    ModelDef,
    NodeDef,
    TensorDef,
    ValueDef,
)
from afterglow.frontends.torch.calls import Calls
from afterglow.frontends.torch.dims import DimNames
from afterglow.frontends.torch.elements import element_type
from afterglow.frontends.torch.node import RESULTS
from afterglow.frontends.torch.registry import TORCH
from afterglow.frontends.torch.tensors import array_of
from afterglow.frontends.torch.translate import input_type
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, i64


@dataclass(frozen=True)
class TracedGraph:
    """A graph, the numbers of the placeholders that it takes, and what it returns.

    Each item of `returned` is the name of an output, the number of a placeholder, or a constant.
    """

    source: DefinedSource
    taken: Sequence[tuple[int, str]]
    returned: Sequence[Returned]


@dataclass(frozen=True)
class Returned:
    """Something that a graph returns: an output, else a placeholder, else a constant.

    A size is returned as a Python integer. The axes of an output are in the order in which they
    lie in the memory of PyTorch's tensor: those of the tensor are at `axes` of the output.
    """

    output: int | None = None
    placeholder: int | None = None
    constant: Any = None
    is_size: bool = False
    axes: tuple[int, ...] | None = None


def trace_source(graph: fx.Graph, tensors: Mapping[int, torch.Tensor]) -> TracedGraph:
    """What a graph computes, with these tensors, by the number of their placeholders, fixed."""
    return _Tracer(graph, tensors).run()


class _Tracer:
    """Translates one graph."""

    def __init__(self, graph: fx.Graph, tensors: Mapping[int, torch.Tensor]) -> None:
        self.graph = graph
        self.tensors = tensors
        self.translation = Calls(graph)
        self.placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        self.taken: list[tuple[int, str]] = []
        self.inputs: list[ValueDef] = []
        self.constants: list[TensorDef] = []
        self.permutations: list[tuple[str, fx.Node, tuple[int, ...]]] = []

    def run(self) -> TracedGraph:
        sizes = self._add_placeholders()
        output = next(node for node in self.graph.nodes if node.op == "output")
        results = output.args[0]
        returned, outputs = self._returned((results,) if isinstance(results, fx.Node) else results)
        self.translation.nodes.extend(sizes)
        self.translation.add_calls()
        self._add_permutations()
        definition = GraphDef(
            "main",
            tuple(self.translation.nodes),
            tuple(self.inputs),
            tuple(outputs),
            (*self.constants, *self.translation.constants),
        )
        return TracedGraph(DefinedSource(ModelDef(TORCH, definition)), self.taken, returned)

    def _add_placeholders(self) -> list[NodeDef]:
        """Define what the graph takes; return the nodes that give sizes of it."""
        axes = dict(self._axes())
        dims = DimNames((node.name, node.meta.get("val")) for node in self.placeholders)
        sizes = []
        for number, node in enumerate(self.placeholders):
            value = node.meta.get("val")
            if number in self.tensors:
                read = partial(array_of, self.tensors[number])
                self.constants.append(TensorDef(node.name, read, f"torch {node.name}"))
            elif isinstance(value, torch.SymInt) and str(value) in axes:
                sizes.append(_size_node(node.name, *axes[str(value)]))
            else:
                declared = input_type(node.name, value, dims)
                if declared is not None:
                    self.taken.append((number, node.name))
                    self.inputs.append(ValueDef(node.name, declared))
        return sizes

    def _axes(self) -> Iterator[tuple[str, tuple[str, int]]]:
        """For each symbol the placeholder and axis whose extent it is."""
        for node in reversed(self.placeholders):
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                for axis, extent in enumerate(value.shape):
                    if isinstance(extent, torch.SymInt):
                        yield str(extent), (node.name, axis)

    def _returned(self, results: Sequence[Any]) -> tuple[list[Returned], list[ValueDef]]:
        numbers = {node: number for number, node in enumerate(self.placeholders)}
        returned: list[Returned] = []
        outputs: list[ValueDef] = []
        for result in results:
            if not isinstance(result, fx.Node):
                returned.append(Returned(constant=result))
            elif result in numbers:
                returned.append(Returned(placeholder=numbers[result]))
            else:
                name = f"out_{len(outputs)}"
                returned.append(self._output(len(outputs), name, result))
                outputs.append(ValueDef(name))
        return returned, outputs

    def _output(self, number: int, name: str, result: fx.Node) -> Returned:
        value = result.meta.get("val")
        order = _memory_order(value) if isinstance(value, torch.Tensor) else None
        if order is None:
            self.translation.return_as(name, result)
            return Returned(output=number, is_size=isinstance(value, torch.SymInt))
        self.permutations.append((name, result, order))
        return Returned(output=number, axes=tuple(map(order.index, range(len(order)))))

    def _add_permutations(self) -> None:
        for name, result, order in self.permutations:
            source, dtype = self.translation.name_of(result), element_type(result.meta["val"].dtype)
            self.translation.nodes.append(_permutation(name, source, order, dtype))


def _memory_order(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The axes of a tensor as they lie in its memory; None if that is their order, or unknown."""
    strides, extents = (
        [_hint(size) for size in sizes] for sizes in (tensor.stride(), tensor.shape)
    )
    if 0 in strides or 0 in extents:
        return None
    order = sorted(range(tensor.ndim), key=lambda axis: (-strides[axis], extents[axis] == 1))
    moved = [axis for axis in order if extents[axis] != 1]
    return None if moved == sorted(moved) else tuple(order)


def _hint(size: int | torch.SymInt) -> int:
    """A size as it was when the graph was traced; 0 if it was not known."""
    return (size.node.hint or 0) if isinstance(size, torch.SymInt) else size


def _permutation(name: str, source: str, order: tuple[int, ...], dtype: DType) -> NodeDef:
    """A node that gives a tensor with its axes in another order."""
    attributes = {
        "self": AttributeDef(AttributeKind.STRING, "%0"),
        "dims": AttributeDef(AttributeKind.INTS, order),
        RESULTS: AttributeDef(AttributeKind.STRINGS, (dtype.name,)),
    }
    return NodeDef("permute.default", "aten", name, (source,), (name,), attributes)


def _size_node(name: str, tensor: str, axis: int) -> NodeDef:
    """A node that gives the extent of a tensor along an axis."""
    attributes = {
        "self": AttributeDef(AttributeKind.STRING, "%0"),
        "dim": AttributeDef(AttributeKind.INT, axis),
        RESULTS: AttributeDef(AttributeKind.STRINGS, (i64.name,)),
    }
    return NodeDef("sym_size.int", "aten", name, (tensor,), (name,), attributes)
