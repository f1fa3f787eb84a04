"""The gradient of an LSTM layer through time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.control import Values, emit_scan, states_before
from afterglow.ops.elementwise import Add, Mul, Sub, scalar
from afterglow.ops.fill import Fill
from afterglow.ops.functions import Tanh
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, slice_axis
from afterglow.ops.rules import require_float, require_rank, require_same_dtype, require_shape
from afterglow.types import Array, TensorType

GATES = 4


@op("lstm_gradient")
class LSTMGradient(Op):
    """The gradients of what the gates i, o, f, c of an LSTM sum up, and of its first cell.

    `y` is the gradient of the outputs, and `last` that of the last cell. `gates` are those of
    each step after their activation, and `cells` the cells, which began as `first`, 0 if not given.
    `reverse` is that of the layer: this goes the other way.
    """

    result_names = ("sums", "first")
    reverse: bool = False

    def infer(
        self,
        y: TensorType,
        gates: TensorType,
        cells: TensorType,
        recurrence: TensorType,
        first: TensorType | None = None,
        last: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        """[steps, batch, 4 width] and [batch, width]."""
        require_float(y=y)
        require_rank(3, y=y)
        steps, batch, width = y.shape
        state = y.with_shape((batch, width))
        given = {"first": first or state, "last": last or state}
        require_same_dtype(y=y, gates=gates, cells=cells, recurrence=recurrence, **given)
        require_shape((steps, batch, GATES * width), gates=gates)
        require_shape(y.shape, cells=cells)
        require_shape((GATES * width, width), recurrence=recurrence)
        require_shape((batch, width), **given)
        return gates, state

    def evaluate(
        self,
        y: Array,
        gates: Array,
        cells: Array,
        recurrence: Array,
        first: Array | None = None,
        last: Array | None = None,
    ) -> tuple[Array, ...]:
        """By the chain rule, from the last step to the first."""
        steps, batch, width = y.shape
        before = np.zeros((batch, width), y.dtype) if first is None else first
        dc = np.zeros((batch, width), y.dtype) if last is None else last
        sums, dh = np.zeros_like(gates), np.zeros((batch, width), y.dtype)
        order = [*range(steps)][::-1] if self.reverse else [*range(steps)]
        for number, t in reversed([*enumerate(order)]):
            i, o, f, c = np.split(gates[t], GATES, axis=1)
            old = cells[order[number - 1]] if number else before
            bent, dh = np.tanh(cells[t]), dh + y[t]
            dc = dc + dh * o * (1 - bent * bent)
            parts = (dc * c * i * (1 - i), dh * bent * o * (1 - o), dc * old * f * (1 - f))
            sums[t] = np.concatenate((*parts, dc * i * (1 - c * c)), axis=1)
            dc, dh = dc * f, sums[t] @ recurrence
        return sums, dc

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications of the state's gradient."""
        y, _, _, recurrence = self.required_of(operands)
        return y.shape[0] * y.shape[1] * recurrence.size

    def lower(
        self,
        b: Builder,
        y: Value,
        gates: Value,
        cells: Value,
        recurrence: Value,
        first: Value | None = None,
        last: Value | None = None,
    ) -> tuple[Value, ...]:
        """A scan from the last step to the first."""
        steps, batch, width = y.type.shape
        none = b.emit(Fill((batch, width), 0.0, y.type.dtype))
        old = states_before(b, cells, none if first is None else first, self.reverse)
        _, dc, sums = emit_scan(
            b,
            steps,
            _emit_step,
            [none, none if last is None else last],
            [y, gates, cells, old],
            [recurrence],
            reverse=not self.reverse,
        )
        return sums, dc


def _emit_step(
    b: Builder, states: Values, parts: Values, captured: Values
) -> tuple[Values, Values]:
    """The gradients of the state before a step, and of the sums of its gates."""
    (dh, dc), (y, gates, cell, old) = states, parts
    width = cell.type.shape[-1]
    i, o, f, c = (b.emit(slice_axis(gates.type, -1, n * width, width), gates) for n in range(GATES))

    def times(*factors: Value) -> Value:
        product = factors[0]
        for factor in factors[1:]:
            product = b.emit(Mul(), product, factor)
        return product

    def rest(x: Value) -> Value:
        return b.emit(Sub(), scalar(b, 1, x), x)

    bent, dh = b.emit(Tanh(), cell), b.emit(Add(), dh, y)
    dc = b.emit(Add(), dc, times(dh, o, rest(times(bent, bent))))
    sums = b.emit(
        Concat(1),
        times(dc, c, i, rest(i)),
        times(dh, bent, o, rest(o)),
        times(dc, old, f, rest(f)),
        times(dc, i, rest(times(c, c))),
    )
    return [b.emit(MatMul(), sums, captured[0]), times(dc, f)], [sums]
