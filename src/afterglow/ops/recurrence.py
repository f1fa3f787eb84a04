"""What recurrent layers have in common: activations of gates, and steps over time.

Each has its meaning in NumPy, and in ops below it the same for the lowering to a scan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

import numpy as np

from afterglow.graph import Builder, Op, Value
from afterglow.ops.activation import (
    Clip,
    Elu,
    HardSigmoid,
    LeakyRelu,
    Relu,
    Sigmoid,
    Softplus,
    Softsign,
)
from afterglow.ops.control import Values, emit_scan
from afterglow.ops.elementwise import Add, Less, Mul, Where, scalar
from afterglow.ops.fill import Fill
from afterglow.ops.functions import Tanh
from afterglow.ops.indexing import Iota
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, slice_axis
from afterglow.ops.reduction import narrowed, widened
from afterglow.ops.rules import (
    require,
    require_float,
    require_integer,
    require_rank,
    require_same_dtype,
    require_shape,
    require_weights,
)
from afterglow.support.lazy_dataclass import dataclass
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


_EMITTERS: dict[Activation, Callable[[Builder, Value, float, float], Value]] = {
    Activation.RELU: lambda b, x, alpha, beta: b.emit(Relu(), x),
    Activation.TANH: lambda b, x, alpha, beta: b.emit(Tanh(), x),
    Activation.SIGMOID: lambda b, x, alpha, beta: b.emit(Sigmoid(), x),
    Activation.AFFINE: lambda b, x, alpha, beta: _affine(b, x, alpha, beta),
    Activation.LEAKY_RELU: lambda b, x, alpha, beta: b.emit(LeakyRelu(alpha), x),
    Activation.THRESHOLDED_RELU: lambda b, x, alpha, beta: _thresholded(b, x, alpha),
    Activation.SCALED_TANH: lambda b, x, alpha, beta: _scaled(
        b, b.emit(Tanh(), _scaled(b, x, beta)), alpha
    ),
    Activation.HARD_SIGMOID: lambda b, x, alpha, beta: b.emit(HardSigmoid(alpha, beta), x),
    Activation.ELU: lambda b, x, alpha, beta: b.emit(Elu(alpha), x),
    Activation.SOFTSIGN: lambda b, x, alpha, beta: b.emit(Softsign(), x),
    Activation.SOFTPLUS: lambda b, x, alpha, beta: b.emit(Softplus(), x),
}


def _scaled(b: Builder, x: Value, factor: float) -> Value:
    return b.emit(Mul(), x, scalar(b, factor, x))


def _affine(b: Builder, x: Value, alpha: float, beta: float) -> Value:
    return b.emit(Add(), _scaled(b, x, alpha), scalar(b, beta, x))


def _thresholded(b: Builder, x: Value, alpha: float) -> Value:
    """0 below alpha; unlike `ThresholdedRelu`, alpha itself and NaN stay."""
    below = b.emit(Less(), x, scalar(b, alpha, x))
    return b.emit(Where(), below, scalar(b, 0, x), x)


RecurrentStep: TypeAlias = Callable[[Builder, Value, Values, Values], Values]
"""Emits one step in time: from projected inputs, states and weights, the new states."""


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

    def emit_gate(self, b: Builder, index: int, x: Value) -> Value:
        """Emit activation `index` of x, which is clipped first."""
        clipped = x if self.clip is None else b.emit(Clip(-self.clip, self.clip), x)
        return self.emit_activation(b, index, clipped)

    def emit_activation(self, b: Builder, index: int, x: Value) -> Value:
        """Emit activation `index` of x."""
        emit = _EMITTERS[self.activations[index]]
        return emit(b, x, self.alphas[index], self.betas[index])

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications: of each step's input, and of its state, with their weights."""
        x, weight, recurrence = self.required_of(operands)
        return x.shape[0] * x.shape[1] * (weight.size + recurrence.size)

    def weight_uses(self, operands: Sequence[TensorType | None]) -> Mapping[str, int]:
        """The weights meet the inputs of all steps at once, the recurrence those of one step."""
        x = self.required_of(operands)[0]
        return {"weight": x.shape[0] * x.shape[1], "recurrence": x.shape[1]}

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """A sequence ends within the steps that there are."""
        x = self.required_of(operands)[0]
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

    def emit_steps(
        self,
        b: Builder,
        x: Value,
        gates: Value,
        lengths: Value | None,
        states: Values,
        weights: Values,
        step: RecurrentStep,
    ) -> tuple[Value, ...]:
        """Emit a scan over time of projected inputs: every first state, then the last states.

        All is computed in the type of `gates`; the results have that of x.
        """
        scanned = [gates]
        captured = [*weights]
        if lengths is not None:
            scanned.append(b.emit(Iota(gates.type.shape[:1], 0, lengths.type.dtype)))
            captured.append(lengths)

        def body(b: Builder, states: Values, parts: Values, read: Values) -> tuple[Values, Values]:
            new = step(b, parts[0], states, read)
            return (new, new[:1]) if lengths is None else _ended(b, states, new, parts[1], read[-1])

        length = gates.type.shape[0]
        *last, y = emit_scan(b, length, body, states, scanned, captured, reverse=self.reverse)
        return tuple(narrowed(b, value, x) for value in (y, *last))

    def check(self, gates: int, activations: int, x: TensorType, **others: TensorType) -> int:
        """What all have in common; `others` have weight and recurrence. Returns the width."""
        self.check_activations(activations)
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

    def check_activations(self, count: int) -> None:
        """There are so many, with their parameters."""
        require(
            len(self.activations) == len(self.alphas) == len(self.betas) == count,
            f"takes {count} activations, each with an alpha and a beta",
        )


