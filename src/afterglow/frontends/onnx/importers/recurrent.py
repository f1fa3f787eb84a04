"""ONNX's recurrent layers: each direction becomes one of ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.elementwise import Add
from afterglow.ops.movement import Concat, Reshape, Transpose, slice_axis
from afterglow.ops.recurrent import GRU, LSTM, RNN, Activation, Recurrent

SWAP_BATCH_AND_FIRST = (1, 0, 2)

ACTIVATIONS: dict[str, tuple[Activation, float | None, float | None]] = {
    "relu": (Activation.RELU, None, None),
    "tanh": (Activation.TANH, None, None),
    "sigmoid": (Activation.SIGMOID, None, None),
    "affine": (Activation.AFFINE, 1.0, 0.0),
    "leakyrelu": (Activation.LEAKY_RELU, 0.01, None),
    "thresholdedrelu": (Activation.THRESHOLDED_RELU, 1.0, None),
    "scaledtanh": (Activation.SCALED_TANH, 1.0, 1.0),
    "hardsigmoid": (Activation.HARD_SIGMOID, 0.2, 0.5),
    "elu": (Activation.ELU, 1.0, None),
    "softsign": (Activation.SOFTSIGN, None, None),
    "softplus": (Activation.SOFTPLUS, None, None),
}
"""ONNX's words in lower case: our own, and the defaults of alpha and beta where it has them."""


@onnx_op("RNN")
def rnn(n: NodeContext) -> Sequence[Value]:
    """One gate."""
    layer = Layer(n, ("tanh",))
    return layer.results(
        (RNN(**layer.attributes(i)), (layer.bias(i), n.get(4), layer.state(5, i)))
        for i in layer.directions
    )


@onnx_op("GRU")
def gru(n: NodeContext) -> Sequence[Value]:
    """Gates z, r and h; with `linear_before_reset` the second bias of h stays apart."""
    layer = Layer(n, ("sigmoid", "tanh"))
    linear = bool(n.integer("linear_before_reset", 0))
    return layer.results(
        (
            GRU(**layer.attributes(i), linear_before_reset=linear),
            (
                *(layer.hidden_bias_apart(i) if linear else (layer.bias(i), None)),
                n.get(4),
                layer.state(5, i),
            ),
        )
        for i in layer.directions
    )


@onnx_op("LSTM")
def lstm(n: NodeContext) -> Sequence[Value]:
    """Gates i, o, f and c."""
    layer = Layer(n, LSTM_ACTIVATIONS)
    coupled = bool(n.integer("input_forget", 0))
    return layer.results(
        (
            LSTM(**layer.attributes(i), input_forget=coupled),
            (
                layer.bias(i),
                n.get(4),
                layer.state(5, i),
                layer.state(6, i),
                layer.part(n.get(7), i),
            ),
        )
        for i in layer.directions
    )


LSTM_ACTIVATIONS = ("sigmoid", "tanh", "tanh")
"""Those of an LSTM, if none are given."""


