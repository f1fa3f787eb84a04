"""Arithmetic of values, against NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest

from afterglow.backends.cpu import Module, Target
from afterglow.backends.cpu.llvm.emitter import (
    Value,
    absolute,
    add_saturating,
    ceil,
    clamp,
    copy_sign,
    differ,
    equal,
    floor,
    fma,
    larger,
    leading_zeros,
    maximum,
    minimum,
    quotient,
    remainder,
    rint,
    round_half_away,
    select,
    smaller,
    sqrt,
    subtract_saturating,
    trunc,
)
from afterglow.types.dtype import (
    DType,
    boolean,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from tests.backends.cpu.running import RUNNABLE, apply

FLOATS = [f32, f64]
INTEGERS = [i8, i16, i32, i64, u8, u16, u32, u64]
SPECIAL = [0.0, -0.0, 1.0, -1.5, 2.5, 3.5, np.inf, -np.inf, np.nan, 1e-45, -0.49999997, 8388609.0]

each_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)
each_integer = pytest.mark.parametrize("dtype", INTEGERS, ids=str)
each_target = pytest.mark.parametrize("target", RUNNABLE)


def numbers(dtype: DType, seed: int = 0, size: int = 100) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return np.concatenate([rng.normal(0, 10, size), SPECIAL]).astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    return rng.integers(info.min, info.max, size + 12, dtype.numpy, endpoint=True)


@each_float
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
@pytest.mark.parametrize("lanes", [1, 3, 8, 32])
def test_arithmetic_of_floats(dtype: DType, name: str, lanes: int) -> None:
    x, y = numbers(dtype, 1), numbers(dtype, 2)[::-1].copy()
    function = getattr(operator, name)
    with np.errstate(all="ignore"):
        wanted = function(x, y)
    np.testing.assert_array_equal(apply(function, dtype, x, y, lanes=lanes), wanted)


@each_integer
@pytest.mark.parametrize("name", ["add", "sub", "mul", "and_", "or_", "xor"])
def test_arithmetic_of_integers_wraps(dtype: DType, name: str) -> None:
    x, y = numbers(dtype, 1), numbers(dtype, 2)
    function = getattr(operator, name)
    np.testing.assert_array_equal(apply(function, dtype, x, y), function(x, y))


@each_integer
def test_shifts_keep_the_sign_of_signed_integers(dtype: DType) -> None:
    x = numbers(dtype)
    np.testing.assert_array_equal(apply(lambda v: v << 3, dtype, x), x << 3)
    np.testing.assert_array_equal(apply(lambda v: v >> 3, dtype, x), x >> 3)


@each_integer
def test_integer_division_rounds_towards_zero(dtype: DType) -> None:
    x, y = numbers(dtype, 1), numbers(dtype, 2)
    y[y == 0] = 1
    y[y.astype(np.int64) == -1] = 3
    wanted = np.trunc(x.astype(object) / y.astype(object)) if dtype.bits < 32 else None
    found = apply(quotient, dtype, x, y)
    rest = apply(remainder, dtype, x, y)
    np.testing.assert_array_equal(found * y + rest, x)
    np.testing.assert_array_equal(rest, np.fmod(x, y))
    if wanted is not None:
        np.testing.assert_array_equal(found, wanted.astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge"])
def test_comparisons(dtype: DType, name: str) -> None:
    x, y = numbers(dtype, 1), numbers(dtype, 2)
    y[::3] = x[::3]
    function = getattr(operator, name)
    np.testing.assert_array_equal(apply(function, boolean, x, y), function(x, y))
    np.testing.assert_array_equal(apply(equal, boolean, x, y), x == y)
    np.testing.assert_array_equal(apply(differ, boolean, x, y), x != y)


@each_float
def test_negation_and_absolute_value_touch_only_the_sign(dtype: DType) -> None:
    x = numbers(dtype)
    np.testing.assert_array_equal(np.signbit(apply(operator.neg, dtype, x)), ~np.signbit(x))
    assert not np.signbit(apply(absolute, dtype, x)).any()
    y = numbers(dtype, 5)
    np.testing.assert_array_equal(apply(copy_sign, dtype, x, y), np.copysign(x, y))


@pytest.mark.parametrize("dtype", [*FLOATS, i32, u8], ids=str)
def test_minimum_and_maximum_keep_nan(dtype: DType) -> None:
    x, y = numbers(dtype, 1), numbers(dtype, 2)[::-1].copy()
    np.testing.assert_array_equal(apply(maximum, dtype, x, y), np.maximum(x, y))
    np.testing.assert_array_equal(apply(minimum, dtype, x, y), np.minimum(x, y))


@each_float
def test_the_quick_maximum_prefers_its_second_operand(dtype: DType) -> None:
    x, y = numbers(dtype, 1), numbers(dtype, 2)[::-1].copy()
    np.testing.assert_array_equal(apply(larger, dtype, x, y), np.where(x > y, x, y))
    np.testing.assert_array_equal(apply(smaller, dtype, x, y), np.where(x < y, x, y))
    np.testing.assert_array_equal(
        apply(lambda v: clamp(v, -1.0, 2.0), dtype, x), np.clip(x, dtype.numpy.type(-1), 2)
    )


@each_float
@each_target
@pytest.mark.parametrize(
    ("function", "wanted"),
    [(rint, np.rint), (floor, np.floor), (ceil, np.ceil), (trunc, np.trunc), (sqrt, np.sqrt)],
    ids=lambda f: f.__name__,
)
def test_rounding(
    dtype: DType, target: str, function: Callable[[Value], Value], wanted: np.ufunc
) -> None:
    x = np.concatenate([numbers(dtype), np.arange(-5, 5.5, 0.5, dtype.numpy)])
    with np.errstate(all="ignore"):
        right = wanted(x)
    found = apply(function, dtype, x, target=Target.of(target))
    np.testing.assert_array_equal(found, right)
    signed = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(found)[signed], np.signbit(right)[signed])


def test_round_half_away_from_zero() -> None:
    x = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 2.4, np.inf, 8388609.0], np.float32)
    wanted = np.array([1, -1, 2, 3, -3, 0, 2, np.inf, 8388609], np.float32)
    np.testing.assert_array_equal(apply(round_half_away, f32, x), wanted)


@each_float
@each_target
def test_fma_rounds_once_where_the_machine_can(dtype: DType, target: str) -> None:
    machine = Target.of(target)
    x = numbers(dtype, 1)
    tiny = dtype.numpy.type(np.finfo(dtype.numpy).eps)
    found = apply(lambda v: fma(v, 1.0 + float(tiny), 0.5), dtype, x, target=machine)
    wide = np.longdouble if dtype is f64 else np.float64
    with np.errstate(all="ignore"):
        once = (x.astype(wide) * wide(1 + tiny) + wide(0.5)).astype(dtype.numpy)
        twice = x * (1 + tiny) + dtype.numpy.type(0.5)
    if machine.fma:
        close = np.isclose(found, once, rtol=2 * float(tiny), equal_nan=True)
        assert close.all()
        assert (found == once).mean() > 0.9 * np.isfinite(x).mean()
    else:
        np.testing.assert_array_equal(found, twice)


@pytest.mark.parametrize("dtype", [i8, u8, i16, u16], ids=str)
def test_saturating_sums(dtype: DType) -> None:
    x, y = numbers(dtype, 1), numbers(dtype, 2)
    info = np.iinfo(dtype.numpy)
    wide = x.astype(int), y.astype(int)
    np.testing.assert_array_equal(
        apply(add_saturating, dtype, x, y), np.clip(sum(wide), info.min, info.max)
    )
    np.testing.assert_array_equal(
        apply(subtract_saturating, dtype, x, y), np.clip(wide[0] - wide[1], info.min, info.max)
    )


def test_leading_zeros_of_zero_are_all() -> None:
    x = np.array([0, 1, 255, 1 << 31], np.uint32)
    np.testing.assert_array_equal(apply(leading_zeros, u32, x), [32, 31, 24, 0])


def test_select_takes_each_lane_from_its_side() -> None:
    x = numbers(f32)
    found = apply(lambda v: select(v > 0.0, v, v * -2.0), f32, x)
    np.testing.assert_array_equal(found, np.where(x > 0, x, x * np.float32(-2)))


def test_masks_combine() -> None:
    x = numbers(f32)
    found = apply(lambda v: ~((v > 0.0) & (v < 5.0)) ^ (v > 3.0), boolean, x)
    np.testing.assert_array_equal(found, ~((x > 0) & (x < 5)) ^ (x > 3))


def writer() -> Value:
    module = Module(Target.of("x86-64-v3"))
    with module.function("f") as e:
        return e.argument("x", f32, 8)


def test_index_arithmetic_is_folded() -> None:
    module = Module(Target.of("x86-64-v3"))
    with module.function("f") as e:
        n = e.count("n")
        assert (n + 0) is n
        assert (n * 1) is n
        assert (1 * n) is n
        assert (n * 0).constant == 0
        assert (e.index(3) * 4 + 5).constant == 17
        assert not e.lines


def test_mixed_types_are_refused() -> None:
    x = writer()
    with pytest.raises(TypeError, match="the element types differ: f32, f64"):
        x + Value.of(x.code, f64, 1.0)
    with pytest.raises(TypeError, match="a vector of 4 lanes does not stretch to 8"):
        x + Value.of(x.code, f32, 1.0, 4)


def test_types_without_arithmetic_say_so() -> None:
    x = writer()
    with pytest.raises(TypeError, match=r"f16 has no operator \+: convert it first"):
        Value.of(x.code, f16, 1.0) + 1.0
    with pytest.raises(TypeError, match="f32 has no operator <<"):
        x << 1
    with pytest.raises(TypeError, match=r"i32 has no operator /"):
        Value.of(x.code, i32, 1) / 2
    with pytest.raises(TypeError, match=r"1.5 is no i32"):
        Value.of(x.code, i32, 1) + 1.5


def test_a_value_is_no_python_condition() -> None:
    with pytest.raises(TypeError, match="known only when the code runs"):
        bool(writer() > 0.0)
