"""Element-wise ops where versions of ONNX differ."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.testing.cases.case import bf16, boolean, f16, f32, f64, i8, i32, i64, u8, u32
from tests.frontends.onnx.one_node import Form, check, const, each_form, form, giving, scalar

NAN, INFINITY = np.nan, np.inf
SPECIAL = np.array([-INFINITY, INFINITY, NAN, 0, -1, 1], np.float32)
OLD_PAIR = {"broadcast": 1, "axis": 0}


@each_form(
    giving(np.add, form("Add", (1, 6), f32(2, 3), f32(2, 3))),
    giving(np.add, form("Add", 6, f32(2, 3, 4), f32(4), broadcast=1)),
    giving(np.subtract, form("Sub", 6, f32(2, 3, 4), f32(3, 4), broadcast=1)),
    giving(np.multiply, form("Mul", 1, f32(2, 3, 4), f32(1), broadcast=1)),
    giving(np.divide, form("Div", 6, f32(2, 3), f32(), broadcast=1)),
    giving(np.divide, form("Div", 6, f32(2, 3), f32(2, 3), **OLD_PAIR)),
    giving(np.multiply, form("Mul", 6, i32(2, 3), i32(3), broadcast=1, axis=-1)),
    giving(np.logical_or, form("Or", 1, boolean(2, 3), boolean(3), broadcast=1)),
    giving(np.logical_xor, form("Xor", 1, boolean(2, 3), boolean(2, 3))),
    giving(
        lambda x, y: x + y[:, None, None],
        form("Add", (1, 6), f32(2, 3, 4, 5), f32(3), broadcast=1, axis=1),
    ),
    giving(
        lambda x, y: x - y[..., None],
        form("Sub", 6, f32(2, 3, 4, 5), f32(3, 4), broadcast=1, axis=1),
    ),
    giving(lambda x, y: x * y[:, None], form("Mul", 6, f32(2, 3), f32(2), **OLD_PAIR)),
    giving(lambda x, y: x ** y[:, None], form("Pow", 1, f32(2, 3), f32(2), **OLD_PAIR, low=0.5)),
    giving(lambda x, y: x & y[:, None], form("And", 1, boolean(2, 3), boolean(2), **OLD_PAIR)),
    giving(lambda x, y: x == y[:, None], form("Equal", 1, i32(2, 3), i32(2), **OLD_PAIR)),
    giving(lambda x, y: x < y[:, None], form("Less", 1, f32(2, 3), f32(2), **OLD_PAIR)),
    giving(lambda x, y: x > y[:, None], form("Greater", 1, f32(2, 3), f32(2), **OLD_PAIR)),
)
def test_before_version_7_a_smaller_operand_goes_along_an_axis(form: Form) -> None:
    check(form)


@each_form(
    *(form(op, (7, 13, 14), f32(2, 3, 4), f32(3, 1)) for op in ("Add", "Sub", "Mul", "Div")),
    *(form(op, 14, i32(2, 3), i32(3), low=1, high=9) for op in ("Add", "Sub", "Mul", "Div")),
    form("Div", 14, np.array([-7, 7, -8], np.int32), np.array([2, -2, 3], np.int32)),
    form("Add", 14, u8(2, 3), u8(3), high=200),
    form("Sub", 14, i8(5), i8(5), low=-100, high=100),
    form("Add", 14, f64(2, 1), f64(1, 3)),
    form("Add", 13, f16(2, 3), f16(3)),
    form("Add", 13, bf16(2, 3), bf16(3)),
    form("Add", 7, f32(0, 3), f32(3)),
    form("Add", 7, f32(), f32()),
)
def test_from_version_7_on_operands_broadcast_as_in_numpy(form: Form) -> None:
    check(form)


@each_form(
    *(form(op, (1, 7), boolean(2, 3), boolean(2, 3)) for op in ("And", "Or", "Xor")),
    form("Equal", (7, 11, 13, 19), i64(2, 3), i64(3)),
    form("Equal", (11, 13), f32(2, 3), f32(3)),
    form("Equal", 7, boolean(2, 3), boolean(3)),
    form("Equal", 19, np.array(["a", "b"], object), np.array(["a", "c"], object)),
    form("Less", (7, 9, 13), f32(2, 3), f32(3)),
    form("Greater", (7, 9, 13), f32(2, 3), f32(3)),
    form("Greater", (9, 13), i32(2, 3), i32(3)),
    form("LessOrEqual", (12, 16), i64(2, 3), i64(3)),
    form("GreaterOrEqual", (12, 16), f32(2, 3), f32(3)),
    form("Less", 13, SPECIAL, SPECIAL[::-1].copy()),
    form("Not", 1, boolean(5)),
)
def test_comparisons_and_logic(form: Form) -> None:
    check(form)


@each_form(
    *(form(op, (1, 6), f32(2, 3), f32(2, 3), f32(2, 3)) for op in ("Max", "Min", "Sum", "Mean")),
    *(form(op, (8, 13), f32(2, 3), f32(3), f32(2, 1)) for op in ("Max", "Min", "Sum", "Mean")),
    *(form(op, (8, 13), f32(2, 3)) for op in ("Max", "Min", "Sum", "Mean")),
    *(form(op, (12, 13), i64(2, 3), i64(3)) for op in ("Max", "Min")),
    *(form(op, 13, SPECIAL, np.zeros(6, np.float32)) for op in ("Max", "Min")),
    form("Mean", 13, f16(4), f16(4)),
)
def test_variadic_ops(form: Form) -> None:
    check(form)


@each_form(
    *(
        form("Pow", 15, np.array([1, 2, 3, 7], base), np.array([2, 0, 3, 2], exponent))
        for base, exponent in [
            (np.float32, np.int64),
            (np.int32, np.float32),
            (np.int64, np.int32),
            (np.float32, np.float64),
            (np.float16, np.float32),
            (np.float64, np.float32),
        ]
    ),
    form("Pow", (7, 12, 13), f32(2, 3), f32(3), low=0.1),
    form("Pow", 15, np.array([1, 2, 3, -7], np.int32), np.array([2.5, 0.5, -1, 2], np.float32)),
    form("Pow", 15, np.array([-2, 0, 3], np.float32), np.array([3, 0, -1], np.float32)),
)
def test_powers_have_the_type_of_the_base(form: Form) -> None:
    check(form)


SEVENS = np.array([-7, 7, -6, 5]), np.array([3, -3, 3, -5])


@each_form(
    *(
        form("Mod", 13, SEVENS[0].astype(dtype), SEVENS[1].astype(dtype), fmod=fmod)
        for dtype in (np.int8, np.int32, np.int64)
        for fmod in (0, 1)
    ),
    form("Mod", (10, 13), np.array([7, 8, 9], np.uint8), np.array([3, 5, 9], np.uint8)),
    form("Mod", (10, 13), f32(2, 3), f32(3), fmod=1),
    form("Mod", 13, f16(2, 3), f16(3), fmod=1),
)
def test_remainders(form: Form) -> None:
    check(form)


@each_form(
    *(
        form("BitShift", 11, np.array([16, 200], d), np.array([3, 0], d), direction=direction)
        for d in (np.uint8, np.uint16, np.uint32, np.uint64)
        for direction in ("LEFT", "RIGHT")
    ),
    form("BitShift", 11, u32(2, 3), u32(3), direction="LEFT", high=8),
    *(
        form(op, 18, i32(2, 3), i32(3), low=-99, high=99)
        for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
    ),
    form("BitwiseNot", 18, u8(4), high=255),
    form("BitwiseNot", 18, i32(4)),
)
def test_bits(form: Form) -> None:
    check(form)


BYTES = np.array([-128, -5, 5, 127, -1, -1, 64, 3], np.int8)
COUNTS = np.array([1, 1, 1, 1, 8, 100, -1, 7], np.int8)


@each_form(
    form("BitShift", 28, BYTES, COUNTS, direction="LEFT"),
    form("BitShift", 28, BYTES, COUNTS, direction="RIGHT"),
    form("BitShift", 28, BYTES.astype(np.int64), COUNTS.astype(np.int64), direction="RIGHT"),
    form("BitShift", 28, BYTES.view(np.uint8), COUNTS.view(np.uint8), direction="LEFT"),
    form("BitShift", 28, BYTES.view(np.uint8), COUNTS.view(np.uint8), direction="RIGHT"),
)
def test_shifts_beyond_the_last_bit_leave_the_sign(form: Form) -> None:
    check(form)


EIGHTS = np.array([-7, 7, 0, INFINITY, 3, -3, 3, NAN], np.float32)
DIVISORS = np.array([3, -3, -3, 2, 0, INFINITY, INFINITY, 2], np.float32)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@each_form(
    form("Mod", 28, f32(2, 3), f32(3)),
    form("Mod", 28, EIGHTS, DIVISORS),
    form("Mod", 28, EIGHTS, DIVISORS, fmod=1),
)
def test_remainders_of_floats(form: Form) -> None:
    check(form)


@each_form(
    form("Where", (9, 16), boolean(2, 3), f32(2, 3), f32(3)),
    form("Where", 9, boolean(2, 1), i64(3), i64()),
    form("Where", 9, boolean(3), u8(2, 3), u8(3), high=255),
    form(
        "Where", 9, np.array([True, False]), np.array(["a", "b"], object), np.array(["c"], object)
    ),
)
def test_where_picks_one_of_two(form: Form) -> None:
    check(form)


@each_form(
    form("IsInf", (10, 20), SPECIAL),
    form("IsInf", (10, 20), SPECIAL, detect_negative=0),
    form("IsInf", (10, 20), SPECIAL, detect_positive=0),
    form("IsInf", 10, SPECIAL, detect_positive=0, detect_negative=0),
    form("IsInf", 20, SPECIAL.astype(np.float16)),
    form("IsInf", 10, SPECIAL.astype(np.float64)),
    form("IsNaN", (9, 13, 20), SPECIAL),
    form("IsNaN", 13, SPECIAL.astype(np.float16)),
)
def test_infinities_and_nans(form: Form) -> None:
    check(form)


HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4, -2.6], np.float32)


@each_form(
    form("Round", (11, 22), HALVES),
    form("Round", 11, HALVES.astype(np.float64)),
    form("Round", 11, HALVES.astype(np.float16)),
    form("Floor", (1, 6, 13), HALVES),
    form("Ceil", (1, 6, 13), HALVES),
)
def test_roundings(form: Form) -> None:
    check(form)


@each_form(
    *(
        form(op, (1, 6, 13), f32(2, 3), low=0.1)
        for op in ("Exp", "Log", "Sqrt", "Reciprocal", "Tanh", "Abs", "Neg")
    ),
    *(
        form(op, (7, 22), f32(5), low=-0.9, high=0.9)
        for op in ("Sin", "Cos", "Tan", "Asin", "Acos", "Atan")
    ),
    *(form(op, (9, 22), f32(5), low=-0.9, high=0.9) for op in ("Sinh", "Cosh", "Asinh", "Atanh")),
    form("Acosh", (9, 22), f32(5), low=1, high=3),
    form("Erf", (9, 13), f32(7), low=-4, high=4),
    form("Sign", (9, 13), SPECIAL[[0, 1, 3, 4, 5]]),
    form("Sign", 13, np.array([-3, 0, 5], np.int64)),
    form("Abs", 13, np.array([-128, -1, 3], np.int8)),
    form("Neg", 13, np.array([-3, 0, 5], np.int8)),
)
def test_functions_of_one_operand(form: Form) -> None:
    check(form)


@each_form(
    form("Add", 14, f32(2, 3), const(1, 2, 3, dtype=np.float32)),
    form("Mul", 14, const(1, 2, dtype=np.float32), scalar(3)),
)
def test_constants_fold(form: Form) -> None:
    check(form)
