"""Fold pads into the convolutions and poolings that read them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.convolution import Conv
from afterglow.ops.movement import Pad, PadMode
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.passes import RewritePass, rewrite
from afterglow.types import Array


@rewrite(Pad)
def drop_empty_pad(node: Node, b: Builder) -> Value | None:
    """pad(x, nothing)  ->  x."""
    match node:
        case Node(Pad(before, after), [Value() as x, *_]) if not any((*before, *after)):
            return x
    return None


@rewrite(Pad)
def compose_pads(node: Node, b: Builder) -> Value | None:
    """pad(pad(x, v), v)  ->  pad(x, v)."""
    match node:
        case Node(
            Pad(before, after, PadMode.CONSTANT),
            [Value(Node(Pad(first, last, PadMode.CONSTANT) as inner_op, [x, *_]) as inner), *_],
        ) if _same_fill(_fill(node), _fill(inner)):
            merged = replace(inner_op, before=_sums(before, first), after=_sums(after, last))
            return b.emit(merged, x, inner.operand("value"))
    return None


@rewrite(Conv)
def pad_in_convolution(node: Node, b: Builder) -> Value | None:
    """conv(pad(x, 0), w)  ->  conv(x, w) with that padding added to its own."""
    match node:
        case Node(Conv(pads=pads) as op, [Value(Node(Pad()) as pad), *others]):
            added = _spatial_counts(pad)
            if added is None or not _is_filled(pad, 0):
                return None
            return b.emit(replace(op, pads=_sums(pads, added)), pad.given[0], *others)
    return None


@rewrite(MaxPool)
def pad_in_max_pool(node: Node, b: Builder) -> Value | None:
    """max_pool(pad(x, least of all))  ->  max_pool(x) with that padding added to its own."""
    match node:
        case Node(MaxPool(pads=pads, ceil_mode=False) as op, [Value(Node(Pad()) as pad)]):
            added = _spatial_counts(pad)
            if added is None or not _is_filled(pad, _least(pad)):
                return None
            return b.emit(replace(op, pads=_sums(pads, added)), pad.given[0])
    return None


@rewrite(AvgPool)
def pad_in_average_pool(node: Node, b: Builder) -> Value | None:
    """avg_pool(pad(x, 0))  ->  avg_pool(x) with that padding, if all padding counts."""
    match node:
        case Node(AvgPool(pads=pads, ceil_mode=False) as op, [Value(Node(Pad()) as pad)]):
            added = _spatial_counts(pad)
            if added is None or not _is_filled(pad, 0):
                return None
            if any(pads) and not op.count_include_pad:
                return None
            wider = replace(op, pads=_sums(pads, added), count_include_pad=True)
            return b.emit(wider, pad.given[0])
    return None


def _sums(a: tuple[int, ...], c: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(m + n for m, n in zip(a, c, strict=True))


def _spatial_counts(pad: Node) -> tuple[int, ...] | None:
    """The counts of a constant pad of [N, spatial…, C], begins then ends, if only those differ."""
    match pad.op:
        case Pad((0, *begins, 0), (0, *ends, 0), PadMode.CONSTANT):
            return (*begins, *ends)
    return None


def _fill(pad: Node) -> Array | None:
    """What a constant pad adds; None if that is not known."""
    match pad.operand("value"):
        case None:
            return np.zeros((), pad.result.type.dtype.numpy)
        case Constant(data):
            return data
    return None


def _is_filled(pad: Node, number: float) -> bool:
    fill = _fill(pad)
    return fill is not None and bool(fill == number)


def _same_fill(a: Array | None, c: Array | None) -> bool:
    return a is not None and c is not None and bool(a == c)


def _least(pad: Node) -> float:
    dtype = pad.result.type.dtype
    return float(np.iinfo(dtype.numpy).min) if dtype.is_integer else -np.inf


FOLD_PADS = RewritePass(
    "fold-pads",
    (
        drop_empty_pad,
        compose_pads,
        pad_in_convolution,
        pad_in_max_pool,
        pad_in_average_pool,
    ),
)
