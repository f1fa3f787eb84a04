"""An LSTM whose output is projected before it comes back: a scan of its own."""

from __future__ import annotations

from afterglow.frontends.torch.node import TorchNode
from afterglow.graph import Builder, Value
from afterglow.ops.activation import Sigmoid
from afterglow.ops.control import Values, emit_scan
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.functions import Tanh
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import slice_axis


def projected_lstm(
    n: TorchNode,
    x: Value,
    weights: tuple[Value, Value, Value],
    bias: Value | None,
    states: tuple[Value, Value],
    *,
    reverse: bool,
) -> tuple[Value, ...]:
    """h of every step, the last h and the last cell; gates are i, o, f, c.

    The weights are those of x, of the recurrence, and the projection.
    """
    weight, recurrence, projection = weights
    gates = n.emit(MatMul(False, True), x, weight)
    gates = gates if bias is None else n.emit(Add(), gates, bias)
    length, captured = x.type.shape[0], (recurrence, projection)
    h, c, y = emit_scan(n.builder, length, _step, states, (gates,), captured, reverse=reverse)
    return y, h, c


def _step(b: Builder, states: Values, parts: Values, captured: Values) -> tuple[Values, Values]:
    """One step: the new states, and h once more as the result."""
    (h, cell), (gates,), (recurrence, projection) = states, parts, captured
    sums = b.emit(Add(), gates, b.emit(MatMul(False, True), h, recurrence))
    width = cell.type.shape[1]
    i, o, f, c = (b.emit(slice_axis(sums.type, 1, k * width, width), sums) for k in range(4))
    kept = b.emit(Mul(), b.emit(Sigmoid(), f), cell)
    cell = b.emit(Add(), kept, b.emit(Mul(), b.emit(Sigmoid(), i), b.emit(Tanh(), c)))
    wide = b.emit(Mul(), b.emit(Sigmoid(), o), b.emit(Tanh(), cell))
    h = b.emit(MatMul(False, True), wide, projection)
    return (h, cell), (h,)
