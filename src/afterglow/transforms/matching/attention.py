"""Patterns of the parts of attention: matrices before scaling and transposing, scores, masks."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.elementwise import Add, Div, Mul, Where, scalar
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Expand, Reshape, Tile, Transpose
from afterglow.support.lazy_dataclass import dataclass
from afterglow.transforms.matching.leading import leading_part
from afterglow.transforms.matching.patterns import (
    LOOK_BACK,
    emit_as,
    maker,
    orders,
    scalar_of,
    uncast,
)
from afterglow.transforms.matching.values import uniform
from afterglow.types import DType
from afterglow.types.extent import is_ranged

EXCLUDED = -9000.0
"""A score this far down has no weight; exporters write -1e4, the least float or -infinity."""

Shape = tuple[int, ...]


def unscaled(value: Value) -> tuple[Value, float]:
    """The value before numbers multiplied or divided it, and their product."""
    factor = 1.0
    for _ in range(LOOK_BACK):
        node = maker(value, Mul, Div)
        found = None if node is None else _number_factor(node)
        if found is None or found[0].type.shape != value.type.shape:
            break
        value, factor = found[0], factor * found[1]
    return uncast(value), factor


def _number_factor(node: Node) -> tuple[Value, float] | None:
    lhs, rhs = node.given
    if isinstance(node.op, Div):
        divisor = scalar_of(rhs)
        return (lhs, 1 / divisor) if divisor else None
    for x, other in ((lhs, rhs), (rhs, lhs)):
        number = scalar_of(other)
        if number is not None:
            return x, number
    return None


@dataclass(frozen=True)
class Matrices:
    """`factor` times the last two axes of transpose(base, perm), leading axes in another shape."""

    base: Value
    perm: Shape
    lead: Shape
    factor: float
    moves: bool = False
    """Whether elements have to be moved that were not before."""

    @property
    def extents(self) -> Shape:
        """Rows and columns."""
        shape = self.base.type.shape
        return shape[self.perm[-2]], shape[self.perm[-1]]

    def emit(self, b: Builder, lead: Shape, dtype: DType) -> Value:
        """The matrices, without the factor, under other leading axes of the same extent."""
        value = self.base
        if self.perm != tuple(range(len(self.perm))):
            value = b.emit(Transpose(self.perm), value)
        return emit_as(b, emit_reshaped(b, value, (*lead, *self.extents)), dtype)


def emit_reshaped(b: Builder, value: Value, shape: Shape) -> Value:
    """The elements in another shape: one that they had before, if it was that, else a new one."""
    for _ in range(LOOK_BACK):
        reshape = maker(value, Reshape)
        if value.type.shape == shape or reshape is None:
            break
        value = reshape.given[0]
    return value if value.type.shape == shape else b.emit(Reshape(shape), value)


def matrices(value: Value, swapped: bool) -> Matrices:
    """Read an operand of a product: its last two axes, in the other order if `swapped`."""
    lead = value.type.shape[:-2]
    base, factor = unscaled(value)
    if not swapped:
        return Matrices(base, tuple(range(base.type.rank)), lead, factor)
    turned, inner = base, 1.0
    reshape = maker(base, Reshape)
    if reshape is not None and reshape.given[0].type.shape[-2:] == base.type.shape[-2:]:
        turned, inner = unscaled(reshape.given[0])
    match turned:
        case Value(Node(Transpose(perm), [Value() as x])):
            source, outer = unscaled(x)
            return Matrices(source, _swapped(perm), lead, factor * inner * outer)
    return Matrices(base, _swapped(tuple(range(base.type.rank))), lead, factor, moves=True)


def _swapped(perm: Shape) -> Shape:
    return (*perm[:-2], perm[-1], perm[-2])


def ungrouped(operand: Matrices, heads: int) -> Matrices | None:
    """The heads before each was repeated for several heads of queries."""
    value = operand.base
    for _ in range(LOOK_BACK):
        match value:
            case Value(Node(Reshape(), [Value() as x])):
                value = x
    node = value.producer
    if node is None or not isinstance(node.op, Expand | Tile) or value.type.rank != 5:
        return None
    source = node.given[0]
    batch, shared, count, *rest = value.type.shape
    plain = operand.perm == tuple(range(len(operand.perm))) and tuple(rest) == operand.extents
    if not plain or source.type.shape != (batch, shared, 1, *rest) or shared * count != heads:
        return None
    return Matrices(source, tuple(range(5)), (batch, shared), operand.factor)


@dataclass(frozen=True)
class Mask:
    """What is added to scores: a term, or a number where a condition does (not) hold.

    `lead` are the leading axes of the scores where it was added.
    """

    value: Value
    lead: Shape
    factor: float = 1.0
    number: float | None = None
    where: bool = True

    def is_causal(self, queries: int, keys: int) -> bool:
        """Whether it is known and only hides the keys that come after each query."""
        shape = self.value.type.shape
        square = shape[-2:] == (queries, keys) and math.prod(shape[:-2]) == 1
        if not square or is_ranged(keys - queries) or keys < queries or self.factor <= 0:
            return False
        known = leading_part(self.value, LOOK_BACK)
        if known is None:
            return False
        data = known.reshape(known.shape[-2:])
        seen = np.tri(data.shape[0], data.shape[1], keys - queries, np.bool_)
        if self.number is not None:
            return bool(np.array_equal(data != self.where, seen))
        return bool(np.all(data[seen] == 0)) and bool(np.all(data[~seen] <= EXCLUDED))

    def shape_under(self, lead: Shape) -> Shape | None:
        """Its shape if the scores have these two leading axes; None if it has none."""
        shape = self.value.type.shape
        own = (1,) * (len(self.lead) + 2 - len(shape)) + shape
        mine, rest = own[:-2], own[-2:]
        if math.prod(mine) == 1:
            return (1, 1, *rest)
        for split in range(len(self.lead) + 1):
            groups = (self.lead[:split], mine[:split]), (self.lead[split:], mine[split:])
            extents = [_extent(whole, part) for whole, part in groups]
            fits = all(math.prod(g[0]) == n for g, n in zip(groups, lead, strict=True))
            if fits and None not in extents:
                return (*(n for n in extents if n is not None), *rest)
        return (*lead, *rest) if mine == self.lead else None

    def emit(self, b: Builder, lead: Shape, dtype: DType) -> Value:
        """The term, as an operand of attention."""
        shape = self.shape_under(lead)
        assert shape is not None
        value = self.value
        if self.number is not None:
            numbers = (_in_range(self.number, dtype), 0.0)
            then, other = numbers if self.where else reversed(numbers)
            branches = (b.constant(np.array(n, dtype.numpy)) for n in (then, other))
            value = b.emit(Where(), value, *branches)
        value = emit_as(b, uncast(value), dtype)
        if self.factor != 1:
            value = b.emit(Mul(), value, scalar(b, self.factor, value))
        padded = (1,) * (len(shape) - value.type.rank) + value.type.shape
        return value if padded == shape else b.emit(Reshape(shape), value)


def hides_rows(mask: Mask) -> bool:
    """Whether a constant mask leaves some query no key: softmax gives NaN there, attention 0."""
    value = uncast(mask.value)
    if not isinstance(value, Constant) or not value.data.size:
        return False
    if mask.number is None:
        hidden = np.isneginf(value.data.astype(np.float64) * mask.factor)
    else:
        hidden = (value.data == mask.where) & (mask.number == -math.inf)
    return bool(np.any(np.all(np.atleast_1d(hidden), axis=-1)))


def _in_range(number: float, dtype: DType) -> float:
    """The number, or the least finite one of the type if that is nearer to zero."""
    lowest = dtype.finite_limits[0]
    return number if math.isinf(number) else max(number, lowest)


def _extent(whole: Shape, part: Shape) -> int | None:
    """The extent of a part of some axes joined to one: all of them or one."""
    if math.prod(part) == 1:
        return 1
    return math.prod(whole) if part == whole else None


@dataclass(frozen=True)
class Scores:
    """factor * lhs @ rhs plus masks; `leads` are the leading axes that it had on the way."""

    product: Node
    factor: float
    masks: tuple[Mask, ...]
    leads: tuple[Shape, ...]


def scores(value: Value) -> Scores | None:
    """Read what a softmax is taken of."""
    factor, leads = 1.0, [value.type.shape[:-2]]
    masks: list[Mask] = []
    for _ in range(2 * LOOK_BACK):
        value, inner = unscaled(value)
        factor *= inner
        node = value.producer
        if node is None or value.type.rank < 2:
            return None
        lead = value.type.shape[:-2]
        if isinstance(node.op, MatMul):
            return Scores(node, factor, tuple(masks), tuple(dict.fromkeys(leads)))
        step = _reshaped(node) or _masked(node, lead, factor)
        if step is None:
            return None
        value, *found = step
        masks += found
        leads.append(value.type.shape[:-2])
    return None


def _reshaped(node: Node) -> tuple[Value] | None:
    """Scores under other leading axes."""
    match node:
        case Node(Reshape(shape), [Value() as x]) if x.type.shape[-2:] == shape[-2:]:
            return (x,)
    return None


def _masked(node: Node, lead: Shape, factor: float) -> tuple[Value, Mask] | None:
    """Scores, and what was added to them or put in their place."""
    for inner, mask in _masks(node, lead, factor):
        if inner.type.shape == node.result.type.shape and _leads_to_product(inner):
            return inner, mask
    return None


def _masks(node: Node, lead: Shape, factor: float) -> Iterator[tuple[Value, Mask]]:
    match node:
        case Node(Add()):
            for inner, term in orders(node):
                yield inner, Mask(term, lead, factor)
        case Node(Where(), [Value() as condition, Value() as then, Value() as other]) if factor > 0:
            for inner, fill, where in ((other, then, True), (then, other, False)):
                number = uniform(fill)
                if number is not None and number <= EXCLUDED:
                    yield inner, Mask(condition, lead, number=number, where=where)


def _leads_to_product(value: Value, depth: int = LOOK_BACK) -> bool:
    """Whether a product is near, so that the other operand is the mask."""
    node = unscaled(value)[0].producer
    if node is None or depth == 0 or not isinstance(node.op, MatMul | Reshape | Add | Where):
        return False
    if isinstance(node.op, MatMul):
        return True
    return any(_leads_to_product(operand, depth - 1) for operand in node.given)
