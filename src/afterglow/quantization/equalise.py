"""Equalisation: channels of activations are scaled to similar ranges, at the cost of weights.

What a layer computes is divided, channel by channel, and the weights that multiply it later take
the factors. Activations share one scale, so that small channels next to large ones would be
stored coarsely. Factors are powers of two: results keep every bit in floats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from afterglow.graph import Constant, Function, Node, Value
from afterglow.ops.activation import Clip, LeakyRelu, PRelu, Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.normalization import LayerNorm, RMSNorm
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.ops.reduction import ReduceMean
from afterglow.passes import Pass
from afterglow.quantization.layers import weight_rows
from afterglow.quantization.observation import ChannelRanges
from afterglow.types import Array
from afterglow.types.dtype import f32

MOST_EXPONENT = 6
"""Channels are scaled by at most two to the power of that."""
DEVIATIONS = 3
"""How far values are expected to reach, in standard deviations; inputs have variance 1."""
BALANCES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""What is tried: from weights that are equal in all channels to activations that are."""
STRENGTHS = (0.5, 1.0)
"""How much of that is tried."""
LEAST_GAIN = 0.9
"""The noise that must be expected at most, as a part of that without scaling."""
ACTIVATION_STEPS, WEIGHT_STEPS = 255, 127
"""Steps of the range of activations, and from zero to the largest weight of a row."""


def equalising_exponents(
    first: Array, second: Array, balance: float = 0.5, strength: float = 1.0
) -> Array:
    """Exponents e for which first / 2^e and second 2^e vary less, but for a common factor.

    `first` is how far each channel reaches, `second` the largest weight that multiplies it. With
    a balance of 1 the first are equal then, with 0 the second, and between both are alike.
    Channels that are always zero, and those that nothing reads, are left alone.
    """
    used = (first > 0) & (second > 0)
    wanted = np.zeros(len(first))
    wanted[used] = balance * np.log2(first[used]) - (1 - balance) * np.log2(second[used])
    middle = np.median(wanted[used]) if used.any() else 0.0
    exponents = np.clip(np.rint(strength * (wanted - middle)), -MOST_EXPONENT, MOST_EXPONENT)
    return np.where(used, exponents, 0).astype(np.int32)


class Equalise(Pass):
    """Channels between layers are scaled so that they suit one scale for all.

    Layers are convolutions, products and norms with constant weights; between them may be what
    scales with its operand, channel by channel: rectifiers, pools, and moves of whole channels.
    Without observed ranges, those that weights and biases let expect are taken.
    """

    name = "equalise"

    def __init__(self, ranges: Mapping[str, ChannelRanges] | None = None) -> None:
        self.ranges = ranges or {}
        """By the name of the value that a layer reads."""
        self.exponents: dict[str, Array] = {}
        """By what powers of two the channels of values were divided, by the names of these."""

    def run(self, function: Function) -> bool:
        """See the class."""
        self.exponents = {}
        for pair in [*_pairs(function, self.ranges)]:
            exponents = pair.best_exponents()
            if exponents.any() and pair.can_scale(exponents):
                pair.scale(function, exponents)
                self.exponents |= {value.name: exponents for value in pair.between}
        return bool(self.exponents)


@dataclass(frozen=True, eq=False)
class _Parameter:
    """A constant operand, and the channel that each of its elements belongs to."""

    node: Node
    place: int
    channels: Array
    """It broadcasts to the shape of the constant."""

    @property
    def constant(self) -> Constant:
        constant = self.node.operands[self.place]
        assert isinstance(constant, Constant)
        return constant

    def scaled(self, factors: Array) -> Array:
        """The elements, times a factor for each channel."""
        data = self.constant.data
        return np.asarray(data * factors[self.channels], data.dtype)


@dataclass(frozen=True, eq=False)
class _Reader(_Parameter):
    """The weight of a layer, with the channels of what it multiplies."""

    def rows(self) -> Array:
        """As f64[groups, rows, taps, channels of a group]."""
        rows = weight_rows(self.node.op, self.constant.data.astype(np.float64))
        return rows.reshape(*rows.shape[:2], -1, self.group_channels)

    @property
    def group_channels(self) -> int:
        """How many channels a row reads."""
        op, shape = self.node.op, self.constant.type.shape
        return shape[-1] if isinstance(op, Conv) else self.channels.size


