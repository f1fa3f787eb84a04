"""Quantization where versions of ONNX differ."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from afterglow.testing.cases.case import f16, f32, i8, i32, u8
from tests.frontends.onnx.one_node import Fixed, Form, check, const, each_form, form, scalar

X = f32(2, 3, 4)
TIES = np.array([-3, -1, 1, 3, 5, 7, -1000, 1000], np.float32) / 4
SCALE, FINE = scalar(0.5), scalar(0.02)
SCALES = const(0.5, 0.1, 0.02, dtype=np.float32)


def zero(number: int, dtype: type = np.uint8) -> Fixed:
    return scalar(number, dtype)


def zeros(*numbers: int, dtype: type = np.uint8) -> Fixed:
    return const(*numbers, dtype=dtype)


@each_form(
    form("QuantizeLinear", (10, 13, 19, 21, 23), TIES, SCALE, zero(100)),
    form("QuantizeLinear", (10, 13, 21), TIES, SCALE),
    form("QuantizeLinear", 10, TIES, SCALE, zero(-7, np.int8)),
    form("QuantizeLinear", 13, X, SCALES, zeros(1, 2, 3)),
    form("QuantizeLinear", (13, 21), X, SCALES, zeros(1, 2, 3), axis=-2),
    form("QuantizeLinear", 13, f32(3, 2), SCALES, axis=0),
    form("QuantizeLinear", 13, X, const(0.5, dtype=np.float32), zeros(9)),
    form("QuantizeLinear", 19, f16(2, 3), scalar(0.5, np.float16), zero(3)),
    form("QuantizeLinear", 21, TIES, FINE, zero(-300, np.int16)),
    form("QuantizeLinear", 21, TIES, FINE, zero(30000, np.uint16)),
    form("QuantizeLinear", 10, f32(), SCALE, zero(3)),
    form("QuantizeLinear", 13, f32(0, 3), SCALE, zero(3)),
    form("QuantizeLinear", 13, np.array([np.inf, -np.inf], np.float32), SCALE, zero(3)),
)
def test_quantization(form: Form) -> None:
    check(form)


@each_form(
    form("DequantizeLinear", (10, 13, 19, 21, 23), u8(2, 3), FINE, zero(100), high=255),
    form("DequantizeLinear", (10, 13), i8(2, 3), FINE, low=-128, high=127),
    form("DequantizeLinear", 10, i32(2, 3), FINE, low=-999, high=999),
    form("DequantizeLinear", (13, 21), u8(2, 3, 4), SCALES, zeros(1, 2, 3), high=255),
    form("DequantizeLinear", 13, u8(3, 2), SCALES, zeros(1, 2, 3), axis=-2, high=255),
    form("DequantizeLinear", 19, u8(2, 3), scalar(0.5, np.float16), zero(3), high=255),
    form("DequantizeLinear", 21, np.array([-9, 300], np.int16), FINE, zero(7, np.int16)),
    form("DequantizeLinear", 10, np.array(200, np.uint8), FINE, zero(7)),
    form("DequantizeLinear", 13, i32(3, 2), SCALES, axis=0, low=-999, high=999),
)
def test_dequantization(form: Form) -> None:
    check(form)


BLOCKS = Fixed(np.array([[0.5, 0.2], [0.1, 0.3], [0.02, 0.7]], np.float32))
OFFSETS = Fixed(np.array([[1, 2], [3, 4], [5, 6]], np.uint8))


@each_form(
    form("QuantizeLinear", 21, f32(3, 6), BLOCKS, OFFSETS, axis=1, block_size=3),
    form("QuantizeLinear", 21, f32(3, 4), BLOCKS, axis=1, block_size=2),
    form("DequantizeLinear", 21, u8(3, 6), BLOCKS, OFFSETS, axis=1, block_size=3, high=255),
    form("DequantizeLinear", 21, u8(3, 6), BLOCKS, axis=-1, block_size=3, high=255),
)
def test_blocks_have_their_own_scales(form: Form) -> None:
    check(form)


FLOATS8 = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
MANY = np.array([-1e6, -300, -0.3, 0, 0.1, 17, 448, 1e6], np.float32)


@each_form(
    *(form("QuantizeLinear", 19, MANY, SCALE, zero(0, dtype)) for dtype in FLOATS8),
    *(form("QuantizeLinear", 19, MANY, SCALE, zero(0, dtype), saturate=0) for dtype in FLOATS8),
    *(
        form("DequantizeLinear", 19, np.array([1, -2, 0.5]).astype(dtype), SCALE, zero(0, dtype))
        for dtype in FLOATS8
    ),
    *(
        form("QuantizeLinear", 21, TIES, SCALE, zero(1, dtype))
        for dtype in (ml_dtypes.int4, ml_dtypes.uint4)
    ),
    form("QuantizeLinear", 21, TIES, SCALE, output_dtype=3),
    form("QuantizeLinear", 23, TIES, SCALE, output_dtype=2),
    form("DequantizeLinear", 23, u8(3), SCALE, output_dtype=10, high=255),
    form("DequantizeLinear", 21, np.array([-8, 7], ml_dtypes.int4), SCALE),
)
def test_narrow_types(form: Form) -> None:
    check(form)


@each_form(
    form("DynamicQuantizeLinear", 11, f32(3, 4), outputs=3),
    form("DynamicQuantizeLinear", 11, f32(3, 4), outputs=3, low=1, high=5),
    form("DynamicQuantizeLinear", 11, f32(3, 4), outputs=3, low=-5, high=-1),
    form("DynamicQuantizeLinear", 11, np.zeros(3, np.float32), outputs=3),
)
def test_dynamic_quantization(form: Form) -> None:
    check(form)


A = u8(2, 3), FINE, zero(99)
B = u8(3, 4), FINE, zero(120)


@each_form(
    form("QLinearMatMul", (10, 21), *A, *B, scalar(0.1), zero(100), high=255, tolerance=1),
    form(
        *("QLinearMatMul", 10, *A, i8(3, 4), const(0.02, 0.01, 0.03, 0.04, dtype=np.float32)),
        *(zeros(0, 1, 2, 3, dtype=np.int8), scalar(0.1), zero(100)),
        low=-128,
        high=127,
        tolerance=1,
    ),
)
def test_quantized_products(form: Form) -> None:
    check(form)
