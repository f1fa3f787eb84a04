"""Control flow: ops that carry functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from afterglow.graph import Builder, Function, Op, Subgraph, Value, op, run_function
from afterglow.ops.movement import Concat, Reshape, slice_axis
from afterglow.ops.rules import require, require_dtype, require_rank
from afterglow.types import Array, TensorType
from afterglow.types.dtype import boolean, i64
from afterglow.types.extent import dims_of

PartT = TypeVar("PartT")

Values: TypeAlias = Sequence[Value]
ScanStep: TypeAlias = Callable[[Builder, Values, Values, Values], tuple[Values, Values]]
"""Emits one iteration of a scan.

It takes a builder of the body, the carried values, parts of the scanned values and the captured
values, and returns the new carried values and parts of further results.
"""


def _require_inputs(function: Function, types: Sequence[TensorType], what: str) -> None:
    """The function takes operands of exactly these types."""
    taken = [placeholder.type for placeholder in function.inputs]
    require(
        taken == list(types),
        f"{what} @{function.name} takes {_listed(taken)}, it is given {_listed(types)}",
    )


def _output_types(function: Function) -> tuple[TensorType, ...]:
    return tuple(output.value.type for output in function.outputs)


def _listed(types: Sequence[TensorType]) -> str:
    return f"({', '.join(map(str, types))})"


def _run(function: Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Run a body; operands that came widened take their own element type again."""
    pairs = zip(function.inputs, arrays, strict=True)
    return run_function(function, [x.astype(p.type.dtype.numpy, copy=False) for p, x in pairs])


@op("if")
class If(Op):
    """The results of one of two functions of the captured values, chosen by a boolean."""

    then_branch: Subgraph
    else_branch: Subgraph

    def infer(self, condition: TensorType, *captured: TensorType) -> tuple[TensorType, ...]:
        """What both branches return: the same types."""
        require_rank(0, condition=condition)
        require_dtype(boolean, condition=condition)
        taken, other = self.then_branch.function, self.else_branch.function
        _require_inputs(taken, captured, "then_branch")
        _require_inputs(other, captured, "else_branch")
        types = _output_types(taken)
        require(
            types == _output_types(other),
            f"the branches must return the same types, got {_listed(types)} "
            f"and {_listed(_output_types(other))}",
        )
        return types

    def evaluate(self, condition: Array, *captured: Array) -> tuple[Array, ...]:
        """Run the branch."""
        branch = self.then_branch if condition else self.else_branch
        return _run(branch.function, captured)


@op("loop")
class Loop(Op):
    """The carried values after applying a body while a condition holds, at most `limit` times.

    The body takes the number of the iteration (i64), the carried values and the captured ones, and
    returns whether to go on and the carried values. Results are the carried values at the end.
    Extents in the body may depend on the number of the iteration: then `iteration` is the
    dimension that stands for it, with the iterations that there may be as its bounds. They may
    depend on integers that the loop carries, too: `lengths` are the dimensions that stand for the
    first carried values (i64) as they are when an iteration begins.
    """

    body: Subgraph
    carried: int
    iteration: int = 0
    lengths: tuple[int, ...] = ()

    def infer(
        self, limit: TensorType, condition: TensorType, *values: TensorType
    ) -> tuple[TensorType, ...]:
        """The types of the carried values, which the body may not change."""
        require_rank(0, limit=limit, condition=condition)
        require_dtype(i64, limit=limit)
        require_dtype(boolean, condition=condition)
        body = self.body.function
        _require_inputs(body, (limit, *values), "body")
        carried = values[: self.carried]
        for place, length in enumerate(carried[: len(self.lengths)]):
            require_rank(0, **{f"length {place}": length})
            require_dtype(i64, **{f"length {place}": length})
        require(
            _output_types(body) == (condition, *carried),
            f"body must return {_listed((condition, *carried))}, "
            f"@{body.name} returns {_listed(_output_types(body))}",
        )
        return carried

    def carried_values(self) -> tuple[tuple[int, int], ...]:
        """Those after the number of the iteration, and after whether to go on."""
        return tuple((index, index) for index in range(1, 1 + self.carried))

    def evaluate(self, limit: Array, condition: Array, *values: Array) -> tuple[Array, ...]:
        """Iterate."""
        carried, captured = values[: self.carried], values[self.carried :]
        iteration = 0
        while condition and iteration < limit:
            number = np.array(iteration, np.int64)
            body = self._body_of(iteration, carried)
            condition, *results = _run(body, (number, *carried, *captured))
            carried = tuple(results)
            iteration += 1
        return carried

    def _body_of(self, number: int, carried: Sequence[Array]) -> Function:
        """The body as it is in an iteration."""
        body = self.body.function
        extents = {dim.name: number for dim in dims_of(self.iteration)}
        for length, value in zip(self.lengths, carried, strict=False):
            extents.update((dim.name, int(value)) for dim in dims_of(length))
        return body.module.bind(extents).functions[body.name] if extents else body