def _ended(
    b: Builder, states: Values, new: Values, number: Value, lengths: Value
) -> tuple[Values, Values]:
    """The states after a step, and its output: where a sequence has ended, the old ones and 0."""
    alive = b.emit(Less(), number, lengths)
    alive = b.emit(Reshape((*alive.type.shape, 1)), alive)
    output = b.emit(Where(), alive, new[0], scalar(b, 0, new[0]))
    pairs = zip(new, states, strict=True)
    return [b.emit(Where(), alive, after, before) for after, before in pairs], [output]


def require_optional(shape: tuple[int, ...], **operands: TensorType | None) -> None:
    """Each operand that is given has this shape."""
    for name, type in operands.items():
        if type is not None:
            require_shape(shape, **{name: type})


def require_lengths(x: TensorType, lengths: TensorType | None) -> None:
    """The lengths, if they are given, are an integer for each sequence."""
    if lengths is not None:
        require_integer(lengths=lengths)
        require_shape((x.shape[1],), lengths=lengths)


def given(**operands: TensorType | None) -> dict[str, TensorType]:
    """Those of the operands that are not None."""
    return {name: type for name, type in operands.items() if type is not None}


def projected(x: Array, weight: Array, bias: Array | None) -> Array:
    """Every step's inputs times the weights, in one product."""
    steps, batch, inputs = x.shape
    product = (x.reshape(steps * batch, inputs) @ weight.T).reshape(steps, batch, len(weight))
    return product if bias is None else product + bias


def emit_projected(b: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    """Emit every step's inputs times the weights, in one product."""
    steps, batch, inputs = x.type.shape
    rows = b.emit(Reshape((steps * batch, inputs)), widened(b, x))
    product = emit_times(b, widened(b, weight), rows)
    gates = b.emit(Reshape((steps, batch, weight.type.shape[0])), product)
    return gates if bias is None else b.emit(Add(), gates, widened(b, bias))


def emit_times(b: Builder, matrix: Value, states: Value) -> Value:
    """Emit the matrix times each state."""
    return b.emit(MatMul(transpose_rhs=True), states, matrix)


def emit_initial(b: Builder, gates: Value, width: int, given: Value | None) -> Value:
    """A state before the first step: 0 if it is not given."""
    if given is not None:
        return widened(b, given)
    return b.emit(Fill((gates.type.shape[1], width), 0.0, gates.type.dtype))


def part(b: Builder, x: Value, index: int, width: int, count: int = 1) -> Value:
    """Emit `count` neighbouring gates of x, which has gates of a width along its last axis."""
    return b.emit(slice_axis(x.type, -1, index * width, count * width), x)


def times(matrix: Array, states: Array) -> Array:
    """The matrix times each state, with the matrix on the left: faster for few states."""
    return (matrix @ states.T).T


def initial(x: Array, width: int, given: Array | None) -> Array:
    """A state before the first step: 0 if it is not given."""
    return np.zeros((x.shape[1], width), x.dtype) if given is None else given
