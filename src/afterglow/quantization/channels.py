"""Channels that are scaled together: which of them, and the constants that scale them.

Channels run along the last axis. What rectifiers, sums, pools and moves compute of channels that
are divided by a positive factor is divided by the same one, so that all of these have one factor.
Weights of convolutions and products, and parameters of norms, are where factors come from and
where they end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field, replace

import numpy as np

from afterglow.graph import Constant, Function, Node, Value
from afterglow.ops.activation import Clip, LeakyRelu, PRelu, Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add, Div, Max, Min, Mul, Neg, Sub
from afterglow.ops.image import Resize
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, Movement, Pad
from afterglow.ops.normalization import LayerNorm, RMSNorm
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.ops.reduction import ReduceMax, ReduceMean, ReduceMin, ReduceSum
from afterglow.quantization.layers import weight_rows
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import f32
from afterglow.types.extent import is_ranged

FIXED = 0
"""The set of the channels that cannot be scaled."""
MOST_MOVED = 1 << 23
"""Elements of a value whose channels are followed through moves of single elements."""


@dataclass(frozen=True, eq=False)
class Parameter:
    """A constant operand, and the set of channels that each of its elements belongs to."""

    node: Node
    place: int
    channels: Array
    """It broadcasts with the constant."""

    @property
    def constant(self) -> Constant:
        """What the operand is now."""
        constant = self.node.operands[self.place]
        assert isinstance(constant, Constant)
        return constant


@dataclass(frozen=True, eq=False)
class Reader(Parameter):
    """The weight of a layer, with the channels of what it multiplies."""

    @property
    def value(self) -> Value:
        """What it multiplies."""
        return self.node.given[0]

    def rows(self) -> Array:
        """As f64[groups, rows, taps, channels of a group]."""
        op, weight = self.node.op, self.constant.data
        rows = weight_rows(op, weight.astype(np.float64))
        channels = weight.shape[-1] if isinstance(op, Conv) else rows.shape[-1]
        return rows.reshape(*rows.shape[:2], -1, channels)


@dataclass(frozen=True, eq=False)
class Bound:
    """A clip: its channels scale as long as they stay below its bounds."""

    value: Value
    low: float
    high: float


@dataclass
class ChannelGroup:
    """Values whose channels are scaled together: sets of channels that have one factor each."""

    size: int
    """The number of sets; one more has the channels that are not scaled."""
    values: dict[Value, Array] = field(default_factory=dict)
    """For each channel of each value its set."""
    parameters: list[Parameter] = field(default_factory=list)
    """Constants to be divided by the factors."""
    readers: list[Reader] = field(default_factory=list)
    """Constants to be multiplied by them."""
    bounds: list[Bound] = field(default_factory=list)


def fixed_values(function: Function) -> list[Value]:
    """The values of f32 inside a function of whose channels none can be scaled."""
    ties = _Ties(function)
    sets = ties.sets()
    return [
        value
        for value, ids in ties.ids.items()
        if value.type.rank >= 2 and id(value) not in ties.escaping and (sets[ids] == FIXED).all()
    ]


def channel_groups(function: Function, gains: Collection[Node] = ()) -> list[ChannelGroup]:
    """The groups of a function, in the order of computation.

    Gains are products by a vector that scale their result, whatever they read.
    """
    ties = _Ties(function, gains)
    sets, groups = ties.sets(), ties.groups()
    found: dict[int, ChannelGroup] = {}
    local = np.zeros(len(sets), np.int64)
    for label in np.unique(groups[groups != FIXED]):
        own = np.unique(sets[(groups == label) & (sets != FIXED)])
        local[own] = np.arange(len(own))
        found[label] = ChannelGroup(len(own))

    def places(ids: Array, group: ChannelGroup) -> Array:
        return np.where(sets[ids] == FIXED, group.size, local[sets[ids]])

    def group_of(ids: Array) -> ChannelGroup | None:
        return found.get(groups[ids].max(initial=FIXED))

    for value, ids in ties.ids.items():
        if (group := group_of(ids)) is not None:
            group.values[value] = places(ids, group)
    for parameter in ties.parameters:
        if (group := group_of(parameter.channels)) is not None:
            moved = replace(parameter, channels=places(parameter.channels, group))
            kind = group.readers if isinstance(moved, Reader) else group.parameters
            kind.append(moved)  # type: ignore[arg-type]
    for bound in ties.bounds:
        if (group := group_of(ties.ids[bound.value])) is not None:
            group.bounds.append(bound)
    return [group for group in found.values() if group.readers]


def divide_channels(function: Function, group: ChannelGroup, factors: Array) -> bool:
    """Divide the channels of a group by a factor for each set, and one for what is not scaled.

    Nothing is done, and it is False, if a constant would become infinite. A weight whose result
    is added to what it reads is divided as well as multiplied.
    """
    found: dict[tuple[Node, int], tuple[Parameter, Array]] = {}
    for parameters, by in ((group.parameters, 1 / factors), (group.readers, factors)):
        for parameter in parameters:
            operand = parameter.node, parameter.place
            data = found[operand][1] if operand in found else parameter.constant.data
            found[operand] = parameter, np.asarray(data * by[parameter.channels], data.dtype)
    if not all(np.isfinite(data).all() for _, data in found.values()):
        return False
    for parameter, data in found.values():
        _replace(function, parameter, data)
    return True


def _replace(function: Function, parameter: Parameter, data: Array) -> None:
    constant = parameter.constant
    if constant.use_count == 1 and not any(constant is v for v in function.escaping()):
        function.module.erase_constant(constant)
    scaled = function.module.constant(constant.name, data)
    parameter.node.set_operand(parameter.place, scaled)


class _Ties:
    """Finds which channels have one factor; every channel of every value has a number."""

    def __init__(self, function: Function, gains: Collection[Node] = ()) -> None:
        self.gains = gains
        self.count = FIXED + 1
        self.ids: dict[Value, Array] = {}
        self.pairs: list[tuple[Array, Array]] = []
        self.parameters: list[Parameter] = []
        self.bounds: list[Bound] = []
        self.escaping = {id(value) for value in function.escaping()}
        for node in function.nodes:
            if node.predicate is not None or not self._tie(node):
                for value in (*node.inputs(), *node.results):
                    self.fix(value)
        for value in [*self.ids]:
            if value.producer is None or id(value) in self.escaping:
                self.fix(value)

    def sets(self) -> Array:
        """For each channel the least that has the same factor."""
        return _labels(self.count, self.pairs)

    def groups(self) -> Array:
        """For each channel the least one of all values that are scaled together."""
        sets = self.sets()
        beside = []
        for ids in self.ids.values():
            free = sets[ids][sets[ids] != FIXED]
            if free.size:
                beside.append((free, np.full_like(free, free[0])))
        found = _labels(self.count, beside)[sets]
        return np.where(sets == FIXED, FIXED, found)

    def of(self, value: Value) -> Array:
        """The numbers of the channels of a value."""
        if value not in self.ids:
            shape = value.type.shape
            if isinstance(value, Constant) or not shape or is_ranged(shape[-1]):
                return np.zeros(1, np.int64)
            self.ids[value] = np.arange(self.count, self.count + shape[-1])
            self.count += shape[-1]
        return self.ids[value]

    def unite(self, *parts: Array) -> bool:
        """Channels have one factor each."""
        first, *others = np.broadcast_arrays(*parts)
        self.pairs.extend((first.ravel(), other.ravel()) for other in others)
        return True

    def fix(self, value: Value) -> None:
        """The channels of a value are not scaled."""
        if value.type.dtype is f32 and not isinstance(value, Constant):
            self.unite(self.of(value), np.array(FIXED))

    def _tie(self, node: Node) -> bool:
        """Tie what a node reads to what it computes; False if it is not known how."""
        if any(value.type.dtype is not f32 for value in (*node.given, *node.results)):
            return False
        if node in self.gains:
            self.fix(node.given[0])
            self.parameters.append(Parameter(node, 1, self.of(node.result)))
            return True
        match node.op:
            case Conv() | MatMul():
                return self._tie_layer(node)
            case LayerNorm() | RMSNorm():
                return self._tie_norm(node)
            case Add() | Sub() | Max() | Min() | Mul() | Div():
                return self._tie_binary(node)
            case Concat() | Movement():
                return self._tie_moved(node)
        return self._keeps_channels(node) and self.unite(
            self.of(node.given[0]), self.of(node.results[0])
        )

    def _keeps_channels(self, node: Node) -> bool:
        """Whether each channel of the result is as much scaled as that of the first operand."""
        x, result = node.given[0].type, node.results[0]
        match node.op:
            case Relu() | LeakyRelu() | MaxPool() | AvgPool() | Neg():
                return True
            case PRelu():
                return isinstance(node.operands[1], Constant)
            case Resize(extrapolation=beyond):
                return beyond == 0 and x.shape[-1] == result.type.shape[-1]
            case ReduceMean(axes) | ReduceSum(axes) | ReduceMax(axes) | ReduceMin(axes):
                return all(axis % x.rank != x.rank - 1 for axis in axes)
            case Clip(low, high):
                ends = -np.inf if low is None else low, np.inf if high is None else high
                if any(np.isfinite(end) and end != 0 for end in ends):
                    self.bounds.append(Bound(result, *ends))
                return ends[0] <= 0 <= ends[1]
        return False

    def _tie_binary(self, node: Node) -> bool:
        """Sums and extrema have all operands scaled alike; products, the largest one."""
        result = self.of(node.result)
        places = [i for i, x in enumerate(node.given) if not isinstance(x, Constant)]
        operands = [node.given[i] for i in places]
        if isinstance(node.op, Mul | Div):
            largest = node.result.type.shape
            moving = [x for x in operands if x.type.shape == largest]
            if len(moving) != 1 or (isinstance(node.op, Div) and node.given[1] in moving):
                return False
            for other in operands:
                if other is not moving[0]:
                    self.fix(other)
            return self.unite(result, self.of(moving[0]))
        if len(operands) < 2 and not isinstance(node.op, Add | Sub):
            return False
        self.parameters += [Parameter(node, i, result) for i in (0, 1) if i not in places]
        return self.unite(result, *map(self.of, operands))

    def _tie_moved(self, node: Node) -> bool:
        """Every element of the result is as much scaled as the one that it is."""
        shapes = [value.type.shape for value in (*node.given, *node.results)]
        if any(is_ranged(extent) or not extent for shape in shapes for extent in shape):
            return False
        if isinstance(node.op, Pad) or sum(x.type.size for x in node.given) > MOST_MOVED:
            return False
        spread = [np.broadcast_to(self.of(x), x.type.shape) for x in node.given]
        moved = np.asarray(node.op.evaluate(*spread))
        if not moved.ndim:
            return False
        rows = moved.reshape(-1, moved.shape[-1])
        result = self.of(node.results[0])
        others = rows[(rows != rows[0]).any(1)]
        return self.unite(result, rows[0]) and (not len(others) or self.unite(result, others))

    def _tie_norm(self, node: Node) -> bool:
        """Parameters of a norm scale its result, whatever scale its operand has."""
        x, result = node.given[0], self.of(node.results[0])
        axis = node.op.axis  # type: ignore[attr-defined]
        vectors = node.operands[1:]
        if axis % x.type.rank != x.type.rank - 1 or len(node.results) != 1:
            return False
        if not all(isinstance(v, Constant) for v in vectors if v is not None):
            return False
        self.fix(x)
        places = [i for i, v in enumerate(vectors, 1) if v is not None]
        self.parameters += [Parameter(node, place, result) for place in places]
        return True

    def _tie_layer(self, node: Node) -> bool:
        """The weight scales the result, and takes back the scale of the operand."""
        match node:
            case Node(Conv() as op, [Value() as x, Constant() as weight, *biases]):
                grouped = self.of(x).reshape(op.groups, -1)
                rows = np.repeat(grouped, weight.type.shape[0] // op.groups, 0)
                inner = (1,) * (weight.type.rank - 2)
                read = rows.reshape(len(rows), *inner, -1)
                made = self.of(node.result).reshape(-1, *(1,) * (weight.type.rank - 1))
            case Node(MatMul(transpose_lhs=False) as op, [Value() as x, Constant() as weight]):
                read, made, biases = self.of(x)[:, None], self.of(node.result), []
                if op.transpose_rhs:
                    read, made = read.T, made[:, None]
            case _:
                return False
        biases = [bias for bias in biases if bias is not None]
        if weight.use_count != 1 or id(weight) in self.escaping or not weight.type.size:
            return False
        if isinstance(x, Constant) or weight.type.rank < 2 or is_ranged(x.type.shape[-1]):
            return False
        if isinstance(node.op, MatMul) and weight.type.rank != 2:
            return False
        if not all(isinstance(bias, Constant) for bias in biases):
            return False
        self.parameters += [Parameter(node, 1, made), Reader(node, 1, read)]
        self.parameters += [Parameter(node, 2, self.of(node.result)) for _ in biases]
        return True


def _labels(count: int, pairs: list[tuple[Array, Array]]) -> Array:
    """For each number the least one that it is connected to by pairs."""
    labels = np.arange(count)
    if not pairs:
        return labels
    first, second = (np.concatenate(part) for part in zip(*pairs, strict=True))
    while True:
        ends = labels[first], labels[second]
        if (ends[0] == ends[1]).all():
            return labels
        np.minimum.at(labels, np.maximum(*ends), np.minimum(*ends))
        while (labels[labels] != labels).any():
            labels = labels[labels]