@op("scan")
class Scan(Op):
    """The carried values after applying a body `length` times, and its other results, stacked.

    The values are `carried` carried ones, `scanned` ones of which each iteration sees its part
    along the first axis, and captured ones. The body returns the carried values, then parts of
    further results; the results are the carried values at the end and those parts stacked.
    `reverse` goes from the last parts to the first.
    """

    body: Subgraph
    length: int
    carried: int
    scanned: int
    reverse: bool = False

    def infer(self, *values: TensorType) -> tuple[TensorType, ...]:
        """The carried types, which the body may not change, and [length, …] of the others."""
        carried, scanned, captured = self._split(values)
        for type in scanned:
            fits = type.shape[:1] == (self.length,)
            require(fits, f"scanned values must have {self.length} parts, got {type}")
        body = self.body.function
        parts = [type.with_shape(type.shape[1:]) for type in scanned]
        _require_inputs(body, (*carried, *parts, *captured), "body")
        returned = _output_types(body)
        require(
            returned[: self.carried] == carried,
            f"body must return the carried types {_listed(carried)} first, "
            f"@{body.name} returns {_listed(returned)}",
        )
        stacked = (type.with_shape((self.length, *type.shape)) for type in returned[self.carried :])
        return (*carried, *stacked)

    def carried_values(self) -> tuple[tuple[int, int], ...]:
        """The first ones."""
        return tuple((index, index) for index in range(self.carried))

    def evaluate(self, *values: Array) -> tuple[Array, ...]:
        """Iterate, and fill the stacked results part by part."""
        carried, scanned, captured = self._split(values)
        body = self.body.function
        stacked = tuple(
            np.empty((self.length, *type.shape), type.dtype.numpy)
            for type in _output_types(body)[self.carried :]
        )
        order = range(self.length)
        for index in reversed(order) if self.reverse else order:
            parts = [np.asarray(array[index]) for array in scanned]
            results = _run(body, (*carried, *parts, *captured))
            carried = results[: self.carried]
            for array, part in zip(stacked, results[self.carried :], strict=True):
                array[index] = part
        return (*carried, *stacked)

    def _split(self, values: tuple[PartT, ...]) -> tuple[tuple[PartT, ...], ...]:
        """Carried, scanned and captured values."""
        first, second = self.carried, self.carried + self.scanned
        return values[:first], values[first:second], values[second:]


def emit_scan(
    b: Builder,
    length: int,
    step: ScanStep,
    carried: Values,
    scanned: Values,
    captured: Values = (),
    *,
    reverse: bool = False,
) -> tuple[Value, ...]:
    """Emit a scan with a body that `step` emits into a new function of the module."""
    body = b.function.module.new_function(f"{b.name or b.function.name}.step")
    parts = [value.type.with_shape(value.type.shape[1:]) for value in scanned]
    new, results = step(
        Builder(body, origins=b.origins),
        [body.input("carried", value.type) for value in carried],
        [body.input("part", type) for type in parts],
        [body.input("captured", value.type) for value in captured],
    )
    for index, value in enumerate((*new, *results)):
        body.output(f"result_{index}", value)
    op = Scan(Subgraph(body), length, len(carried), len(scanned), reverse)
    return b.emit_all(op, *carried, *scanned, *captured)


def states_before(b: Builder, after: Value, first: Value, reverse: bool) -> Value:
    """Emit the states before each step of a scan, given those after each and the first one."""
    one = b.emit(Reshape((1, *first.type.shape)), first)
    others = b.emit(slice_axis(after.type, 0, int(reverse), after.type.shape[0] - 1), after)
    return b.emit(Concat(0), *((others, one) if reverse else (one, others)))
