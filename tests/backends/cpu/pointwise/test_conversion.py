"""Casts, bit casts, choice and quantization, of all types that they take."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from afterglow.backends.cpu.pointwise import supports
from afterglow.ops.conversion import FLOAT8, Cast, PowerRounding
from afterglow.ops.elementwise import BitCast, Where
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.types import Array
from afterglow.types import dtype as d
from afterglow.types.dtype import DType
from tests.backends.cpu.pointwise.checking import run_and_check
from tests.backends.cpu.pointwise.harness import Job
from tests.backends.cpu.pointwise.samples import DTYPES_HELD, pairs, sample

_FLOATS = (d.f32, d.f64, d.f16, d.bf16)
_BELOW_BYTE = (d.i2, d.u2, d.i4, d.u4)
_QUANTIZED = (d.u8, d.i8, d.u16, d.i16, d.i32, d.u32, d.i64, *_BELOW_BYTE, *FLOAT8, d.f4e2m1)
each_dtype = pytest.mark.parametrize("dtype", DTYPES_HELD, ids=str)


def random() -> np.random.Generator:
    return np.random.default_rng(0)


def casts(source: DType) -> Iterator[Job]:
    x = sample(source, random())
    for dtype in DTYPES_HELD:
        if source in _BELOW_BYTE and dtype in _BELOW_BYTE:
            continue  # NumPy has no such casts
        yield Job(Cast(dtype), dtype, (x,))
        yield Job(Cast(dtype), dtype, (x,), vectors=False)
    for dtype in (*FLOAT8, d.f8e8m0):
        yield Job(Cast(dtype, saturate=False), dtype, (x,))
    for mode in PowerRounding:
        yield Job(Cast(d.f8e8m0, round_mode=mode), d.f8e8m0, (x,))


@each_dtype
def test_cast_to_every_type(dtype: DType) -> None:
    run_and_check(list(casts(dtype)))


@each_dtype
def test_bit_cast_to_every_type_as_wide(dtype: DType) -> None:
    x = sample(dtype, random())
    wanted = [w for w in DTYPES_HELD if w.bits == dtype.bits and w is not d.boolean]
    run_and_check([Job(BitCast(w), w, (x,)) for w in wanted])


@each_dtype
def test_where_moves_every_type(dtype: DType) -> None:
    then, other = pairs(dtype, random())
    condition = random().random(then.size) < 0.5
    run_and_check([Job(Where(), dtype, (condition, then, other), vectors=v) for v in (True, False)])


def quantizations(x_type: DType) -> Iterator[Job]:
    rng = random()
    x = sample(x_type, rng)
    scale = rng.uniform(0.01, 1, x.size).astype(x_type.numpy)
    for dtype in _QUANTIZED:
        zero = small_numbers(rng, x.size, dtype)
        for zero_point in (None, zero):
            yield Job(QuantizeLinear(dtype=dtype), dtype, (x, scale, zero_point))
        if dtype in FLOAT8:
            yield Job(QuantizeLinear(dtype=dtype, saturate=False), dtype, (x, scale, zero))


def small_numbers(rng: np.random.Generator, size: int, dtype: DType) -> Array:
    return rng.integers(0, 2 if dtype.bits == 2 else 8, size).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", _FLOATS, ids=str)
def test_quantize(dtype: DType) -> None:
    run_and_check(list(quantizations(dtype)))


def dequantizations(dtype: DType) -> Iterator[Job]:
    rng = random()
    for stored in _QUANTIZED:
        x = sample(stored, rng)
        zero = small_numbers(rng, x.size, stored)
        for scale_type in _FLOATS:
            scale = rng.uniform(0.01, 1, x.size).astype(scale_type.numpy)
            for zero_point in (None, zero):
                yield Job(DequantizeLinear(dtype=dtype), dtype, (x, scale, zero_point))


@pytest.mark.parametrize("dtype", _FLOATS, ids=str)
def test_dequantize(dtype: DType) -> None:
    run_and_check(list(dequantizations(dtype)))


def test_blocks_and_texts_are_refused() -> None:
    operands = (d.f32, d.f32, d.u8)
    assert supports(QuantizeLinear(), d.u8, operands)
    assert not supports(QuantizeLinear(block_size=4), d.u8, operands)
    assert not supports(Cast(d.string), d.string, (d.f32,))
    assert not supports(Cast(d.c64), d.c64, (d.f32,))
