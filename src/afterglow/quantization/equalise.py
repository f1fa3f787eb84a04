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
from afterglow.passes import Pass, Property
from afterglow.quantization.observation import ChannelRanges
from afterglow.types import Array
from afterglow.types.dtype import f32

MOST_EXPONENT = 6
"""Channels are scaled by at most two to the power of that."""
DEVIATIONS = 3
"""How far values are expected to reach, in standard deviations; inputs have variance 1."""
ROUNDS = 4
"""How often all pairs of layers are equalised, as each changes its neighbours."""


def equalising_exponents(first: Array, second: Array) -> Array:
    """Exponents e with first / 2^e about as large as second 2^e, but for a common factor.

    `first` is how far each channel reaches, `second` the largest weight that multiplies it.
    Channels that are always zero, and those that nothing reads, are left alone.
    """
    used = (first > 0) & (second > 0)
    if not used.any():
        return np.zeros(len(first), np.int32)
    halves = np.zeros(len(first))
    halves[used] = np.log2(first[used] / second[used]) / 2
    centred = np.rint(halves - np.median(halves[used]))
    return np.where(used, np.clip(centred, -MOST_EXPONENT, MOST_EXPONENT), 0).astype(np.int32)


class Equalise(Pass):
    """Channels between layers are scaled so that they suit one scale for all.

    Layers are convolutions, products and norms with constant weights; between them may be what
    scales with its operand, channel by channel: rectifiers, pools, and moves of whole channels.
    Without observed ranges, those that weights and biases let expect are taken.
    """

    name = "equalise"
    requires = frozenset({Property.CHANNELS_LAST})

    def __init__(self, ranges: Mapping[str, ChannelRanges] | None = None) -> None:
        self.ranges = ranges or {}
        """By the name of the value that a layer reads."""

    def run(self, function: Function) -> bool:
        """See the class."""
        pairs = [*_pairs(function, self.ranges)]
        data = {p.constant: p.constant.data for pair in pairs for p in (*pair.first, *pair.second)}
        for _ in range(ROUNDS):
            if not [pair for pair in pairs if pair.equalise(data)]:
                break
        changed = [c for c, array in data.items() if array is not c.data]
        for constant in changed:
            _replace(function, constant, data[constant])
        return bool(changed)


@dataclass(frozen=True, eq=False)
class _Parameter:
    """A constant, and the channel that each of its elements belongs to, as far as it differs."""

    constant: Constant
    channels: Array

    def scaled(self, data: Array, factors: Array) -> Array:
        return np.asarray(data * factors[self.channels], data.dtype)

    def largest(self, data: Array, count: int) -> Array:
        """The largest magnitude of each channel."""
        largest = np.zeros(count)
        np.maximum.at(largest, np.broadcast_to(self.channels, data.shape), np.abs(data))
        return largest

    def norms(self, data: Array, count: int) -> Array:
        """The root of the sum of squares of each channel."""
        channels = np.broadcast_to(self.channels, data.shape)
        return np.sqrt(np.bincount(channels.ravel(), np.square(data).ravel(), count))


@dataclass(eq=False)
class _Pair:
    """What computes a value, the weights that read it, and how far its channels reach."""

    first: list[_Parameter]
    second: list[_Parameter]
    reach: Array

    def equalise(self, data: dict[Constant, Array]) -> bool:
        """Scale both sides; say whether anything changed."""
        count = len(self.reach)
        weights = [p.largest(data[p.constant], count) for p in self.second]
        exponents = equalising_exponents(self.reach, np.max(weights, 0))
        factors = np.ldexp(np.float32(1), exponents)
        new = {p.constant: p.scaled(data[p.constant], 1 / factors) for p in self.first}
        new |= {p.constant: p.scaled(data[p.constant], factors) for p in self.second}
        if not exponents.any() or not all(np.isfinite(array).all() for array in new.values()):
            return False
        data.update(new)
        self.reach = self.reach / factors
        return True


