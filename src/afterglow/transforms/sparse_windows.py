"""Split convolutions whose padding, strides or dilations dwarf x into sums over taps.

Their kernels work on a padded copy of x, or have code for each phase of the stride: a few bytes of
attributes could ask for any amount of memory. What comes out takes no more than the operands and
the results do.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TypeVar

from afterglow.graph import Builder, Node, Value
from afterglow.ops.convolution import Conv, Convolution, ConvTranspose
from afterglow.ops.elementwise import Add
from afterglow.ops.fill import Fill
from afterglow.ops.movement import Pad, Slice, with_zeros_between
from afterglow.ops.windows import FREE_ELEMENTS, MOST_GROWTH, Windows
from afterglow.passes import RewritePass, rewrite

MOST_TAPS = 256
"""The most taps that see x: convolutions with more are not split."""
MOST_PHASES = 4096
"""Phases of the strides of a transposed convolution that its kernel may have code for."""

ConvT = TypeVar("ConvT", bound=Convolution)
_Places = list[tuple[tuple[int, range], ...]]
"""For each tap that sees something, along each axis its number and the windows that have it."""


@rewrite(Conv)
def split_convolution(node: Node, b: Builder) -> Value | None:
    """conv(x, w, c)  ->  sum(pad(conv(x[seen by t], w[t])) for taps t) + c."""
    op, (x, weight, bias, *_) = node.op, (*node.operands, None)
    if not isinstance(op, Conv) or x is None or weight is None:
        return None
    windows, result = op.windows(weight.type.shape), node.result.type
    if not result.nbytes or not windows.pads_dominate(x.type.shape, result.size):
        return None
    places = _places(windows, x.type.shape[1:-1], result.shape[1:-1])
    if len(places) > MOST_TAPS:
        return None
    parts = []
    for place in places:
        sources = [windows.places(axis, *at) for axis, at in enumerate(place)]
        seen = _sliced(b, x, sources, [len(w) for _, w in place])
        product = b.emit(_bare(op), seen, _tap(b, weight, place))
        parts.append(_padded(b, product, [w.start for _, w in place], result.shape))
    return _sum(b, node, parts, bias)


@rewrite(ConvTranspose)
def split_transposed_convolution(node: Node, b: Builder) -> Value | None:
    """conv_transpose(x, w, c)  ->  sum(spread(conv_transpose(x[reaching], w[t])) for t) + c."""
    op, (x, weight, bias, *_) = node.op, (*node.operands, None)
    if not isinstance(op, ConvTranspose) or x is None or weight is None:
        return None
    windows, result = op.windows(weight.type.shape), node.result.type
    if not result.nbytes or not _spreads_far(windows, x, node.result):
        return None
    places = _places(windows, result.shape[1:-1], x.type.shape[1:-1])
    if len(places) > MOST_TAPS:
        return None
    parts = []
    for place in places:
        reaching = [slice(w.start, w.stop, 1) for _, w in place]
        counts = [len(w) for _, w in place]
        seen = _sliced(b, x, reaching, counts)
        product = b.emit(replace(_bare(op), output_pads=()), seen, _tap(b, weight, place))
        steps = [s if n > 1 else 1 for s, n in zip(op.strides, counts, strict=True)]
        apart = with_zeros_between(b, product, (1, *steps, 1))
        starts = [windows.places(axis, *at).start for axis, at in enumerate(place)]
        parts.append(_padded(b, apart, starts, result.shape))
    return _sum(b, node, parts, bias)


def _spreads_far(windows: Windows, x: Value, result: Value) -> bool:
    """Whether x, spread, is cut down to little, or its strides have too many phases."""
    extents = zip(x.type.shape[1:-1], windows.strides, windows.reach, strict=True)
    whole = math.prod((n - 1) * stride + reach for n, stride, reach in extents)
    spread = x.type.shape[0] * result.type.shape[-1] * whole
    room = MOST_GROWTH * (x.type.size + result.type.size) + FREE_ELEMENTS
    return spread > room or math.prod(windows.strides) > MOST_PHASES


def _places(windows: Windows, extents: tuple[int, ...], counts: tuple[int, ...]) -> _Places:
    axes = enumerate(zip(extents, counts, strict=True))
    return [*itertools.product(*(windows.seeing_taps(a, n, count) for a, (n, count) in axes))]


def _bare(op: ConvT) -> ConvT:
    """The op for a kernel of one tap."""
    ones = (1,) * len(op.strides)
    return replace(op, strides=ones, pads=(0,) * len(op.pads), dilations=ones)


def _tap(b: Builder, weight: Value, place: tuple[tuple[int, range], ...]) -> Value:
    return _sliced(b, weight, [slice(tap, tap + 1, 1) for tap, _ in place], [1] * len(place))


def _sliced(b: Builder, x: Value, sources: list[slice], counts: list[int]) -> Value:
    """Some places along the axes between the first and the last."""
    first, *_, last = x.type.shape
    starts, steps = (s.start for s in sources), (s.step for s in sources)
    return b.emit(Slice((0, *starts, 0), (first, *counts, last), (1, *steps, 1)), x)


def _padded(b: Builder, x: Value, starts: list[int], shape: tuple[int, ...]) -> Value:
    """x at its place among zeros."""
    before = (0, *starts, 0)
    sides = zip(shape, before, x.type.shape, strict=True)
    return b.emit(Pad(before, tuple(n - start - own for n, start, own in sides)), x)


def _sum(b: Builder, node: Node, parts: list[Value], bias: Value | None) -> Value:
    """The sum of all parts and the bias; zeros if there are neither."""
    type = node.result.type
    total = parts[0] if parts else b.emit(Fill(type.shape, 0.0, type.dtype))
    for part in parts[1:]:
        total = b.emit(Add(), total, part)
    return total if bias is None else b.emit(Add(), total, bias)


SPLIT_SPARSE_WINDOWS = RewritePass(
    "split-sparse-windows", (split_convolution, split_transposed_convolution)
)
