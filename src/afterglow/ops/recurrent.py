"""Recurrent layers: LSTM, GRU, plain RNN, one direction each, time first.

x is [steps, batch, inputs]; weights hold their gates one after the other along axis 0, and may be
f16 or bf16 where x is f32. Where `lengths` are given, a sequence ends there: later outputs are 0,
and the last state is the one at its end. Running in reverse starts at that end.
"""

from __future__ import annotations

from functools import reduce
from typing import ClassVar

import numpy as np

from afterglow.graph import Builder, Gradients, Value, op
from afterglow.graph.builder import reapply
from afterglow.ops.control import Values, emit_scan, states_before
from afterglow.ops.elementwise import Add, Mul, Sub, scalar
from afterglow.ops.fill import Fill
from afterglow.ops.linear import MatMul
from afterglow.ops.lstm_gradient import LSTMGradient
from afterglow.ops.movement import Concat, Pad, Reshape, slice_axis
from afterglow.ops.recurrence import (
    Activation,
    Recurrent,
    emit_initial,
    emit_projected,
    emit_times,
    given,
    initial,
    part,
    projected,
    require_lengths,
    require_optional,
    times,
)
from afterglow.ops.reduction import ReduceSum, narrowed, widened
from afterglow.ops.rules import require
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32, f64

__all__ = ["GRU", "LSTM", "RNN", "Activation", "LSTMKeepingGates", "Recurrent"]


