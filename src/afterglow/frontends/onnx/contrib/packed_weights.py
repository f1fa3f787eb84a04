"""The com.microsoft domain: weights of a few bits, packed into bytes."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.quantization import dequantize
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.contrib.fused import MICROSOFT, plus
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.rules import normal_axis
from afterglow.support.errors import ModelError
from afterglow.types import Array, DType
from afterglow.types import dtype as d

_DTYPES = {2: d.u2, 4: d.u4, 8: d.u8}

_NORMAL_FLOAT = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""Numbers that are as frequent as each other in a normal distribution: 4 bits choose one."""

_SMALL_FLOAT = (0.0, 0.005208333, 0.6666667, 1.0, 0.3333333, 0.5, 0.16666667, 0.25)
"""Floats of 4 bits by the low three; the fourth is the sign."""


@onnx_op("MatMulNBits", domain=MICROSOFT)
def matmul_of_bits(n: NodeContext) -> Value:
    """Inputs: x; constant weights, scales, zero points and group indices; a bias."""
    rows, columns, bits = n.integer("N"), n.integer("K"), n.integer("bits", 4)
    block = n.integer("block_size")
    blocks = -(-columns // block)
    dtype = _dtype(n, bits)
    weights = unpacked(n.known(1).reshape(rows, -1), bits)[:, :columns].astype(dtype.numpy)
    scales = n.known(2).reshape(rows, blocks)
    zeros = _zero_points(n, rows, blocks, bits)
    groups = n.get(4)
    if groups is None and zeros.dtype == dtype.numpy:
        parts = (n.constant(weights), n.constant(scales), n.constant(zeros))
        matrix = dequantize(n, *parts, axis=1, block_size=block)
    else:
        group = np.arange(columns) // block if groups is None else n.known(4)[:columns]
        above = weights.astype(scales.dtype) - zeros.astype(scales.dtype)[:, group]
        matrix = n.constant(above * scales[:, group])
    return plus(n, n.emit(MatMul(transpose_rhs=True), n[0], matrix), n.get(5))


def _zero_points(n: NodeContext, rows: int, blocks: int, bits: int) -> Array:
    """Packed as weights are, or floats; the middle if none are given."""
    dtype = _dtype(n, bits)
    if n.get(3) is None:
        return np.full((rows, blocks), 2 ** (bits - 1), dtype.numpy)
    if n[3].type.dtype is not d.u8:
        return n.known(3).reshape(rows, blocks)
    return unpacked(n.known(3).reshape(rows, -1), bits)[:, :blocks].astype(dtype.numpy)


def _dtype(n: NodeContext, bits: int) -> DType:
    if bits not in _DTYPES:
        raise n.fail(f"weights of {bits} bits are not supported")
    return _DTYPES[bits]


def unpacked(packed: Array, bits: int) -> Array:
    """The numbers in each byte along the last axis, those of the low bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & np.uint8(2**bits - 1)
    return numbers.reshape(*packed.shape[:-1], -1)


@onnx_op("GatherBlockQuantized", domain=MICROSOFT)
def gather_in_blocks(n: NodeContext) -> Value:
    """Gather from a block-quantized table, with a scale and an optional zero point per block.

    Rows are taken first, and made real numbers then.
    """
    table, places, scales, zeros = n[0], n[1], n[2], n.get(3)
    if table.type.dtype is d.u8:
        table, zeros = _unpacked_table(n, scales, zeros)
    axis = normal_axis(n.integer("gather_axis", 0), table.type)
    along = normal_axis(n.integer("quantize_axis", 1), table.type)
    if along == axis:
        raise ModelError("rows cannot be taken along the axis of blocks")
    rows, scale = (n.emit(Gather(axis), x, places) for x in (table, scales))
    zero = None if zeros is None else n.emit(Gather(axis), zeros, places)
    along += places.type.rank - 1 if along > axis else 0
    return dequantize(n, rows, scale, zero, axis=along, block_size=n.integer("block_size", 128))


def _unpacked_table(n: NodeContext, scales: Value, zeros: Value | None) -> tuple[Value, Value]:
    """A table of bytes as one of fewer bits; zero points are in the middle if none are given."""
    bits = n.integer("bits", 4)
    dtype = _dtype(n, bits)
    table = n.constant(unpacked(n.known(0), bits).astype(dtype.numpy))
    if zeros is None:
        return table, n.constant(np.full(scales.type.shape, 2 ** (bits - 1), dtype.numpy))
    points = unpacked(n.known(3), bits)[..., : scales.type.shape[-1]]
    return table, n.constant(points.astype(dtype.numpy))


@onnx_op("MatMulBnb4", domain=MICROSOFT)
def matmul_of_chosen_numbers(n: NodeContext) -> Value:
    """Weights are 4-bit indices into 16 values, scaled by the absolute maximum of their block."""
    rows, columns, block = n.integer("N"), n.integer("K"), n.integer("block_size")
    small = (*_SMALL_FLOAT, *(-x for x in _SMALL_FLOAT))
    numbers = np.array(_NORMAL_FLOAT if n.integer("quant_type") else small, np.float32)
    packed = n.known(1).reshape(-1)
    chosen = np.stack([packed >> 4, packed & 15], -1).reshape(-1)[: rows * columns]
    largest = n.known(2).reshape(-1).astype(np.float32)
    matrix = numbers[chosen] * np.repeat(largest, block)[: chosen.size]
    weight = n.constant(matrix.reshape(rows, columns).astype(n[0].type.dtype.numpy))
    return n.emit(MatMul(transpose_rhs=True), n[0], weight)
