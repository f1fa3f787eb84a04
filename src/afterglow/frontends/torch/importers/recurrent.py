"""ATen's recurrent layers: each direction of each becomes one of ours."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.frontends.torch.importers.projected import projected_lstm
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops.elementwise import Add
from afterglow.ops.movement import Concat, Reshape, Transpose, slice_axis
from afterglow.ops.recurrent import GRU, LSTM, RNN, Activation
from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass

_SWAP = (1, 0, 2)
_LSTM_GATES = (0, 3, 1, 2)
"""PyTorch's gates are i, f, c, o; ours i, o, f, c."""
_GRU_GATES = (1, 0, 2)
"""PyTorch's gates are r, z, n; ours z, r, h."""


@dataclass(frozen=True)
class _Weights:
    """What one direction of one layer has."""

    weight: Value
    recurrence: Value
    biases: tuple[Value, Value] | None
    projection: Value | None


@aten("lstm.input")
def lstm(n: TorchNode) -> Sequence[Value]:
    """Results: h of every step, the last h and the last cell of each layer and direction."""
    states = [x for x in n.tensors("hx") if x is not None]
    if len(states) != 2:
        raise ModelError(f"an LSTM has two states, got {len(states)}")
    return _Stack(n, states).results()


@aten("gru.input", "rnn_tanh.input", "rnn_relu.input")
def one_state(n: TorchNode) -> Sequence[Value]:
    """Results: h of every step, and the last h of each layer and direction."""
    return _Stack(n, [n.value("hx")]).results()


class _Stack:
    """A call, taken apart by layer and direction."""

    def __init__(self, n: TorchNode, states: list[Value]) -> None:
        self.n = n
        self.states = states
        self.kind = n.proto.op_type.partition(".")[0]
        self.directions = 2 if n.flag("bidirectional") else 1
        self.layers = n.size("num_layers")
        if n.flag("train") and n.scalar("dropout") and self.layers > 1:
            raise n.fail(
                f"dropout of {n.scalar('dropout')} between layers is not supported",
                help="export the model in inference mode: module.eval()",
            )

    def results(self) -> Sequence[Value]:
        """Run one layer after the other."""
        n, x = self.n, self._swapped(self.n.value("input"))
        n.extents(x, 3)
        last: list[list[Value]] = [[] for _ in self.states]
        for layer in range(self.layers):
            ys = []
            for direction in range(self.directions):
                y, *states = self._run(x, layer * self.directions + direction, direction == 1)
                ys.append(y)
                for found, state in zip(last, states, strict=True):
                    found.append(n.emit(Reshape((1, *state.type.shape)), state))
            x = n.emit(Concat(2), *ys) if len(ys) > 1 else ys[0]
        stacked = (n.emit(Concat(0), *each) if len(each) > 1 else each[0] for each in last)
        return self._swapped(x), *stacked

    def _swapped(self, x: Value) -> Value:
        """From the order of the call to [steps, batch, width], and back."""
        return self.n.emit(Transpose(_SWAP), x) if self.n.flag("batch_first") else x

    def _run(self, x: Value, index: int, reverse: bool) -> tuple[Value, ...]:
        """One direction of one layer: h of every step, then the last states."""
        n, w = self.n, self._weights(index)
        first = [self._first(state, index) for state in self.states]
        if self.kind == "lstm":
            return self._run_lstm(x, w, first, reverse)
        if self.kind == "gru":
            gates = (_blocks(n, v, _GRU_GATES) for v in (w.weight, w.recurrence))
            op = GRU(reverse=reverse, linear_before_reset=True)
            return n.emit_all(op, x, *gates, *_gru_biases(n, w.biases), None, *first)
        activation = Activation.TANH if self.kind == "rnn_tanh" else Activation.RELU
        bias = None if w.biases is None else n.emit(Add(), *w.biases)
        simple = RNN(activations=(activation,), reverse=reverse)
        return n.emit_all(simple, x, w.weight, w.recurrence, bias, None, *first)

    def _run_lstm(
        self, x: Value, w: _Weights, first: list[Value], reverse: bool
    ) -> tuple[Value, ...]:
        n = self.n
        weight, recurrence = (_blocks(n, v, _LSTM_GATES) for v in (w.weight, w.recurrence))
        bias = None if w.biases is None else _blocks(n, n.emit(Add(), *w.biases), _LSTM_GATES)
        if w.projection is None:
            op = LSTM(reverse=reverse)
            return n.emit_all(op, x, weight, recurrence, bias, None, *first)
        parts = (weight, recurrence, w.projection)
        return projected_lstm(n, x, parts, bias, (first[0], first[1]), reverse=reverse)

    def _first(self, state: Value, index: int) -> Value:
        """The state that a direction of a layer begins with."""
        part = self.n.emit(slice_axis(state.type, 0, index, 1), state)
        return self.n.emit(Reshape(part.type.shape[1:]), part)

    def _weights(self, index: int) -> _Weights:
        found = [x for x in self.n.tensors("params") if x is not None]
        has_biases = self.n.flag("has_biases")
        each = len(found) // (self.layers * self.directions)
        if each not in ((4, 5) if has_biases else (2, 3)):
            raise ModelError(f"{len(found)} weights do not make {self.layers} layers")
        weight, recurrence, *rest = found[index * each : (index + 1) * each]
        biases = (rest[0], rest[1]) if has_biases else None
        projection = rest[-1] if each in (3, 5) else None
        return _Weights(weight, recurrence, biases, projection)


def _blocks(n: TorchNode, x: Value, order: Sequence[int]) -> Value:
    """The gates along axis 0 in another order."""
    width = x.type.shape[0] // len(order)
    parts = [n.emit(slice_axis(x.type, 0, index * width, width), x) for index in order]
    return n.emit(Concat(0), *parts)


def _gru_biases(
    n: TorchNode, biases: tuple[Value, Value] | None
) -> tuple[Value | None, Value | None]:
    """Both summed up, but for that of the recurrence of the last gate, which comes second."""
    if biases is None:
        return None, None
    own, other = (_blocks(n, bias, _GRU_GATES) for bias in biases)
    width = own.type.size // 3
    gates = [n.emit(slice_axis(own.type, 0, 0, 2 * width), bias) for bias in (own, other)]
    last, hidden = (n.emit(slice_axis(own.type, 0, 2 * width, width), b) for b in (own, other))
    return n.emit(Concat(0), n.emit(Add(), *gates), last), hidden
