"""Make concatenations fewer and shorter, and look through them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.movement import Concat, Slice
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.values import has_one_use

MOST_PARTS = 1024
"""The most parts of a merged concatenation: keeps long chains cheap to compile."""
SMALL_BYTES = 1 << 16
"""Neighbouring constants are joined when compiling up to this size."""


@rewrite(Concat)
def flatten_concat(node: Node, b: Builder) -> Value | None:
    """concat(a, concat(b, c), d)  ->  concat(a, b, c, d),  along the same axis."""
    axis = _axis(node)
    parts: list[Value] = []
    for part in node.given:
        match part:
            case Value(Node(Concat()) as inner) if _axis(inner) == axis and has_one_use(part):
                parts.extend(inner.given)
            case _:
                parts.append(part)
    if len(parts) == len(node.given) or len(parts) > MOST_PARTS:
        return None
    return b.emit(Concat(axis), *parts)


@rewrite(Concat)
def drop_empty_parts(node: Node, b: Builder) -> Value | None:
    """concat(x, empty)  ->  concat(x);  concat(x)  ->  x."""
    axis = _axis(node)
    parts = [part for part in node.given if part.type.shape[axis]] or node.given[:1]
    if len(parts) == 1:
        return parts[0]
    return b.emit(Concat(axis), *parts) if len(parts) < len(node.given) else None


@rewrite(Concat)
def join_slices(node: Node, b: Builder) -> Value | None:
    """concat(x[i:j], x[j:k], y)  ->  concat(x[i:k], y);  a slice that takes all of x is x.

    Slices that others use too are joined only if that makes a slice less.
    """
    axis = _axis(node)
    return _joined(node, b, lambda first, second: _join_slices(b, axis, first, second))


def _join_slices(b: Builder, axis: int, first: Value, second: Value) -> Value | None:
    match first, second:
        case (
            Value(Node(Slice() as a, [Value() as x])),
            Value(Node(Slice() as c, [y])),
        ) if x is y and _follows(a, c, axis):
            extents = list(a.extents)
            extents[axis] += c.extents[axis]
            whole = replace(a, extents=tuple(extents))
            if x.type.shape == whole.extents and set(whole.steps) == {1}:
                return x
            if has_one_use(first) and has_one_use(second):
                return b.emit(whole, x)
    return None


def _follows(a: Slice, c: Slice, axis: int) -> bool:
    """Whether slice `c` continues slice `a` along the axis, and equals it along the others."""
    if a.steps != c.steps:
        return False
    starts = list(a.starts)
    starts[axis] += a.extents[axis] * a.steps[axis]
    return tuple(starts) == c.starts


@rewrite(Concat)
def join_constants(node: Node, b: Builder) -> Value | None:
    """concat(x, c, d)  ->  concat(x, e),  e = concat(c, d)  for small constants."""
    axis = _axis(node)
    return _joined(node, b, lambda first, second: _join_constants(b, axis, first, second))


def _join_constants(b: Builder, axis: int, first: Value, second: Value) -> Value | None:
    match first, second:
        case Constant(c), Constant(d) if c.nbytes + d.nbytes <= SMALL_BYTES:
            return b.constant(np.concatenate([c, d], axis), first.name)
    return None


def _joined(node: Node, b: Builder, join: Callable[[Value, Value], Value | None]) -> Value | None:
    """The concatenation with the first pair of mergeable neighbours merged."""
    parts = node.given
    for index in range(len(parts) - 1):
        one = join(parts[index], parts[index + 1])
        if one is not None:
            rest = [*parts[:index], one, *parts[index + 2 :]]
            return rest[0] if len(rest) == 1 else b.emit(Concat(_axis(node)), *rest)
    return None


@rewrite(Slice)
def slice_part(node: Node, b: Builder) -> Value | None:
    """slice(concat(x, y))  ->  slice(x)  or  slice(y),  if it lies within one part."""
    match node:
        case Node(Slice() as op, [Value(Node(Concat()) as concat)]) if node.result.type.nbytes:
            axis = _axis(concat)
            start = op.starts[axis]
            last = start + (op.extents[axis] - 1) * op.steps[axis]
            begin = 0
            for part in concat.given:
                end = begin + part.type.shape[axis]
                if begin <= min(start, last) and max(start, last) < end:
                    starts = list(op.starts)
                    starts[axis] -= begin
                    return b.emit(replace(op, starts=tuple(starts)), part)
                begin = end
    return None


def _axis(node: Node) -> int:
    """The axis of a concatenation, counted from the front."""
    assert isinstance(node.op, Concat)
    return node.op.axis % node.result.type.rank


SIMPLIFY_CONCATS = RewritePass(
    "simplify-concats",
    (flatten_concat, drop_empty_parts, join_slices, join_constants, slice_part),
)
