"""Products with weights that are dequantized, and look-ups in tables that are."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Builder, Function, run_function, verify_module
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.quantization import DequantizeLinear
from afterglow.ops.stored import StoredGather, StoredMatMul
from afterglow.transforms.recognise_stored import RECOGNISE_STORED
from afterglow.types import Array, TensorType
from afterglow.types.dtype import DType, f8e4m3fn, f8e5m2, f32, i8, i64, u4

RNG = np.random.default_rng(2)


def integers(dtype: DType, *shape: int) -> Array:
    low, high = dtype.limits
    return RNG.integers(low, high + 1, shape).astype(dtype.numpy)


def scales(*shape: int) -> Array:
    return RNG.uniform(0.01, 0.02, shape).astype(np.float32)


def product(op: MatMul, dequantize: DequantizeLinear, *parts: Array) -> Function:
    function = Function("main")
    b = Builder(function)
    depth = parts[0].shape[1 if op.transpose_rhs else 0]
    x = function.input("x", TensorType(f32, (3, depth)))
    weight = b.emit(dequantize, *map(b.constant, parts))
    function.output("y", b.emit(op, x, weight, name="y"))
    return function


def check(function: Function, given: Array, op: type) -> None:
    """The pass replaces all by one op of the same meaning."""
    (wanted,) = run_function(function, [given])
    assert RECOGNISE_STORED.run(function)
    verify_module(function.module)
    assert isinstance(function.outputs[0].value.producer.op, op)
    (got,) = run_function(function, [given])
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("kind", ["blocks", "rows", "one"])
def test_a_product_with_a_dequantized_constant(transposed: bool, zeros: bool, kind: str) -> None:
    dtype = u4 if kind == "blocks" else i8
    shape = {"blocks": (128, 5), "rows": (128,), "one": ()}[kind]
    stored, scale, zero = integers(dtype, 128, 160), scales(*shape), integers(dtype, *shape)
    dequantize = DequantizeLinear(1, block_size=32) if kind == "blocks" else DequantizeLinear(0)
    if not transposed:
        dequantize = DequantizeLinear(1 - dequantize.axis, block_size=dequantize.block_size)
        stored, scale, zero = stored.T.copy(), scale.T.copy(), zero.T.copy()
    parts = (stored, scale, zero) if zeros else (stored, scale)
    function = product(MatMul(transpose_rhs=transposed), dequantize, *parts)
    check(function, RNG.standard_normal((3, 160)).astype(np.float32), StoredMatMul)


@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_a_table_that_are_dequantized(zeros: bool) -> None:
    function = Function("main")
    b = Builder(function)
    indices = function.input("i", TensorType(i64, (2, 3)))
    parts = [integers(u4, 256, 64), scales(256, 2), *([integers(u4, 256, 2)] if zeros else [])]
    taken = [b.emit(Gather(0), b.constant(part), indices) for part in parts]
    function.output("y", b.emit(DequantizeLinear(2, block_size=32), *taken, name="y"))
    check(function, RNG.integers(-256, 256, (2, 3)), StoredGather)


def test_few_weights_are_left_to_be_folded() -> None:
    parts = integers(i8, 20, 30), scales(20)
    function = product(MatMul(transpose_rhs=True), DequantizeLinear(0), *parts)
    assert not RECOGNISE_STORED.run(function)


def test_scales_along_the_depth_that_share_no_blocks_are_left() -> None:
    parts = integers(i8, 128, 160), scales(160)
    function = product(MatMul(transpose_rhs=True), DequantizeLinear(1), *parts)
    assert not RECOGNISE_STORED.run(function)


@pytest.mark.parametrize("dtype", [f8e4m3fn, f8e5m2])
def test_floats_of_eight_bits_are_stored_if_they_are_finite(dtype: DType) -> None:
    stored = RNG.standard_normal((128, 160)).astype(dtype.numpy)
    zero = np.zeros(128, dtype.numpy)
    x = RNG.standard_normal((3, 160)).astype(np.float32)
    parts = (stored, scales(128), zero)
    check(product(MatMul(transpose_rhs=True), DequantizeLinear(0), *parts), x, StoredMatMul)
    stored[3, 4] = np.nan
    function = product(MatMul(transpose_rhs=True), DequantizeLinear(0), *parts)
    assert not RECOGNISE_STORED.run(function)
