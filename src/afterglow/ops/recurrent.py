"""Recurrent layers: LSTM, GRU, plain RNN, one direction each, time first.

x is [steps, batch, inputs]; weights hold their gates one after the other along axis 0, and may be
f16 or bf16 where x is f32. Where `lengths` are given, a sequence ends there: later outputs are 0,
and the last state is the one at its end. Running in reverse starts at that end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from afterglow.graph import Op, op
from afterglow.ops.rules import (
    require,
    require_float,
    require_integer,
    require_rank,
    require_same_dtype,
    require_shape,
    require_weights,
)
from afterglow.types import Array, IndexRange, IndexRanges, TensorType


class Activation(Enum):
    """A function of a gate; some have parameters alpha and beta."""

    RELU = "relu"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    AFFINE = "affine"
    LEAKY_RELU = "leaky_relu"
    THRESHOLDED_RELU = "thresholded_relu"
    SCALED_TANH = "scaled_tanh"
    HARD_SIGMOID = "hard_sigmoid"
    ELU = "elu"
    SOFTSIGN = "softsign"
    SOFTPLUS = "softplus"


_FUNCTIONS: dict[Activation, Callable[[Array, float, float], Array]] = {
    Activation.RELU: lambda x, alpha, beta: np.maximum(x, 0),
    Activation.TANH: lambda x, alpha, beta: np.tanh(x),
    Activation.SIGMOID: lambda x, alpha, beta: 1 / (1 + np.exp(-x)),
    Activation.AFFINE: lambda x, alpha, beta: alpha * x + beta,
    Activation.LEAKY_RELU: lambda x, alpha, beta: np.where(x < 0, alpha * x, x),
    Activation.THRESHOLDED_RELU: lambda x, alpha, beta: np.where(x < alpha, 0, x),
    Activation.SCALED_TANH: lambda x, alpha, beta: alpha * np.tanh(beta * x),
    Activation.HARD_SIGMOID: lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    Activation.ELU: lambda x, alpha, beta: np.where(x < 0, alpha * np.expm1(x), x),
    Activation.SOFTSIGN: lambda x, alpha, beta: x / (1 + np.abs(x)),
    Activation.SOFTPLUS: lambda x, alpha, beta: np.logaddexp(x, 0),
}


@dataclass(frozen=True, repr=False)
class Recurrent(Op):
    """Base: a state that each step makes anew. `clip` bounds gates before their activation."""

    activations: tuple[Activation, ...]
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    reverse: bool = False
    clip: float | None = None

    def gate(self, index: int, x: Array) -> Array:
        """Activation `index` of x, which is clipped first."""
        return self.activate(index, x if self.clip is None else np.clip(x, -self.clip, self.clip))

    def activate(self, index: int, x: Array) -> Array:
        """Activation `index` of x."""
        return _FUNCTIONS[self.activations[index]](x, self.alphas[index], self.betas[index])

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications: of each step's input, and of its state, with their weights."""
        x, weight, recurrence, *_ = operands
        assert x is not None
        assert weight is not None
        assert recurrence is not None
        return x.shape[0] * x.shape[1] * (weight.size + recurrence.size)

    def weight_uses(self, operands: Sequence[TensorType | None]) -> Mapping[str, int]:
        """The weights meet the inputs of all steps at once, the recurrence those of one step."""
        x = operands[0]
        assert x is not None
        return {"weight": x.shape[0] * x.shape[1], "recurrence": x.shape[1]}

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """A sequence ends within the steps that there are."""
        x = operands[0]
        assert x is not None
        return {"lengths": (IndexRange.counts(x.shape[0]),)}

    def scan(
        self,
        projected: Array,
        lengths: Array | None,
        states: tuple[Array, ...],
        step: Callable[..., tuple[Array, ...]],
    ) -> tuple[Array, ...]:
        """Run `step(projected[t], *states)` over time: every first state, then the last states."""
        steps = range(projected.shape[0])
        y = np.zeros((len(steps), *states[0].shape), projected.dtype)
        for t in reversed(steps) if self.reverse else steps:
            new = step(projected[t], *states)
            if lengths is None:
                y[t], states = new[0], new
                continue
            alive = (t < lengths)[:, None]
            y[t] = np.where(alive, new[0], 0)
            states = tuple(np.where(alive, a, b) for a, b in zip(new, states, strict=True))
        return (y, *states)

    def check(self, gates: int, activations: int, x: TensorType, **others: TensorType) -> int:
        """What all have in common; `others` have weight and recurrence. Returns the width."""
        require(
            len(self.activations) == len(self.alphas) == len(self.betas) == activations,
            f"takes {activations} activations, each with an alpha and a beta",
        )
        require_float(x=x)
        require_rank(3, x=x)
        weight, recurrence = others.pop("weight"), others.pop("recurrence")
        require_weights(x=x, weight=weight, recurrence=recurrence)
        require_same_dtype(x=x, **others)
        require_rank(2, recurrence=recurrence)
        width = recurrence.shape[1]
        require_shape((gates * width, x.shape[2]), weight=weight)
        require_shape((gates * width, width), recurrence=recurrence)
        return width


