"""Rows of floats rounded to 8 bits in blocks, as products with stored matrices may take them.

A block of neighbours shares one scale, 1/127 of its largest number: each number
becomes a whole multiple of it from -127 to 127, so it is off by 1/254 of the largest at most.
"""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Value
from afterglow.ops.elementwise import Abs, Div, Max, Mul, Round, scalar
from afterglow.ops.movement import Pad, Reshape, slice_axis
from afterglow.ops.reduction import ReduceMax
from afterglow.types import Array

ROUNDED_BLOCK = 32
"""Neighbours that share a scale, unless a product says otherwise."""
ROUNDED_PEAK = 127
"""The integer that the largest number of a block becomes, but for its sign."""
LEAST_PEAK = 1e-30
"""Blocks whose largest number is less are rounded as if it were this: its inverse is finite."""


def round_rows(x: Array, block: int = ROUNDED_BLOCK) -> Array:
    """x of f32, each row rounded in blocks; a block that is not finite becomes NaN."""
    depth = x.shape[-1]
    rest = -depth % block
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, rest)])
    blocks = padded.reshape(*x.shape[:-1], (depth + rest) // block, block)
    peak = np.maximum(np.abs(blocks).max(-1, keepdims=True), np.float32(LEAST_PEAK))
    whole = np.rint(blocks * (np.float32(ROUNDED_PEAK) / peak))
    return (whole * (peak / np.float32(ROUNDED_PEAK))).reshape(padded.shape)[..., :depth]


def emit_rounded_rows(b: Builder, x: Value, block: int = ROUNDED_BLOCK) -> Value:
    """`round_rows`, from primitive ops."""
    *lead, depth = x.type.shape
    rest = -depth % block
    if rest:
        x = b.emit(Pad((0,) * x.type.rank, (*[0] * len(lead), rest)), x)
    shape = (*lead, (depth + rest) // block, block)
    blocks = b.emit(Reshape(shape), x)
    largest = b.emit(ReduceMax((len(lead) + 1,), True), b.emit(Abs(), blocks))
    peak = b.emit(Max(), largest, scalar(b, LEAST_PEAK, x))
    most = scalar(b, ROUNDED_PEAK, x)
    whole = b.emit(Round(), b.emit(Mul(), blocks, b.emit(Div(), most, peak)))
    rounded = b.emit(Mul(), whole, b.emit(Div(), peak, most))
    rows = b.emit(Reshape((*lead, depth + rest)), rounded)
    return b.emit(slice_axis(rows.type, len(lead), 0, depth), rows) if rest else rows