@dataclass(frozen=True, eq=False)
class _Pair:
    """What computes a value, the weights that read it, and what its channels hold."""

    first: list[_Parameter]
    second: list[_Reader]
    between: list[Value]
    """The values whose channels are scaled."""
    reach: Array
    power: Array
    """The mean square of each channel."""

    def best_exponents(self) -> Array:
        """The exponents with the least noise expected; zeros if none is much better."""
        rows = [reader.rows() for reader in self.second]
        weights = np.max([np.abs(part).max((1, 2)).ravel() for part in rows], 0)
        tried = [
            equalising_exponents(self.reach, weights, balance, strength)
            for balance in BALANCES
            for strength in STRENGTHS
        ]
        none = np.zeros(len(self.reach), np.int32)
        best = min(tried, key=lambda exponents: self._noise(rows, exponents))
        gains = self._noise(rows, best) < LEAST_GAIN * self._noise(rows, none)
        return best if gains else none

    def _noise(self, rows: list[Array], exponents: Array) -> float:
        """The noise in what the readers compute, of rounded activations and rounded weights."""
        factors = np.ldexp(1.0, exponents)
        step = float((self.reach / factors).max()) / ACTIVATION_STEPS
        power = self.power / factors**2
        noise = 0.0
        for part in rows:
            groups, _, taps, channels = part.shape
            scaled = part * factors.reshape(groups, 1, 1, channels)
            steps = np.abs(scaled).max((2, 3)) / WEIGHT_STEPS
            inputs = taps * power.reshape(groups, channels).sum(1)
            noise += step**2 * float(np.square(scaled).sum())
            noise += float((np.square(steps).sum(1) * inputs).sum())
        return noise

    def can_scale(self, exponents: Array) -> bool:
        """Whether no number becomes infinite."""
        return all(np.isfinite(data).all() for _, data in self._scaled(exponents))

    def scale(self, function: Function, exponents: Array) -> None:
        """Divide the channels of the first layer, and multiply the weights that read them."""
        for parameter, data in self._scaled(exponents):
            constant = parameter.constant
            if constant.use_count == 1:
                function.module.erase_constant(constant)
            scaled = function.module.constant(constant.name, data)
            parameter.node.set_operand(parameter.place, scaled)

    def _scaled(self, exponents: Array) -> Iterator[tuple[_Parameter, Array]]:
        factors = np.ldexp(np.float32(1), exponents)
        yield from [(parameter, parameter.scaled(1 / factors)) for parameter in self.first]
        yield from [(reader, reader.scaled(factors)) for reader in self.second]


def _pairs(function: Function, ranges: Mapping[str, ChannelRanges]) -> Iterator[_Pair]:
    """Layers, each with all that reads what it computes, where all of that is weights."""
    escaping = {id(value) for value in function.escaping()}
    reaches: dict[Value | None, Array] = {}
    for node in function.nodes:
        layer = _layer(node)
        readers = _readers(layer.value, escaping) if layer else None
        if layer is None or not readers:
            continue
        second = [reader for reader in map(_reader, readers) if reader is not None]
        own = [p for p in (*layer.parameters, *second) if _is_own(p.constant, escaping)]
        if len(own) == len(layer.parameters) + len(readers):
            read = [reader.operands[0] for reader in readers]
            held = _observed(read[0], ranges) or layer.expected(reaches.get(node.operands[0]))
            reaches |= dict.fromkeys(read, held[0])
            yield _Pair(layer.parameters, second, [*_between(layer.value)], *held)


@dataclass(frozen=True, eq=False)
class _Layer:
    """What computes a value, its bias included: constants that scale its channels."""

    node: Node
    value: Value
    parameters: list[_Parameter]

    def expected(self, inputs: Array | None) -> tuple[Array, Array]:
        """How far each channel is expected to reach, for inputs that do so; and its mean square."""
        weight, *biases = (p.constant.data.astype(np.float64) for p in self.parameters)
        reader = _reader(self.node)
        if reader is None:
            deviations = np.abs(weight).reshape(-1, weight.shape[-1]).max(0)
        else:
            rows = reader.rows()
            groups, _, _, channels = rows.shape
            sizes = np.ones(groups * channels) if inputs is None else inputs / DEVIATIONS
            scaled = rows * sizes.reshape(groups, 1, 1, channels)
            deviations = np.sqrt(np.square(scaled).sum((2, 3))).ravel()
        bias = sum(np.abs(part).reshape(-1, part.shape[-1]).max(0) for part in biases)
        return DEVIATIONS * deviations + bias, deviations**2 + np.square(bias)