def _require_optional(shape: tuple[int, ...], **operands: TensorType | None) -> None:
    for name, type in operands.items():
        if type is not None:
            require_shape(shape, **{name: type})


def _require_lengths(x: TensorType, lengths: TensorType | None) -> None:
    if lengths is not None:
        require_integer(lengths=lengths)
        require_shape((x.shape[1],), lengths=lengths)


def _given(**operands: TensorType | None) -> dict[str, TensorType]:
    return {name: type for name, type in operands.items() if type is not None}


def _projected(x: Array, weight: Array, bias: Array | None) -> Array:
    """Every step's inputs times the weights, in one product."""
    steps, batch, inputs = x.shape
    product = (x.reshape(steps * batch, inputs) @ weight.T).reshape(steps, batch, len(weight))
    return product if bias is None else product + bias


def _times(matrix: Array, states: Array) -> Array:
    """The matrix times each state, with the matrix on the left: faster for few states."""
    return (matrix @ states.T).T


def _initial(x: Array, width: int, given: Array | None) -> Array:
    return np.zeros((x.shape[1], width), x.dtype) if given is None else given


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
        others = _given(weight=weight, recurrence=recurrence, bias=bias, initial_h=initial_h)
        width = self.check(1, 1, x, **others)
        _require_lengths(x, lengths)
        _require_optional((width,), bias=bias)
        _require_optional((x.shape[1], width), initial_h=initial_h)
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
        """As it is written."""

        def step(gate: Array, h: Array) -> tuple[Array, ...]:
            return (self.gate(0, gate + _times(recurrence, h)),)

        state = _initial(x, recurrence.shape[1], initial_h)
        return self.scan(_projected(x, weight, bias), lengths, (state,), step)


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
        others = _given(bias=bias, hidden_bias=hidden_bias, initial_h=initial_h)
        width = self.check(3, 2, x, weight=weight, recurrence=recurrence, **others)
        _require_lengths(x, lengths)
        _require_optional((3 * width,), bias=bias)
        _require_optional((width,), hidden_bias=hidden_bias)
        _require_optional((x.shape[1], width), initial_h=initial_h)
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
        """As it is written."""
        width = recurrence.shape[1]
        for_gates, for_hidden = recurrence[: 2 * width], recurrence[2 * width :]
        constant = np.zeros(width, x.dtype) if hidden_bias is None else hidden_bias

        def step(gates: Array, h: Array) -> tuple[Array, ...]:
            both = self.gate(0, gates[:, : 2 * width] + _times(for_gates, h))
            z, r = both[:, :width], both[:, width:]
            if self.linear_before_reset:
                recurrent = r * (_times(for_hidden, h) + constant)
            else:
                recurrent = _times(for_hidden, r * h) + constant
            candidate = self.gate(1, gates[:, 2 * width :] + recurrent)
            return ((1 - z) * candidate + z * h,)

        state = _initial(x, width, initial_h)
        return self.scan(_projected(x, weight, bias), lengths, (state,), step)


@op("lstm")
class LSTM(Recurrent):
    """Gates i, o, f, c: the cell is f cell + i c, and h = o tanh(cell).

    Activations are those of gates i, o and f, of c, and of the cell. Peepholes are weights by
    which i, o and f see the cell. `input_forget` makes f = 1 - i.
    Results: h of every step, the last h, the last cell.
    """

    result_names = ("y", "h", "c")
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
        others = _given(bias=bias, initial_h=initial_h, initial_c=initial_c, peepholes=peepholes)
        width = self.check(4, 3, x, weight=weight, recurrence=recurrence, **others)
        _require_lengths(x, lengths)
        _require_optional((4 * width,), bias=bias)
        _require_optional((x.shape[1], width), initial_h=initial_h, initial_c=initial_c)
        _require_optional((3 * width,), peepholes=peepholes)
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
        """As it is written."""
        width = recurrence.shape[1]
        see = np.zeros(3 * width, x.dtype) if peepholes is None else peepholes
        see_i, see_o, see_f = np.split(see, 3)

        def step(gates: Array, h: Array, cell: Array) -> tuple[Array, ...]:
            i, o, f, c = np.split(gates + _times(recurrence, h), 4, axis=1)
            i = self.gate(0, i + see_i * cell)
            f = 1 - i if self.input_forget else self.gate(0, f + see_f * cell)
            cell = f * cell + i * self.gate(1, c)
            o = self.gate(0, o + see_o * cell)
            return o * self.activate(2, cell), cell

        states = (_initial(x, width, initial_h), _initial(x, width, initial_c))
        return self.scan(_projected(x, weight, bias), lengths, states, step)
