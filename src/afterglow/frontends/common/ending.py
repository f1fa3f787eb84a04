"""Loops that end once a value has no element, as `while order.numel() > 0` does."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from afterglow.graph import Constant, Node, Value
from afterglow.ops.control import Loop
from afterglow.ops.extents import Extents
from afterglow.ops.loop_bounds import comparisons
from afterglow.ops.movement import Reshape
from afterglow.types.extent import bind_extent, dims_of, ranged

_MOST_DEEP = 64
"""Rests of bodies in each other, through which a condition is followed."""


def holds_for_some(
    condition: Value,
    count: Value | None,
    none: Mapping[str, int] | None = None,
    depth: int = _MOST_DEEP,
) -> bool:
    """Whether a condition of a body never holds if a count of it (i64[]) is 0.

    `none` has dimensions that are 0 then, too.
    """
    none = {**(none or {}), **_dims_of_count(count)}
    match condition.producer:
        case Node(Loop() as op, [_, _, *_]) as node if op.lengths and depth:
            outputs = op.body.function.outputs[1:]
            inside = dict(zip(node.results, (output.value for output in outputs), strict=True))
            return holds_for_some(
                inside[condition],
                None if count is None else inside.get(count),
                _dims_inside(op, node.given[2:], count, none),
                depth - 1,
            )
        case Node(Reshape(), [Value() as x]):
            return holds_for_some(x, count, none, depth)
    return any(
        _most(greater, count, none) < _least(lesser) + gap
        for lesser, greater, gap in comparisons(condition)
    )


def _dims_of_count(count: Value | None) -> dict[str, int]:
    """The dimension that a count is, as one that is 0."""
    match None if count is None else count.producer:
        case Node(Extents([extent])) if len(dims_of(extent)) == 1:
            (dim,) = dims_of(extent)
            return {dim.name: 0} if extent == ranged(dim) else {}
    return {}


def _dims_inside(
    op: Loop, operands: list[Value], count: Value | None, none: Mapping[str, int]
) -> dict[str, int]:
    """The dimensions of a rest that are 0 where a count around it, or dimensions, are 0."""
    found = dict(none)
    for length, given in zip(op.lengths, operands, strict=False):
        if given is count or _most(given, count, none) <= 0:
            found.update((dim.name, 0) for dim in dims_of(length))
    return found


def _least(value: Value) -> float:
    if isinstance(value, Constant) and value.type.size == 1:
        return float(value.data.item())
    return -inf


def _most(value: Value, count: Value | None, none: Mapping[str, int]) -> float:
    """What a value is where a count, and dimensions, are 0; infinite if that is not known."""
    if value is count:
        return 0
    match value.producer:
        case Node(Extents(values)) if all(dim.name in none for dim in dims_of(*values)):
            return max((float(bind_extent(x, none)) for x in values), default=inf)
        case Node(Reshape(), [Value() as x]):
            return _most(x, count, none)
    return inf
