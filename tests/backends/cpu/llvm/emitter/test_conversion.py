"""Conversions between all element types, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.llvm.emitter import convert, reinterpret
from afterglow.backends.cpu.llvm.emitter.narrow import FORMATS
from afterglow.types import dtype as dtypes
from afterglow.types.dtype import (
    DType,
    bf16,
    boolean,
    f8e8m0,
    f16,
    f32,
    f64,
    i4,
    i8,
    i16,
    i32,
    i64,
    u4,
    u8,
    u16,
    u32,
    u64,
)
from tests.backends.cpu.running import RUNNABLE, apply

WHOLE = [i8, i16, i32, i64, u8, u16, u32, u64]
NARROW = [*FORMATS, f8e8m0]
each_target = pytest.mark.parametrize("target", RUNNABLE)


def codes(dtype: DType) -> np.ndarray:
    """Every number of a narrow type."""
    kind = np.uint16 if dtype.bits == 16 else np.uint8
    return np.arange(1 << dtype.bits, dtype=kind).view(dtype.numpy)


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    """Equal numbers with equal signs; any NaN equals any other."""
    with np.errstate(invalid="ignore"):
        found, wanted = (x.astype(np.float64) for x in (found, wanted))
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@each_target
def test_narrow_floats_are_read_exactly(dtype: DType, target: str) -> None:
    x = codes(dtype)
    found = apply(lambda v: convert(v, f32), f32, x, target=Target.of(target), lanes=8)
    same(found, x.astype(np.float32))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@each_target
def test_narrow_floats_are_rounded_to_even(dtype: DType, target: str) -> None:
    x = codes(dtype).astype(np.float32)
    x = np.unique(x[np.isfinite(x)])
    x = x[np.r_[True, np.diff(x) > 0]]
    middles = (x[1:].astype(np.float64) + x[:-1]) / 2
    near = middles.astype(np.float32)
    ends = [np.inf, -np.inf, 3e38, -3e38, 1e-45, -1e-45, 0.0, -0.0, 1e-40, 7e4, 500.0, -480.0]
    x = np.concatenate([x, near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf), ends])
    x = x.astype(np.float32)
    if dtype is f8e8m0:  # ml_dtypes rounds subnormal numbers up from below the middle
        x = x[(np.abs(x) >= 2.0**-126) | (x == 0)]
    found = apply(lambda v: convert(v, dtype), dtype, x, target=Target.of(target), lanes=16)
    with np.errstate(all="ignore"):
        same(found, x.astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [d for d in NARROW if d is not dtypes.f4e2m1], ids=str)
def test_nan_stays(dtype: DType) -> None:
    found = apply(lambda v: convert(v, dtype), dtype, np.full(8, np.nan, np.float32))
    assert np.isnan(found.astype(np.float32)).all()


@pytest.mark.parametrize("dtype", [d for d in FORMATS if d is not f16], ids=str)
def test_to_saturate_is_to_take_the_largest(dtype: DType) -> None:
    x = np.array([np.inf, 3e38, -np.inf, -3.4e38], np.float32)
    found = apply(lambda v: convert(v, dtype, saturate=True), dtype, x).astype(np.float32)
    finite = codes(dtype).astype(np.float32)
    largest = finite[np.isfinite(finite)].max()
    if dtype is bf16:
        x[1], x[3] = 3e38, -largest
    np.testing.assert_array_equal(np.abs(found[[0, 2]]), largest)
    np.testing.assert_array_equal(np.sign(found), [1, 1, -1, -1])


def test_f64_is_rounded_to_f16_only_once() -> None:
    half = np.arange(1, 0x7C00, 7, dtype=np.uint16).view(np.float16).astype(np.float64)
    after = np.nextafter(half.astype(np.float16), np.float16(np.inf)).astype(np.float64)
    middle = (half + after) / 2
    x = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf), [1e300]])
    with np.errstate(over="ignore"):
        same(apply(lambda v: convert(v, f16), f16, x), x.astype(np.float16))


@pytest.mark.parametrize("source", WHOLE, ids=str)
@pytest.mark.parametrize("result", [*WHOLE, f32, f64], ids=str)
def test_integers_to_others(source: DType, result: DType) -> None:
    info = np.iinfo(source.numpy)
    x = np.random.default_rng(0).integers(info.min, info.max, 99, source.numpy, endpoint=True)
    x[:2] = info.min, info.max
    found = apply(lambda v: convert(v, result), result, x, lanes=8)
    np.testing.assert_array_equal(found, x.astype(result.numpy))


@pytest.mark.parametrize("source", WHOLE, ids=str)
@pytest.mark.parametrize("result", [i8, u8, i16, u16, i32, u32], ids=str)
def test_integers_saturate(source: DType, result: DType) -> None:
    info, limits = np.iinfo(source.numpy), np.iinfo(result.numpy)
    x = np.random.default_rng(0).integers(info.min, info.max, 99, source.numpy, endpoint=True)
    x[:4] = info.min, info.max, 3, 100
    found = apply(lambda v: convert(v, result, saturate=True), result, x, lanes=8)
    wanted = [min(max(int(number), limits.min), limits.max) for number in x]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("source", [f32, f64], ids=str)
@pytest.mark.parametrize("result", WHOLE, ids=str)
def test_floats_to_integers_leave_out_the_fraction(source: DType, result: DType) -> None:
    x = np.array([0.0, -0.0, 0.9, 1.5, 2.5, 100.99], source.numpy)
    found = apply(lambda v: convert(v, result), result, x)
    np.testing.assert_array_equal(found, np.trunc(x))
    limits = np.iinfo(result.numpy)
    wild = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, -5.7], source.numpy)
    found = apply(lambda v: convert(v, result, saturate=True), result, wild)
    least = -5 if result.is_signed else 0
    assert found.tolist() == [0, limits.max, limits.min, limits.max, limits.min, least]


@pytest.mark.parametrize("dtype", [i4, u4, dtypes.i2, dtypes.u2], ids=str)
def test_integers_below_a_byte(dtype: DType) -> None:
    x = codes(dtype)
    np.testing.assert_array_equal(
        apply(lambda v: convert(v, i32), i32, x, lanes=8), x.astype(np.int32)
    )
    wide = np.arange(-20, 21, dtype=np.int32)
    found = apply(lambda v: convert(v, dtype), dtype, wide)
    np.testing.assert_array_equal(found.view(np.uint8), wide.astype(dtype.numpy).view(np.uint8))
    found = apply(lambda v: convert(v, dtype, saturate=True), dtype, wide)
    low, high = int(x.astype(int).min()), int(x.astype(int).max())
    np.testing.assert_array_equal(found.astype(int), np.clip(wide, low, high))


@pytest.mark.parametrize("dtype", [f16, f32, i8, u64], ids=str)
def test_booleans(dtype: DType) -> None:
    x = np.array([0, 1, 2, 0, 5], dtype.numpy)
    np.testing.assert_array_equal(apply(lambda v: convert(v, boolean), boolean, x), x != 0)
    truth = np.array([True, False, True])
    found = apply(lambda v: convert(v, dtype), dtype, truth)
    np.testing.assert_array_equal(found, truth.astype(dtype.numpy))


def test_the_same_bits_as_another_type() -> None:
    x = np.array([1.0, -2.5, np.inf, 1e-40] * 2, np.float32)
    found = apply(lambda v: reinterpret(v, i32), i32, x, lanes=8)
    np.testing.assert_array_equal(found, x.view(np.int32))
    found = apply(lambda v: reinterpret(reinterpret(v, i8), f32), f32, x, lanes=8)
    np.testing.assert_array_equal(found, x)
