"""LSTM layers whose recurrent product is one of bytes: states are quantized as they come.

What the inputs contribute to the gates is an operand, computed before by other ops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from afterglow.graph import Builder, Value, op
from afterglow.ops.activation import Clip
from afterglow.ops.control import Values
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Div, Equal, Max, Min, Mul, Neg, Round, Sub, Where, scalar
from afterglow.ops.recurrence import (
    Activation,
    Recurrent,
    emit_initial,
    emit_times,
    given,
    initial,
    part,
    require_lengths,
    require_optional,
    times,
)
from afterglow.ops.reduction import ReduceMax, ReduceMin
from afterglow.ops.rules import require, require_dtype, require_rank, require_shape
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32, i8

GATES = 4
ACTIVATIONS = 3
MOST = 255.0
"""The largest byte."""


@op("quantized_lstm")
class QuantizedLSTM(Recurrent):
    """Gates i, o, f, c, as of `lstm`, from what the inputs contribute and recurrent bytes.

    Each step quantizes the state of each sequence to unsigned bytes, by its own range, which is
    made to hold 0. Their products with (recurrence - zero point) are summed up exactly, and
    multiplied by both scales; `scale` has one for each row of the recurrence.
    Results: h of every step, the last h, the last cell.
    """

    result_names: ClassVar[tuple[str, ...]] = ("y", "h", "c")
    activations: tuple[Activation, ...] = (Activation.SIGMOID, Activation.TANH, Activation.TANH)
    alphas: tuple[float, ...] = (0.0, 0.0, 0.0)
    betas: tuple[float, ...] = (0.0, 0.0, 0.0)
    recurrence_zero_point: int = 0

    def infer(
        self,
        gates: TensorType,
        recurrence: TensorType,
        scale: TensorType,
        lengths: TensorType | None = None,
        initial_h: TensorType | None = None,
        initial_c: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        """[steps, batch, width], and twice [batch, width]."""
        self.check_activations(ACTIVATIONS)
        require_dtype(f32, gates=gates, scale=scale, **given(h=initial_h, c=initial_c))
        require_dtype(i8, recurrence=recurrence)
        point = self.recurrence_zero_point
        require(-128 <= point <= 127, f"the zero point must be a signed byte, got {point}")
        require_rank(3, gates=gates)
        require_rank(2, recurrence=recurrence)
        (steps, batch, _), width = gates.shape, recurrence.shape[1]
        require_shape((GATES * width, width), recurrence=recurrence)
        require_shape((steps, batch, GATES * width), gates=gates)
        require_shape((GATES * width,), scale=scale)
        require_lengths(gates, lengths)
        require_optional((batch, width), initial_h=initial_h, initial_c=initial_c)
        state = gates.with_shape((batch, width))
        return gates.with_shape((steps, batch, width)), state, state

    def evaluate(
        self,
        gates: Array,
        recurrence: Array,
        scale: Array,
        lengths: Array | None = None,
        initial_h: Array | None = None,
        initial_c: Array | None = None,
    ) -> tuple[Array, ...]:
        """By the definition; doubles hold all sums of integers exactly."""
        matrix = recurrence.astype(np.float64) - self.recurrence_zero_point

        def step(gates: Array, h: Array, cell: Array) -> tuple[Array, ...]:
            integers, steps = _quantized(h)
            products = times(matrix, integers).astype(np.float32) * (steps * scale)
            i, o, f, c = np.split(gates + products, GATES, axis=1)
            cell = self.gate(0, f) * cell + self.gate(0, i) * self.gate(1, c)
            return self.gate(0, o) * self.activate(2, cell), cell

        width = recurrence.shape[1]
        states = (initial(gates, width, initial_h), initial(gates, width, initial_c))
        return self.scan(gates, lengths, states, step)

    def lower(
        self,
        b: Builder,
        gates: Value,
        recurrence: Value,
        scale: Value,
        lengths: Value | None = None,
        initial_h: Value | None = None,
        initial_c: Value | None = None,
    ) -> tuple[Value, ...]:
        """A scan over time, in floats."""
        width = recurrence.type.shape[1]
        matrix = b.emit(Cast(f32), recurrence)
        point = scalar(b, self.recurrence_zero_point, matrix)
        weights = [b.emit(Sub(), matrix, point), scale]
        states = [emit_initial(b, gates, width, given) for given in (initial_h, initial_c)]
        return self.emit_steps(b, gates, gates, lengths, states, weights, self._emit_step)

    def _emit_step(self, b: Builder, gates: Value, states: Values, weights: Values) -> Values:
        (h, cell), (matrix, scale, *_), width = states, weights, states[0].type.shape[1]
        integers, steps = _emit_quantized(b, h)
        products = b.emit(Mul(), emit_times(b, matrix, integers), b.emit(Mul(), steps, scale))
        sums = b.emit(Add(), gates, products)
        i, o, f = (self.emit_gate(b, 0, part(b, sums, index, width)) for index in range(3))
        c = self.emit_gate(b, 1, part(b, sums, 3, width))
        cell = b.emit(Add(), b.emit(Mul(), f, cell), b.emit(Mul(), i, c))
        return [b.emit(Mul(), o, self.emit_activation(b, 2, cell)), cell]

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications of states with the recurrent weights."""
        gates, recurrence, _ = self.required_of(operands)
        return gates.shape[0] * gates.shape[1] * recurrence.size

    def weight_uses(self, operands: Sequence[TensorType | None]) -> Mapping[str, int]:
        """The recurrence meets the states of one step at a time."""
        return {"recurrence": self.required_of(operands)[0].shape[1]}


def _quantized(h: Array) -> tuple[Array, Array]:
    """The steps above the zero point of each row of states, and the scales [rows, 1]."""
    low = np.minimum(h.min(1, keepdims=True, initial=0), 0)
    high = np.maximum(h.max(1, keepdims=True, initial=0), 0)
    scale = ((high - low) / np.float32(MOST)).astype(np.float32)
    scale = np.where(scale == 0, np.float32(1), scale)
    zero = np.clip(np.rint(-low / scale), 0, MOST)
    return np.clip(np.rint(h / scale) + zero, 0, MOST) - zero, scale


def _emit_quantized(b: Builder, h: Value) -> tuple[Value, Value]:
    """Emit the same."""
    zero = scalar(b, 0, h)
    low = b.emit(Min(), b.emit(ReduceMin((1,), True), h), zero)
    high = b.emit(Max(), b.emit(ReduceMax((1,), True), h), zero)
    scale = b.emit(Div(), b.emit(Sub(), high, low), scalar(b, MOST, h))
    scale = b.emit(Where(), b.emit(Equal(), scale, zero), scalar(b, 1, h), scale)
    bounds = Clip(0.0, MOST)
    point = b.emit(bounds, b.emit(Round(), b.emit(Div(), b.emit(Neg(), low), scale)))
    steps = b.emit(Add(), b.emit(Round(), b.emit(Div(), h, scale)), point)
    return b.emit(Sub(), b.emit(bounds, steps), point), scale