def _layer(node: Node) -> _Layer | None:
    """The layer that a node begins, if it has constants that scale its channels."""
    if not isinstance(node.op, Conv | MatMul | LayerNorm | RMSNorm):
        return None
    value = node.result
    index = np.arange(value.type.shape[-1])
    match node:
        case Node(Conv(), [_, Constant() as weight, *biases]):
            channels = index.reshape(-1, *(1,) * (weight.type.rank - 1))
        case Node(LayerNorm() | RMSNorm(), [_, Constant(), *biases]):
            channels = index
        case Node(MatMul() as op, [_, Constant() as weight]) if weight.type.rank == 2:
            channels = index[:, None] if op.transpose_rhs else index
            biases = []
        case _:
            return None
    vectors = [_Parameter(node, 2, index)] if any(biases) else []
    match value.users:
        case [Node(Add(), [Value() as x, Constant()]) as add] if x is value and not vectors:
            value, vectors = add.result, [_Parameter(add, 1, index)]
    parameters = [_Parameter(node, 1, channels), *vectors]
    return _Layer(node, value, parameters) if all(map(_fits, parameters)) else None


def _fits(parameter: _Parameter) -> bool:
    """Whether it is a constant with an element for each channel."""
    data = parameter.node.operands[parameter.place]
    shape = parameter.channels.shape
    if not isinstance(data, Constant) or data.type.rank < len(shape):
        return False
    along = zip(data.type.shape[::-1], shape[::-1], strict=False)
    return all(extent == channels for extent, channels in along if channels != 1)


def _readers(value: Value, escaping: set[int]) -> list[Node] | None:
    """The layers that multiply a value by weights; None if anything else reads it."""
    if id(value) in escaping or not value.uses:
        return None
    found: list[Node] = []
    for node, place in value.uses:
        if place != 0:
            return None
        further = [node] if isinstance(node.op, Conv | MatMul) else None
        if _keeps_channels(node):
            further = _readers(node.results[0], escaping)
        if further is None:
            return None
        found.extend(further)
    return found


def _between(value: Value) -> Iterator[Value]:
    """A value, and what is computed of it before a layer reads it."""
    yield value
    for node in value.users:
        if _keeps_channels(node):
            yield from _between(node.results[0])


def _keeps_channels(node: Node) -> bool:
    """Whether a channel of the result scales with the same channel of the first operand."""
    (x, *_), result = node.given, node.results[0]
    match node.op:
        case Relu() | LeakyRelu() | PRelu() | MaxPool() | AvgPool():
            return True
        case Clip(low, high):
            return low == 0 and high in (None, np.inf)
        case ReduceMean(axes):
            return all(axis % x.type.rank != x.type.rank - 1 for axis in axes)
        case Reshape():
            return x.type.shape[-1:] == result.type.shape[-1:]
        case Transpose(perm):
            return perm[-1:] == (x.type.rank - 1,)
    return False


def _reader(node: Node) -> _Reader | None:
    """The weight that multiplies the channels of what a layer reads."""
    match node:
        case Node(Conv() as op, [Value() as x, Constant() as weight, *_]):
            groups = np.arange(x.type.shape[-1]).reshape(op.groups, -1)
            rows = np.repeat(groups, weight.type.shape[0] // op.groups, 0)
            inner = (1,) * (weight.type.rank - 2)
            return _Reader(node, 1, rows.reshape(len(rows), *inner, -1))
        case Node(MatMul(transpose_lhs=False) as op, [Value() as x, Constant() as weight]):
            if weight.type.rank == 2:
                index = np.arange(x.type.shape[-1])
                return _Reader(node, 1, index if op.transpose_rhs else index[:, None])
    return None


def _is_own(constant: Constant, escaping: set[int]) -> bool:
    """Whether a constant may change: nothing else reads it, or it is a vector, easily copied."""
    is_own = constant.use_count == 1 or constant.type.rank <= 1
    return is_own and id(constant) not in escaping and constant.type.dtype is f32


def _observed(
    value: Value | None, ranges: Mapping[str, ChannelRanges]
) -> tuple[Array, Array] | None:
    """How far the channels of a value were observed to reach, and about their mean square."""
    seen = ranges.get(value.name) if value is not None else None
    if value is None or seen is None or seen.low.shape != value.type.shape[-1:]:
        return None
    low, high, mean = (part.astype(np.float64) for part in (seen.low, seen.high, seen.mean))
    return np.maximum(-low, high), np.square(mean) + np.square((high - low) / (2 * DEVIATIONS))
