"""TFLite's recurrent layers; what they keep from run to run are variables."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.tflite.importers.activation import FUSED, activated
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Builder, Value
from afterglow.ops.activation import Clip, Sigmoid
from afterglow.ops.control import Values, emit_scan
from afterglow.ops.elementwise import Add, Mul, Sub, scalar
from afterglow.ops.functions import Tanh
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, Transpose, slice_axis
from afterglow.ops.normalization import LayerNorm
from afterglow.ops.recurrent import LSTM
from afterglow.ops.reduction import ReduceSum
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass

_SWAPPED = (1, 0, 2)
_LEAST_VARIANCE = 1e-8
_INPUT, _FORGET, _CELL, _OUTPUT = range(4)


@tflite_op("RNN")
def rnn(n: TfliteNode) -> tuple[Value, Value]:
    """One step: f(W x + R h + bias)."""
    y, h = _rnn(n, _sequence(n, n[0]), (1, 2, 3), n[4])
    return reshaped(n, y, y.type.shape[1:]), h


@tflite_op("UNIDIRECTIONAL_SEQUENCE_RNN")
def unidirectional_rnn(n: TfliteNode) -> tuple[Value, Value]:
    """The same for each step of time."""
    y, h = _rnn(n, _time_first(n, n[0]), (1, 2, 3), n[4])
    return _as_given(n, y), h


@tflite_op("BIDIRECTIONAL_SEQUENCE_RNN")
def bidirectional_rnn(n: TfliteNode) -> list[Value]:
    """One forward and one backward in time."""
    _refuse(n, range(9, 12), "auxiliary inputs")
    x = _time_first(n, n[0])
    y, h = _rnn(n, x, (1, 2, 3), n[4])
    back, back_h = _rnn(n, x, (5, 6, 7), n[8], reverse=True)
    return [*_merged(n, y, back), h, back_h]


def _rnn(
    n: TfliteNode, x: Value, weights: Sequence[int], h: Value, *, reverse: bool = False
) -> tuple[Value, Value]:
    """All h in time, and the last; the weights are W, R and bias."""
    weight, recurrence, bias = (n[index] for index in weights)
    gates = n.emit(Add(), n.emit(MatMul(transpose_rhs=True), x, weight), bias)
    function = FUSED.get(n.word("fused_activation_function", "NONE"))

    def step(b: Builder, states: Values, parts: Values, read: Values) -> tuple[Values, Values]:
        back = b.emit(MatMul(transpose_rhs=True), states[0], read[0])
        y = b.emit(Add(), parts[0], back)
        y = y if function is None else b.emit(function(), y)
        return [y], [y]

    length = x.type.shape[0]
    last, y = emit_scan(n.builder, length, step, [h], [gates], [recurrence], reverse=reverse)
    return y, last


@tflite_op("SVDF")
def svdf(n: TfliteNode) -> tuple[Value, Value]:
    """A filter by features, then one by time over the last steps, of which the oldest goes."""
    kept = svdf_steps(n, n.emit(MatMul(transpose_rhs=True), n[0], n[1]))
    y = svdf_sums(n, n.emit(Mul(), kept, n[2]))
    return activated(n, y), reshaped(n, kept, n[4].type.shape)


def svdf_steps(n: TfliteNode, newest: Value) -> Value:
    """The last steps of each filter [batch, filters, steps], with the newest instead of one."""
    filters, memory = n.extents(n[2], 2)
    batch = n[0].type.shape[0]
    past = reshaped(n, n[4], (batch, filters, memory))
    past = n.emit(slice_axis(past.type, 2, 1, memory - 1), past)
    return n.emit(Concat(2), past, reshaped(n, newest, (batch, filters, 1)))


def svdf_sums(n: TfliteNode, products: Value) -> Value:
    """The sums of products over the steps, then over the filters of a unit, plus bias."""
    batch, filters, _ = products.type.shape
    rank, bias = n.count("rank", 1), n.get(3)
    if rank < 1 or filters % rank:
        raise ModelError(f"{filters} filters are no multiple of the rank {rank}")
    summed = n.emit(ReduceSum((2,), keepdims=False), products)
    apart = reshaped(n, summed, (batch, filters // rank, rank))
    y = n.emit(ReduceSum((2,), keepdims=False), apart)
    return y if bias is None else n.emit(Add(), y, bias)


@dataclass(frozen=True)
class _Weights:
    """The operands of one direction of an LSTM; lists are of gates input, forget, cell, output."""

    inputs: list[Value | None]
    recurrent: list[Value | None]
    peepholes: list[Value | None]
    biases: list[Value | None]
    projection: Value | None
    projection_bias: Value | None
    norms: list[Value | None]

    @classmethod
    def at(cls, n: TfliteNode, first: int, norms: int | None) -> _Weights:
        """Those from an operand on; the coefficients of layer norms are elsewhere."""
        get = n.get
        peepholes = [get(first + 8), get(first + 9), None, get(first + 10)]
        return cls(
            [get(first + gate) for gate in range(4)],
            [get(first + 4 + gate) for gate in range(4)],
            peepholes,
            [get(first + 11 + gate) for gate in range(4)],
            get(first + 15),
            get(first + 16),
            [None] * 4 if norms is None else [get(norms + gate) for gate in range(4)],
        )

    def check(self) -> None:
        """Refuse what has not all of the gates but that of the input, which may be left out."""
        needed = [*self.inputs[1:], *self.recurrent[1:], *self.biases[1:]]
        if None in needed or (self.inputs[0] is None) != (self.recurrent[0] is None):
            raise ModelError("weights or biases of gates are missing")


@tflite_op("LSTM")
def lstm(n: TfliteNode) -> Sequence[Value | None]:
    """One step; the basic kernel takes its state as operands and returns it."""
    if n.word("kernel_type", "FULL") == "BASIC":
        return _basic_lstm(n)
    y, h, cell = _lstm(n, _sequence(n, n[0]), _Weights.at(n, 1, 20), n[18], n[19])
    return reshaped(n, y, y.type.shape[1:]), h, cell


@tflite_op("UNIDIRECTIONAL_SEQUENCE_LSTM")
def unidirectional_lstm(n: TfliteNode) -> tuple[Value, ...]:
    """The same for each step of time."""
    if n.flag("diagonal_recurrent_tensors"):
        raise UnsupportedError("diagonal recurrent weights are not supported")
    y, h, cell = _lstm(n, _time_first(n, n[0]), _Weights.at(n, 1, 20), n[18], n[19])
    return _as_given(n, y), h, cell


@tflite_op("BIDIRECTIONAL_SEQUENCE_LSTM")
def bidirectional_lstm(n: TfliteNode) -> list[Value]:
    """One forward and one backward in time."""
    _refuse(n, range(39, 48), "auxiliary inputs")
    x = _time_first(n, n[0])
    y, h, cell = _lstm(n, x, _Weights.at(n, 1, None), n[35], n[36])
    back, *states = _lstm(n, x, _Weights.at(n, 18, None), n[37], n[38], reverse=True)
    return [*_merged(n, y, back), h, cell, *states]


def _basic_lstm(n: TfliteNode) -> Sequence[Value | None]:
    """Gates input, cell, forget, output of x and h side by side."""
    joined = n.emit(Concat(1), n[0], n[1])
    gates = n.emit(Add(), n.emit(MatMul(transpose_rhs=True), joined, n[2]), n[3])
    width = gates.type.shape[1] // 4
    i, c, f, o = (n.emit(slice_axis(gates.type, 1, k * width, width), gates) for k in range(4))
    new = n.emit(Mul(), n.emit(Sigmoid(), i), n.emit(Tanh(), c))
    cell = n.emit(Add(), n.emit(Mul(), n.emit(Sigmoid(), f), n[4]), new)
    h = n.emit(Mul(), n.emit(Sigmoid(), o), n.emit(Tanh(), cell))
    return h, cell, joined, gates


def _lstm(
    n: TfliteNode, x: Value, w: _Weights, h: Value, cell: Value, *, reverse: bool = False
) -> tuple[Value, Value, Value]:
    """All h in time, the last one, and the last cell."""
    w.check()
    others = [*w.peepholes, *w.norms, w.projection]
    is_plain = not any(other is not None for other in others) and w.inputs[0] is not None
    limits = n.real("cell_clip"), n.real("proj_clip")
    if is_plain and not any(limits) and n.word("fused_activation_function", "") == "TANH":
        order = (_INPUT, _OUTPUT, _FORGET, _CELL)
        lists = (w.inputs, w.recurrent, w.biases)
        weight, recurrence, bias = (n.emit(Concat(0), *(each[k] for k in order)) for each in lists)
        y, last, last_cell = n.emit_all(
            LSTM(reverse=reverse), x, weight, recurrence, bias, None, h, cell
        )
        return y, last, last_cell
    return _Lstm(n, w, *limits).run(x, h, cell, reverse)


class _Lstm:
    """An LSTM with something that ours has not: a projection, layer norms, limits of the cell."""

    def __init__(self, n: TfliteNode, w: _Weights, cell_clip: float, proj_clip: float) -> None:
        self.n = n
        self.w = w
        self.cell_clip = cell_clip
        self.proj_clip = proj_clip
        self.gates = [gate for gate in range(4) if w.inputs[gate] is not None]
        self.function = FUSED.get(n.word("fused_activation_function", "NONE"))
        self.captured: list[Value] = []

    def run(self, x: Value, h: Value, cell: Value, reverse: bool) -> tuple[Value, Value, Value]:
        """All h in time, the last one, and the last cell."""
        w = self.w
        parts = []
        for gate in self.gates:
            weight, bias = w.inputs[gate], w.biases[gate]
            part = self.n.emit(MatMul(transpose_rhs=True), x, weight)
            plain = w.norms[gate] is None and bias is not None
            parts.append(self.n.emit(Add(), part, bias) if plain else part)
        lists = (w.recurrent, w.peepholes, w.biases, w.norms)
        named = {(k, g): v for k, each in enumerate(lists) for g, v in enumerate(each)}
        named[4, 0], named[4, 1] = w.projection, w.projection_bias
        self.places = {key: value for key, value in named.items() if value is not None}
        length = x.type.shape[0]
        results = emit_scan(
            self.n.builder,
            length,
            self._step,
            [h, cell],
            parts,
            [*self.places.values()],
            reverse=reverse,
        )
        last, last_cell, y = results
        return y, last, last_cell

    def _step(
        self, b: Builder, states: Values, parts: Values, read: Values
    ) -> tuple[Values, Values]:
        inner = dict(zip(self.places, read, strict=True))
        h, cell = states
        sums = {}
        for gate, part in zip(self.gates, parts, strict=True):
            back = b.emit(MatMul(transpose_rhs=True), h, inner[0, gate])
            sums[gate] = b.emit(Add(), part, back)
        f = b.emit(Sigmoid(), self._gate(b, inner, sums, _FORGET, cell))
        if _INPUT in sums:
            i = b.emit(Sigmoid(), self._gate(b, inner, sums, _INPUT, cell))
        else:
            i = b.emit(Sub(), scalar(b, 1, f), f)
        new = self._activated(b, self._gate(b, inner, sums, _CELL, cell))
        cell = b.emit(Add(), b.emit(Mul(), f, cell), b.emit(Mul(), i, new))
        cell = _clipped(b, cell, self.cell_clip)
        o = b.emit(Sigmoid(), self._gate(b, inner, sums, _OUTPUT, cell))
        h = b.emit(Mul(), o, self._activated(b, cell))
        if (4, 0) in inner:
            h = b.emit(MatMul(transpose_rhs=True), h, inner[4, 0])
            h = b.emit(Add(), h, inner[4, 1]) if (4, 1) in inner else h
            h = _clipped(b, h, self.proj_clip)
        return [h, cell], [h]

    def _gate(
        self,
        b: Builder,
        inner: dict[tuple[int, int], Value],
        sums: dict[int, Value],
        gate: int,
        cell: Value,
    ) -> Value:
        """The sum of a gate with what it sees of the cell, normalized if there is a norm."""
        x = sums[gate]
        if (1, gate) in inner:
            x = b.emit(Add(), x, b.emit(Mul(), cell, inner[1, gate]))
        if (3, gate) in inner:
            x = b.emit(LayerNorm(-1, _LEAST_VARIANCE), x, inner[3, gate], inner.get((2, gate)))
        return x

    def _activated(self, b: Builder, x: Value) -> Value:
        return x if self.function is None else b.emit(self.function(), x)


def _clipped(b: Builder, x: Value, limit: float) -> Value:
    return b.emit(Clip(-limit, limit), x) if limit > 0 else x


def _sequence(n: TfliteNode, x: Value) -> Value:
    """A single step as a sequence."""
    return reshaped(n, x, (1, *x.type.shape))


def _time_first(n: TfliteNode, x: Value) -> Value:
    n.extents(x, 3)
    return x if n.flag("time_major") else n.emit(Transpose(_SWAPPED), x)


def _as_given(n: TfliteNode, y: Value) -> Value:
    return y if n.flag("time_major") else n.emit(Transpose(_SWAPPED), y)


def _merged(n: TfliteNode, y: Value, back: Value) -> list[Value]:
    """Both directions side by side, or each a result."""
    both = [_as_given(n, y), _as_given(n, back)]
    return [n.emit(Concat(2), *both)] if n.flag("merge_outputs") else both


def _refuse(n: TfliteNode, operands: range, what: str) -> None:
    if any(n.get(index) is not None for index in operands):
        raise UnsupportedError(f"{what} are not supported")