@op("rnn")
class RNN(Recurrent):
    """h = f(W x + R h + bias). Results: h of every step, and the last."""

    result_names = ("y", "h")
    activations: tuple[Activation, ...] = (Activation.TANH,)
    alphas: tuple[float, ...] = (0.0,)
    betas: tuple[float, ...] = (0.0,)

    def infer(
        self,
        x: TensorType,
        weight: TensorType,
        recurrence: TensorType,
        bias: TensorType | None = None,
        lengths: TensorType | None = None,
        initial_h: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        """[steps, batch, width] and [batch, width]."""
        others = given(weight=weight, recurrence=recurrence, bias=bias, initial_h=initial_h)
        width = self.check(1, 1, x, **others)
        require_lengths(x, lengths)
        require_optional((width,), bias=bias)
        require_optional((x.shape[1], width), initial_h=initial_h)
        return x.with_shape((*x.shape[:2], width)), x.with_shape((x.shape[1], width))

    def evaluate(
        self,
        x: Array,
        weight: Array,
        recurrence: Array,
        bias: Array | None = None,
        lengths: Array | None = None,
        initial_h: Array | None = None,
    ) -> tuple[Array, ...]:
        """By the definition."""

        def step(gate: Array, h: Array) -> tuple[Array, ...]:
            return (self.gate(0, gate + times(recurrence, h)),)

        state = initial(x, recurrence.shape[1], initial_h)
        return self.scan(projected(x, weight, bias), lengths, (state,), step)

    def lower(
        self,
        b: Builder,
        x: Value,
        weight: Value,
        recurrence: Value,
        bias: Value | None = None,
        lengths: Value | None = None,
        initial_h: Value | None = None,
    ) -> tuple[Value, ...]:
        """A scan over time."""

        def step(b: Builder, gate: Value, states: Values, weights: Values) -> Values:
            return [self.emit_gate(b, 0, b.emit(Add(), gate, emit_times(b, weights[0], states[0])))]

        gates = emit_projected(b, x, weight, bias)
        h = emit_initial(b, gates, recurrence.type.shape[1], initial_h)
        return self.emit_steps(b, x, gates, lengths, [h], [widened(b, recurrence)], step)


@op("gru")
class GRU(Recurrent):
    """Gates z, r: h = (1 - z) g(W x + bias + R (r h) + hidden_bias) + z h, z and r by f.

    `linear_before_reset` multiplies r with R h + hidden_bias instead.
    Results: h of every step, and the last.
    """

    result_names = ("y", "h")
    activations: tuple[Activation, ...] = (Activation.SIGMOID, Activation.TANH)
    alphas: tuple[float, ...] = (0.0, 0.0)
    betas: tuple[float, ...] = (0.0, 0.0)
    linear_before_reset: bool = False

    def infer(
        self,
        x: TensorType,
        weight: TensorType,
        recurrence: TensorType,
        bias: TensorType | None = None,
        hidden_bias: TensorType | None = None,
        lengths: TensorType | None = None,
        initial_h: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        """[steps, batch, width] and [batch, width]."""
        others = given(bias=bias, hidden_bias=hidden_bias, initial_h=initial_h)
        width = self.check(3, 2, x, weight=weight, recurrence=recurrence, **others)
        require_lengths(x, lengths)
        require_optional((3 * width,), bias=bias)
        require_optional((width,), hidden_bias=hidden_bias)
        require_optional((x.shape[1], width), initial_h=initial_h)
        return x.with_shape((*x.shape[:2], width)), x.with_shape((x.shape[1], width))

    def evaluate(
        self,
        x: Array,
        weight: Array,
        recurrence: Array,
        bias: Array | None = None,
        hidden_bias: Array | None = None,
        lengths: Array | None = None,
        initial_h: Array | None = None,
    ) -> tuple[Array, ...]:
        """By the definition."""
        width = recurrence.shape[1]
        for_gates, for_hidden = recurrence[: 2 * width], recurrence[2 * width :]
        constant = np.zeros(width, x.dtype) if hidden_bias is None else hidden_bias

        def step(gates: Array, h: Array) -> tuple[Array, ...]:
            both = self.gate(0, gates[:, : 2 * width] + times(for_gates, h))
            z, r = both[:, :width], both[:, width:]
            if self.linear_before_reset:
                recurrent = r * (times(for_hidden, h) + constant)
            else:
                recurrent = times(for_hidden, r * h) + constant
            candidate = self.gate(1, gates[:, 2 * width :] + recurrent)
            return ((1 - z) * candidate + z * h,)

        state = initial(x, width, initial_h)
        return self.scan(projected(x, weight, bias), lengths, (state,), step)

    def lower(
        self,
        b: Builder,
        x: Value,
        weight: Value,
        recurrence: Value,
        bias: Value | None = None,
        hidden_bias: Value | None = None,
        lengths: Value | None = None,
        initial_h: Value | None = None,
    ) -> tuple[Value, ...]:
        """A scan over time."""
        width = recurrence.type.shape[1]
        matrix = widened(b, recurrence)
        weights = [
            b.emit(slice_axis(matrix.type, 0, 0, 2 * width), matrix),
            b.emit(slice_axis(matrix.type, 0, 2 * width, width), matrix),
            *([] if hidden_bias is None else [widened(b, hidden_bias)]),
        ]
        has_bias = hidden_bias is not None

        def step(b: Builder, gates: Value, states: Values, weights: Values) -> Values:
            return [self._emit_step(b, gates, states[0], weights[: 2 + has_bias])]

        gates = emit_projected(b, x, weight, bias)
        h = emit_initial(b, gates, width, initial_h)
        return self.emit_steps(b, x, gates, lengths, [h], weights, step)

    def _emit_step(self, b: Builder, gates: Value, h: Value, weights: Values) -> Value:
        """The state after a step."""
        for_gates, for_hidden, *bias = weights
        width = h.type.shape[1]

        def with_bias(product: Value) -> Value:
            return b.emit(Add(), product, bias[0]) if bias else product

        sums = b.emit(Add(), part(b, gates, 0, width, 2), emit_times(b, for_gates, h))
        both = self.emit_gate(b, 0, sums)
        z, r = part(b, both, 0, width), part(b, both, 1, width)
        if self.linear_before_reset:
            recurrent = b.emit(Mul(), r, with_bias(emit_times(b, for_hidden, h)))
        else:
            recurrent = with_bias(emit_times(b, for_hidden, b.emit(Mul(), r, h)))
        candidate = self.emit_gate(b, 1, b.emit(Add(), part(b, gates, 2, width), recurrent))
        new = b.emit(Mul(), b.emit(Sub(), scalar(b, 1, z), z), candidate)
        return b.emit(Add(), new, b.emit(Mul(), z, h))


@op("lstm")
class LSTM(Recurrent):
    """Gates i, o, f, c: the cell is f cell + i c, and h = o tanh(cell).

    Activations are those of gates i, o and f, of c, and of the cell. Peepholes are weights by
    which i, o and f see the cell. `input_forget` makes f = 1 - i.
    Results: h of every step, the last h, the last cell.
    """

    result_names: ClassVar[tuple[str, ...]] = ("y", "h", "c")
    activations: tuple[Activation, ...] = (Activation.SIGMOID, Activation.TANH, Activation.TANH)
    alphas: tuple[float, ...] = (0.0, 0.0, 0.0)
    betas: tuple[float, ...] = (0.0, 0.0, 0.0)
    input_forget: bool = False

    def infer(
        self,
        x: TensorType,
        weight: TensorType,
        recurrence: TensorType,
        bias: TensorType | None = None,
        lengths: TensorType | None = None,
        initial_h: TensorType | None = None,
        initial_c: TensorType | None = None,
        peepholes: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        """[steps, batch, width], and twice [batch, width]."""
        others = given(bias=bias, initial_h=initial_h, initial_c=initial_c, peepholes=peepholes)
        width = self.check(4, 3, x, weight=weight, recurrence=recurrence, **others)
        require_lengths(x, lengths)
        require_optional((4 * width,), bias=bias)
        require_optional((x.shape[1], width), initial_h=initial_h, initial_c=initial_c)
        require_optional((3 * width,), peepholes=peepholes)
        state = x.with_shape((x.shape[1], width))
        return x.with_shape((*x.shape[:2], width)), state, state

    def evaluate(
        self,
        x: Array,
        weight: Array,
        recurrence: Array,
        bias: Array | None = None,
        lengths: Array | None = None,
        initial_h: Array | None = None,
        initial_c: Array | None = None,
        peepholes: Array | None = None,
    ) -> tuple[Array, ...]:
        """By the definition."""
        width = recurrence.shape[1]
        see = np.zeros(3 * width, x.dtype) if peepholes is None else peepholes
        see_i, see_o, see_f = np.split(see, 3)

        def step(gates: Array, h: Array, cell: Array) -> tuple[Array, ...]:
            i, o, f, c = np.split(gates + times(recurrence, h), 4, axis=1)
            i = self.gate(0, i + see_i * cell)
            f = 1 - i if self.input_forget else self.gate(0, f + see_f * cell)
            cell = f * cell + i * self.gate(1, c)
            o = self.gate(0, o + see_o * cell)
            return o * self.activate(2, cell), cell

        states = (initial(x, width, initial_h), initial(x, width, initial_c))
        return self.scan(projected(x, weight, bias), lengths, states, step)

    def lower(
        self,
        b: Builder,
        x: Value,
        weight: Value,
        recurrence: Value,
        bias: Value | None = None,
        lengths: Value | None = None,
        initial_h: Value | None = None,
        initial_c: Value | None = None,
        peepholes: Value | None = None,
    ) -> tuple[Value, ...]:
        """A scan over time."""
        width, sees = recurrence.type.shape[1], peepholes is not None
        weights = [widened(b, value) for value in (recurrence, peepholes) if value is not None]

        def step(b: Builder, gates: Value, states: Values, weights: Values) -> Values:
            return self._emit_gates(b, gates, states, weights[: 1 + sees])[:2]

        gates = emit_projected(b, x, weight, bias)
        states = [emit_initial(b, gates, width, given) for given in (initial_h, initial_c)]
        return self.emit_steps(b, x, gates, lengths, states, weights, step)

    def gradient(
        self,
        b: Builder,
        out: tuple[Value, ...],
        grad: Gradients,
        x: Value,
        weight: Value,
        recurrence: Value,
        bias: Value | None = None,
        lengths: Value | None = None,
        initial_h: Value | None = None,
        initial_c: Value | None = None,
        peepholes: Value | None = None,
    ) -> Gradients | None:
        """Of a plain layer, which then keeps its gates; else that of the lowering."""
        asked = (*grad[3:], lengths, peepholes)
        floats = {value.type.dtype for value in (x, weight, recurrence)}
        is_usual = self.is_plain and floats in ({f32}, {f64}) and not x.type.is_ranged
        is_there = out[0].type.size > 0 and all(value is None for value in asked)
        if not (is_usual and is_there):
            return None
        gates, cells = out[3:] or keep_gates(out[0])
        y = _with_last(b, self.reverse, out[0], grad)
        known = (y, gates, cells, recurrence, initial_c, grad[2])
        sums, first_c = b.emit_all(LSTMGradient(self.reverse), *known)
        h = emit_initial(b, gates, recurrence.type.shape[1], initial_h)
        before = states_before(b, out[0], h, self.reverse)
        first = slice_axis(sums.type, 0, sums.type.shape[0] - 1 if self.reverse else 0, 1)
        rows, xs, states = (_rows(b, value) for value in (sums, x, before))
        return (
            b.emit(Reshape(x.type.shape), b.emit(MatMul(), rows, weight)),
            b.emit(MatMul(transpose_lhs=True), rows, xs),
            b.emit(MatMul(transpose_lhs=True), rows, states),
            b.emit(ReduceSum((0,), keepdims=False), rows),
            None,
            b.emit(MatMul(), _rows(b, b.emit(first, sums)), recurrence),
            first_c,
        )

    @property
    def is_plain(self) -> bool:
        """Whether it has the usual activations, and nothing else that is unusual."""
        return self == LSTM(reverse=self.reverse)

    def _emit_gates(self, b: Builder, gates: Value, states: Values, weights: Values) -> Values:
        """The output and the cell after a step, and its gates."""
        (h, cell), (recurrence, *peepholes) = states, weights
        width = h.type.shape[1]
        sums = b.emit(Add(), gates, emit_times(b, recurrence, h))
        i, o, f, c = (part(b, sums, index, width) for index in range(4))

        def gate(x: Value, index: int, cell: Value) -> Value:
            seen = (b.emit(Mul(), part(b, see, index, width), cell) for see in peepholes)
            return self.emit_gate(b, 0, reduce(lambda total, y: b.emit(Add(), total, y), seen, x))

        i = gate(i, 0, cell)
        f = b.emit(Sub(), scalar(b, 1, i), i) if self.input_forget else gate(f, 2, cell)
        c = self.emit_gate(b, 1, c)
        cell = b.emit(Add(), b.emit(Mul(), f, cell), b.emit(Mul(), i, c))
        o = gate(o, 1, cell)
        return b.emit(Mul(), o, self.emit_activation(b, 2, cell)), cell, i, o, f, c


@op("lstm_keeping_gates")
class LSTMKeepingGates(LSTM):
    """A plain LSTM that also returns what its gradient needs.

    Results after those of `lstm`: the gates i, o, f, c of every step after their activation, and
    the cell of every step.
    """

    result_names: ClassVar[tuple[str, ...]] = ("y", "h", "c", "gates", "cells")

    def infer(
        self,
        x: TensorType,
        weight: TensorType,
        recurrence: TensorType,
        bias: TensorType | None = None,
        lengths: TensorType | None = None,
        initial_h: TensorType | None = None,
        initial_c: TensorType | None = None,
        peepholes: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        """Those of `lstm`, then [steps, batch, 4 width] and [steps, batch, width]."""
        others = (bias, lengths, initial_h, initial_c, peepholes)
        y, h, c = LSTM.infer(self, x, weight, recurrence, *others)
        require(self.is_plain and lengths is None and peepholes is None, "must be a plain layer")
        return y, h, c, y.with_shape((*y.shape[:2], 4 * y.shape[2])), y

    def evaluate(
        self,
        x: Array,
        weight: Array,
        recurrence: Array,
        bias: Array | None = None,
        lengths: Array | None = None,
        initial_h: Array | None = None,
        initial_c: Array | None = None,
        peepholes: Array | None = None,
    ) -> tuple[Array, ...]:
        """The gates follow from the outputs, and the cells from the gates."""
        y, h, c = LSTM.evaluate(self, x, weight, recurrence, bias, None, initial_h, initial_c)
        first, cell = (initial(x, recurrence.shape[1], given) for given in (initial_h, initial_c))
        order = [*range(len(x))][::-1] if self.reverse else [*range(len(x))]
        gates, cells = projected(x, weight, bias), np.zeros_like(y)
        for number, t in enumerate(order):
            sums = gates[t] + times(recurrence, y[order[number - 1]] if number else first)
            width = 3 * recurrence.shape[1]
            gates[t] = np.concatenate(
                (self.gate(0, sums[:, :width]), self.gate(1, sums[:, width:])), axis=1
            )
            i, _, f, new = np.split(gates[t], 4, axis=1)
            cells[t] = cell = f * cell + i * new
        return y, h, c, gates, cells

    def lower(
        self,
        b: Builder,
        x: Value,
        weight: Value,
        recurrence: Value,
        bias: Value | None = None,
        lengths: Value | None = None,
        initial_h: Value | None = None,
        initial_c: Value | None = None,
        peepholes: Value | None = None,
    ) -> tuple[Value, ...]:
        """A scan over time."""

        def body(b: Builder, states: Values, parts: Values, read: Values) -> tuple[Values, Values]:
            h, cell, *gates = self._emit_gates(b, parts[0], states, read)
            return [h, cell], [h, b.emit(Concat(1), *gates), cell]

        sums, width = emit_projected(b, x, weight, bias), recurrence.type.shape[1]
        states = [emit_initial(b, sums, width, given) for given in (initial_h, initial_c)]
        matrix, steps = widened(b, recurrence), x.type.shape[0]
        last = emit_scan(b, steps, body, states, [sums], [matrix], reverse=self.reverse)
        h, c, y, gates, cells = (narrowed(b, value, x) for value in last)
        return y, h, c, gates, cells

    @property
    def is_plain(self) -> bool:
        """See `LSTM.is_plain`."""
        return self == LSTMKeepingGates(reverse=self.reverse)


def keep_gates(y: Value) -> tuple[Value, ...]:
    """Let the layer with the output y keep its gates, and return them and the cells."""
    node = y.producer
    assert node is not None
    assert isinstance(node.op, LSTM)
    return reapply(node, LSTMKeepingGates(reverse=node.op.reverse), *node.operands)


def _with_last(b: Builder, reverse: bool, y: Value, grad: Gradients) -> Value:
    """The gradients of all outputs, with that of the last state, which is one of them."""
    outputs, last, *_ = grad
    if outputs is None:
        outputs = b.emit(Fill(y.type.shape, 0.0, y.type.dtype))
    if last is None:
        return outputs
    others = y.type.shape[0] - 1
    before, after = ((count, 0, 0) for count in ((0, others) if reverse else (others, 0)))
    one = b.emit(Reshape((1, *last.type.shape)), last)
    return b.emit(Add(), outputs, b.emit(Pad(before, after), one))


def _rows(b: Builder, x: Value) -> Value:
    """The rows of all steps."""
    steps, batch, columns = x.type.shape
    return b.emit(Reshape((steps * batch, columns)), x)
