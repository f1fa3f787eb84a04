"""A function compiled to a flat list of steps, for running it many times by definition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.graph.evaluate import evaluate_op
from afterglow.graph.function import Function
from afterglow.graph.op import Op
from afterglow.graph.value import Constant, Value
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType


@dataclass(frozen=True)
class _Step:
    """An op, the slots of its operands, and the first slot of its results."""

    op: Op
    operands: tuple[int | None, ...]
    types: tuple[TensorType, ...]
    first: int
    origin: str


class Tape:
    """The steps of a function without state; later changes of the function have no effect.

    With `unchecked`, indices out of range are clamped.
    """

    def __init__(self, function: Function, *, unchecked: bool = False) -> None:
        self._unchecked = unchecked
        self._places: dict[Value, int] = {}
        self._arrays: list[Array | None] = []
        self._inputs = len(function.inputs)
        for placeholder in function.inputs:
            self._add(placeholder, None)
        self._steps = []
        for node in function.nodes:
            operands = tuple(None if v is None else self._place(v) for v in node.operands)
            types = tuple(result.type for result in node.results)
            origin = node.origin or node.name
            self._steps.append(_Step(node.op, operands, types, len(self._arrays), origin))
            for result in node.results:
                self._add(result, None)
        self._outputs = [self._place(output.value) for output in function.outputs]
        self._places.clear()  # which hold the graph

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for these inputs, which have the types that the function takes."""
        arrays = [*inputs, *self._arrays[self._inputs :]]
        with np.errstate(all="ignore"):
            for step in self._steps:
                operands = [None if place is None else arrays[place] for place in step.operands]
                results = evaluate_op(
                    step.op, operands, step.types, origin=step.origin, unchecked=self._unchecked
                )
                arrays[step.first : step.first + len(results)] = results
        found = [arrays[place] for place in self._outputs]
        return [array for array in found if array is not None]

    def _place(self, value: Value) -> int:
        if value not in self._places:
            assert isinstance(value, Constant)
            self._add(value, value.data)
        return self._places[value]

    def _add(self, value: Value, array: Array | None) -> None:
        self._places[value] = len(self._arrays)
        self._arrays.append(array)