def _pairs(function: Function, ranges: Mapping[str, ChannelRanges]) -> Iterator[_Pair]:
    """Layers, each with all that reads what it computes, where all of that is weights."""
    escaping = {id(value) for value in function.escaping()}
    reaches: dict[Value | None, Array] = {}
    for node in function.nodes:
        layer = _layer(node)
        readers = _readers(layer.value, escaping) if layer else None
        if layer is None or not readers:
            continue
        second = [p for p in map(_multiplier, readers) if p is not None]
        own = [p for p in (*layer.parameters, *second) if _is_own(p.constant, escaping)]
        if len(own) == len(layer.parameters) + len(readers):
            read = [reader.operands[0] for reader in readers]
            observed = _observed(read[0], ranges)
            reach = layer.reach(reaches.get(node.operands[0])) if observed is None else observed
            reaches |= dict.fromkeys(read, reach)
            yield _Pair(layer.parameters, second, reach)


@dataclass(frozen=True, eq=False)
class _Layer:
    """What computes a value, its bias included: constants that scale its channels."""

    node: Node
    value: Value
    parameters: list[_Parameter]

    def reach(self, inputs: Array | None) -> Array:
        """How far each channel is expected to reach, for inputs that reach that far, or to 3."""
        weight, *biases = self.parameters
        count = self.value.type.shape[-1]
        data = weight.constant.data.astype(np.float64)
        multiplier = _multiplier(self.node)
        if multiplier is None or inputs is None:
            spread = DEVIATIONS * weight.norms(data, count)
        else:
            spread = weight.norms(multiplier.scaled(data, inputs), count)
        return sum((p.largest(p.constant.data, count) for p in biases), spread)


def _layer(node: Node) -> _Layer | None:
    """The layer that a node begins, if it has constants that scale its channels."""
    if not isinstance(node.op, Conv | MatMul | LayerNorm | RMSNorm):
        return None
    value = node.result
    index = np.arange(value.type.shape[-1])
    match node:
        case Node(Conv(), [_, Constant() as weight, *bias]):
            first = _Parameter(weight, index.reshape(-1, *(1,) * (weight.type.rank - 1)))
        case Node(LayerNorm() | RMSNorm(), [_, Constant() as weight, *bias]):
            first = _Parameter(weight, index)
        case Node(MatMul() as op, [_, Constant() as weight]) if weight.type.rank == 2:
            first = _Parameter(weight, index[:, None] if op.transpose_rhs else index)
            value, bias = _with_bias(value)
        case _:
            return None
    vectors = [_Parameter(vector, index) for vector in bias if isinstance(vector, Constant)]
    fits = all(p.constant.type.shape[-1:] == index.shape for p in vectors)
    is_known = len(vectors) == sum(vector is not None for vector in bias)
    is_whole = isinstance(node.op, Conv | MatMul) or weight.type.shape[-1:] == index.shape
    return _Layer(node, value, [first, *vectors]) if fits and is_known and is_whole else None


def _with_bias(product: Value) -> tuple[Value, list[Value | None]]:
    """A product, or its sum with a constant if nothing else reads it, and that constant."""
    match product.users:
        case [Node(Add(), [Value() as x, Constant() as bias]) as add] if x is product:
            return add.result, [bias]
    return product, []


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


def _multiplier(node: Node) -> _Parameter | None:
    """The weight that multiplies the channels of what a layer reads."""
    match node:
        case Node(Conv() as op, [Value() as x, Constant() as weight, *_]):
            groups = np.arange(x.type.shape[-1]).reshape(op.groups, -1)
            rows = np.repeat(groups, weight.type.shape[0] // op.groups, 0)
            inner = (1,) * (weight.type.rank - 2)
            return _Parameter(weight, rows.reshape(len(rows), *inner, -1))
        case Node(MatMul(transpose_lhs=False) as op, [Value() as x, Constant() as weight]):
            index = np.arange(x.type.shape[-1])
            return _Parameter(weight, index if op.transpose_rhs else index[:, None])
    return None


def _is_own(constant: Constant, escaping: set[int]) -> bool:
    """Whether a constant may change: nothing else reads it."""
    return constant.use_count == 1 and id(constant) not in escaping and constant.type.dtype is f32


def _observed(value: Value | None, ranges: Mapping[str, ChannelRanges]) -> Array | None:
    """How far the channels of a value were observed to reach."""
    seen = ranges.get(value.name) if value is not None else None
    if value is None or seen is None or seen.low.shape != value.type.shape[-1:]:
        return None
    return np.maximum(-seen.low, seen.high).astype(np.float64)


def _replace(function: Function, constant: Constant, data: Array) -> None:
    """Replace a constant by one with other elements, under the same name."""
    module = function.module
    module.erase_constant(constant)
    other = module.constant(constant.name, data)
    for node, place in constant.uses:
        node.set_operand(place, other)
