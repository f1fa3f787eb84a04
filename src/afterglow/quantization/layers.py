"""Layers as matrix products: rows of weights, and the inputs that they meet.

A `conv` or `matmul` with a constant weight multiplies rows of weights with windows or rows of its
input. All functions have the groups of a convolution first: [groups, rows, depth].
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from afterglow.graph import Op
from afterglow.ops.convolution import Conv
from afterglow.ops.linear import MatMul
from afterglow.quantization.moments import Blocks
from afterglow.quantization.round_weights import SWEEPS, round_weights, second_moments
from afterglow.quantization.weights import QuantizedWeight
from afterglow.types import Array

MOST_ROWS = 4096
"""Rows of inputs that moments are computed of, for one array."""


def weight_rows(op: Op, weight: Array) -> Array:
    """The weight as [groups, rows, depth]; a row computes one channel of the result."""
    if isinstance(op, Conv):
        return weight.reshape(op.groups, weight.shape[0] // op.groups, -1)
    assert isinstance(op, MatMul)
    return (weight if op.transpose_rhs else weight.T)[None]


def weight_of_rows(op: Op, rows: Array, shape: tuple[int, ...]) -> Array:
    """The weight, of a shape, that has these rows."""
    if isinstance(op, MatMul) and not op.transpose_rhs:
        return np.ascontiguousarray(rows[0].T)
    return rows.reshape(shape)


def input_rows(op: Op, weight: tuple[int, ...], x: Array, most: int = MOST_ROWS) -> Array:
    """Inputs as [groups, samples, depth]: what the rows of a weight of that shape multiply.

    If there are more than `most`, as many are taken, evenly spread.
    """
    if isinstance(op, MatMul):
        rows = x.reshape(-1, x.shape[-1])
        return rows[_chosen(len(rows), most)][None]
    assert isinstance(op, Conv)
    windows = op.windows(weight)
    counts = windows.counts(x.shape[1:-1])
    views = windows.views(windows.padded(x, 0), counts, op.groups)
    shape = x.shape[0], *counts
    places = np.unravel_index(_chosen(math.prod(shape), most), shape)
    every: tuple[Any, ...] = (slice(None), *places)
    return np.asarray(views[every]).reshape(op.groups, len(places[0]), -1)


def input_moments(op: Op, weight: tuple[int, ...], x: Array, most: int = MOST_ROWS) -> Array:
    """E[x xT] of the inputs of a layer, [groups, depth, depth]."""
    return np.stack([second_moments(rows) for rows in input_rows(op, weight, x, most)])


def round_layer(
    op: Op, weight: Array, chosen: QuantizedWeight, moments: Blocks, *, sweeps: int = SWEEPS
) -> QuantizedWeight:
    """The weight of a layer with the scales as chosen, rounded for little error of the results.

    The scales are one a row, one for all, or one a block along the depth of a product.
    """
    rows = weight_rows(op, weight)
    offsets = np.zeros(chosen.scales.shape) if chosen.offsets is None else chosen.offsets
    scales, zeros = (_by_row(op, rows, chosen, part) for part in (chosen.scales, offsets))
    size = chosen.block_size
    stored, start = np.empty(rows.shape, chosen.stored.dtype), 0
    for block in moments:
        inputs = slice(start, start + block.shape[-1])
        shared = slice(start // size, -(-inputs.stop // size)) if size else slice(None)
        scale, zero = scales[..., shared], zeros[..., shared]
        stored[..., inputs] = round_weights(
            rows[..., inputs],
            block,
            scale,
            zero,
            chosen.limits,
            group_size=size,
            sweeps=sweeps,
        )
        start = inputs.stop
    return replace(chosen, stored=weight_of_rows(op, stored, weight.shape))


def _by_row(op: Op, rows: Array, chosen: QuantizedWeight, part: Array) -> Array:
    """Scales or offsets, for each group those of its rows."""
    wide = part.astype(np.float32)
    if chosen.block_size:
        return weight_rows(op, wide)
    return np.broadcast_to(wide, rows.shape[0] * rows.shape[1]).reshape(rows.shape[:2])


def _chosen(count: int, most: int) -> Array:
    """Indices, evenly spread."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(np.int64)