class Layer:
    """One node, taken apart by direction."""

    def __init__(self, n: NodeContext, defaults: tuple[str, ...]) -> None:
        self.n = n
        self.batch_first = bool(n.integer("layout", 0))
        direction = n.text("direction", "forward").lower()
        self.reverse = {"reverse": (True,), "bidirectional": (False, True)}.get(direction, (False,))
        self.directions = range(len(self.reverse))
        self.activations = _activations(n, defaults, len(self.reverse))

    def attributes(self, direction: int) -> dict[str, Any]:
        """What all layers have."""
        count = len(self.activations) // len(self.reverse)
        own = self.activations[direction * count : (direction + 1) * count]
        clip = self.n.attribute("clip")
        return {
            "activations": tuple(activation for activation, _, _ in own),
            "alphas": tuple(alpha for _, alpha, _ in own),
            "betas": tuple(beta for _, _, beta in own),
            "reverse": self.reverse[direction],
            "clip": clip or None,
        }

    def part(self, value: Value | None, direction: int) -> Value | None:
        """The share of one direction in a value that lists directions along axis 0."""
        if value is None:
            return None
        if len(self.reverse) > 1:
            value = self.n.emit(slice_axis(value.type, 0, direction, 1), value)
        return self.n.emit(Reshape(value.type.shape[1:]), value)

    def state(self, index: int, direction: int) -> Value | None:
        """The initial state that is operand `index`."""
        value = self.n.get(index)
        if value is not None and self.batch_first:
            value = self.n.emit(Transpose(SWAP_BATCH_AND_FIRST), value)
        return self.part(value, direction)

    def biases(self, direction: int) -> tuple[Value, Value] | None:
        """Those of the inputs and of the recurrence."""
        both = self.part(self.n.get(3), direction)
        if both is None:
            return None
        half = both.type.size // 2
        first, second = (
            self.n.emit(slice_axis(both.type, 0, i * half, half), both) for i in (0, 1)
        )
        return first, second

    def bias(self, direction: int) -> Value | None:
        """The sum of both."""
        biases = self.biases(direction)
        return None if biases is None else self.n.emit(Add(), *biases)

    def hidden_bias_apart(self, direction: int) -> tuple[Value | None, Value | None]:
        """The sum of both, but for the recurrent one of the last third, which comes second."""
        biases = self.biases(direction)
        if biases is None:
            return None, None
        type, width = biases[0].type, biases[0].type.size // 3
        (own, own_hidden), (other, hidden) = (
            (
                self.n.emit(slice_axis(type, 0, 0, 2 * width), bias),
                self.n.emit(slice_axis(type, 0, 2 * width, width), bias),
            )
            for bias in biases
        )
        return self.n.emit(Concat(0), self.n.emit(Add(), own, other), own_hidden), hidden

    def results(
        self, parts: Iterable[tuple[Recurrent, tuple[Value | None, ...]]]
    ) -> tuple[Value, ...]:
        """Run each direction and put the outputs side by side."""
        n = self.n
        n.check_alike(0, 1, 2)
        x = n.emit(Transpose(SWAP_BATCH_AND_FIRST), n[0]) if self.batch_first else n[0]
        return self.joined(
            n.emit_all(op, x, self.part(n[1], i), self.part(n[2], i), *others)
            for i, (op, others) in enumerate(parts)
        )

    def joined(self, runs: Iterable[tuple[Value, ...]]) -> tuple[Value, ...]:
        """Put the outputs of all directions side by side."""
        y, *states = zip(*runs, strict=True)
        return self._stacked(y, 1, (2, 0, 1, 3)), *(
            self._stacked(state, 0, SWAP_BATCH_AND_FIRST) for state in states
        )

    def _stacked(self, values: tuple[Value, ...], axis: int, batch_first: tuple[int, ...]) -> Value:
        shape = values[0].type.shape
        apart = [self.n.emit(Reshape((*shape[:axis], 1, *shape[axis:])), v) for v in values]
        joined = self.n.emit(Concat(axis), *apart) if len(apart) > 1 else apart[0]
        return self.n.emit(Transpose(batch_first), joined) if self.batch_first else joined


def _activations(
    n: NodeContext, defaults: tuple[str, ...], directions: int
) -> list[tuple[Activation, float, float]]:
    """Alphas and betas are listed only for the activations that have them, in order."""
    alphas = list(n.attribute("activation_alpha", ()))
    betas = list(n.attribute("activation_beta", ()))
    found = []
    for name in n.attribute("activations", defaults * directions):
        if name.lower() not in ACTIVATIONS:
            raise n.fail(f"activation {name!r} is unknown")
        activation, alpha, beta = ACTIVATIONS[name.lower()]
        found.append((activation, _parameter(alpha, alphas), _parameter(beta, betas)))
    if len(found) != len(defaults) * directions:
        raise n.fail(f"takes {len(defaults) * directions} activations, got {len(found)}")
    return found


def _parameter(default: float | None, given: list[float]) -> float:
    """The next of those given, if the activation has such a parameter."""
    if default is None:
        return 0.0
    return given.pop(0) if given else default
