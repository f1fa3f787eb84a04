"""Recurrent layers of [steps, batch, features], or [batch, steps, features] with `batch_first`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from afterglow.graph import Value
from afterglow.nn.basic import Dropout, within
from afterglow.nn.checks import check_counts, check_shares
from afterglow.nn.layer import Layer
from afterglow.nn.scope import Scope
from afterglow.ops import recurrent as ops
from afterglow.ops.elementwise import Add
from afterglow.ops.movement import Concat, Transpose, slice_axis
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True, repr=False)
class Recurrent(Layer):
    """Base: layers and directions, with PyTorch's names, shapes and order of gates.

    The result is the output of each step, or with `return_sequences=False` only the last state of
    the last layer, [batch, features]. States begin at 0.
    """

    gates: ClassVar[tuple[int, ...]]
    """The places of the op's gates among PyTorch's."""
    input_size: int
    hidden_size: int
    num_layers: int = 1
    bias: bool = True
    batch_first: bool = False
    dropout: float = 0.0
    bidirectional: bool = False
    return_sequences: bool = True

    def __post_init__(self) -> None:
        check_counts(self, "input_size", "hidden_size", "num_layers")
        check_shares(self, "dropout")

    def build(self, scope: Scope, x: Value) -> Value:
        """Layer on layer; dropout is between them."""
        scope.expect_rank(x, "batch, steps, features" if self.batch_first else "steps, batch, x")
        fix = f"make input_size {x.type.shape[-1]}, or change the layer before it"
        scope.expect(x, -1, self.input_size, "features", fix)
        y = scope.emit(Transpose((1, 0, 2)), x) if self.batch_first else x
        state = y
        for number in range(self.num_layers):
            if number and self.dropout:
                y = Dropout(self.dropout).build(scope, y)
            y, state = self._layer(scope, number, y)
        if not self.return_sequences:
            return state
        return scope.emit(Transpose((1, 0, 2)), y) if self.batch_first else y

    def _layer(self, scope: Scope, number: int, x: Value) -> tuple[Value, Value]:
        """The outputs and the last state; both directions side by side."""
        suffixes = ("", "_reverse") if self.bidirectional else ("",)
        runs = [self._direction(scope, f"_l{number}{s}", x, bool(s)) for s in suffixes]
        outputs, states = ([*parts] for parts in zip(*runs, strict=True))
        return _joined(scope, outputs, 2), _joined(scope, states, 1)

    def _direction(self, scope: Scope, suffix: str, x: Value, reverse: bool) -> tuple[Value, Value]:
        default, rows = within(self.hidden_size), len(self.gates) * self.hidden_size
        shapes = {
            "weight_ih": (rows, x.type.shape[-1]),
            "weight_hh": (rows, self.hidden_size),
            **({"bias_ih": (rows,), "bias_hh": (rows,)} if self.bias else {}),
        }
        made = [scope.parameter(name + suffix, shape, default) for name, shape in shapes.items()]
        weights = [self._in_order(scope, value) for value in made]
        y, state, *_ = self._run(scope, x, weights, reverse)
        return y, state

    def _in_order(self, scope: Scope, weight: Value) -> Value:
        """The gates of a weight in the order of the op."""
        width = self.hidden_size
        parts = [
            scope.emit(slice_axis(weight.type, 0, place * width, width), weight)
            for place in self.gates
        ]
        return scope.emit(Concat(0), *parts)

    def _run(
        self, scope: Scope, x: Value, weights: Sequence[Value], reverse: bool
    ) -> tuple[Value, ...]:
        raise NotImplementedError


class LSTM(Recurrent):
    """Long short-term memory."""

    gates = (0, 3, 1, 2)

    def _run(
        self, scope: Scope, x: Value, weights: Sequence[Value], reverse: bool
    ) -> tuple[Value, ...]:
        weight, recurrence, *biases = weights
        bias = scope.emit(Add(), *biases) if biases else None
        return scope.emit_all(ops.LSTM(reverse=reverse), x, weight, recurrence, bias)


class GRU(Recurrent):
    """Gated recurrent units; the reset gate comes after the product, as in PyTorch."""

    gates = (1, 0, 2)

    def _run(
        self, scope: Scope, x: Value, weights: Sequence[Value], reverse: bool
    ) -> tuple[Value, ...]:
        weight, recurrence, *biases = weights
        op = ops.GRU(reverse=reverse, linear_before_reset=True)
        return scope.emit_all(op, x, weight, recurrence, *self._biases(scope, biases))

    def _biases(self, scope: Scope, biases: Sequence[Value]) -> list[Value | None]:
        """The sum of both, but for the recurrent one of the last gate, which comes second."""
        if not biases:
            return [None, None]
        width, type = self.hidden_size, biases[0].type
        first, last = slice_axis(type, 0, 0, 2 * width), slice_axis(type, 0, 2 * width, width)
        both = scope.emit(Add(), *(scope.emit(first, bias) for bias in biases))
        own, hidden = (scope.emit(last, bias) for bias in biases)
        return [scope.emit(Concat(0), both, own), hidden]


def _joined(scope: Scope, parts: Sequence[Value], axis: int) -> Value:
    return scope.emit(Concat(axis), *parts) if len(parts) > 1 else parts[0]
