"""Element-wise ops in Triton's language, at numbers where machines differ."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.pointwise import has_expression
from afterglow.ops import activation, elementwise, functions
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Mod, ShiftLeft, ShiftRight
from afterglow.ops.power import Pow
from afterglow.testing.cases import CASES
from afterglow.testing.cases.case import Case
from afterglow.types import TensorType
from afterglow.types import dtype as dtypes
from afterglow.types.dtype import bf16, f16, f32, f64
from tests.backends.items.emulated import check, compiled, kernel_of, works_of

FLOATS = (
    *(np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 1e-30, 0.5, -0.5, 1.5, 2.5, -2.5, 1, -1, 3),
    *(127.5, -128.5, 88.8, -104, 300.25, 1e30, 3e9, -3e9),
)
UNARY = [
    *(functions.Exp, functions.Expm1, functions.Log, functions.Log1p, functions.Sqrt),
    *(functions.Sin, functions.Cos, functions.Tan, functions.Asin, functions.Acos),
    *(functions.Atan, functions.Sinh, functions.Cosh, functions.Tanh, functions.Asinh),
    *(functions.Acosh, functions.Atanh, functions.Erf, functions.Reciprocal),
    *(elementwise.Neg, elementwise.Abs, elementwise.Sign, elementwise.Floor, elementwise.Ceil),
    *(elementwise.Round, elementwise.IsNaN, elementwise.IsInf, activation.Relu),
    *(activation.Sigmoid, activation.HardSwish, activation.Swish, activation.Gelu),
    *(activation.Softplus, activation.Softsign, activation.Mish),
]
COMPARED = (elementwise.Equal, elementwise.Less, elementwise.LessEqual)
BINARY = [
    *(elementwise.Add, elementwise.Sub, elementwise.Mul, elementwise.Div),
    *(elementwise.Max, elementwise.Min, *COMPARED),
]
LOGIC = [elementwise.And, elementwise.Or, elementwise.Xor]
INTEGERS = (dtypes.i8, dtypes.u8, dtypes.i16, dtypes.u16, dtypes.i32, dtypes.u32)
WIDE = (dtypes.i64, dtypes.u64)


def _floats(dtype):
    with np.errstate(all="ignore"):
        return np.array(FLOATS).astype(dtype.numpy)


def _integers(dtype):
    low, high = dtype.limits
    tried = (low, low + 1, -33, -7, -3, -1, 0, 1, 2, 7, 8, 15, 16, 31, 32, 33, 64, high - 1, high)
    return np.array(sorted({n for n in tried if low <= n <= high}), dtype.numpy)


def _check(op, *arrays):
    case = Case(op, tuple(TensorType.of(a) for a in arrays), dict(enumerate(arrays)))
    with np.errstate(all="ignore"):
        ((_, work),) = works_of(case, ["plain"])
        assert check(work) is not None, f"{op} has no kernel"


@pytest.mark.parametrize("dtype", [f32, f64, f16, bf16])
def test_floats(dtype):
    x = _floats(dtype)
    for op in UNARY:
        _check(op(), x)
    for op in (*(each() for each in BINARY), Pow(), Mod(False), Mod(True)):
        _check(op, x[:, None], x)


@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.u32, dtypes.i64])
def test_integers(dtype):
    _check_integers(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [*INTEGERS, *WIDE])
def test_all_integers(dtype):
    _check_integers(dtype)


def _check_integers(dtype):
    x = _integers(dtype)
    for op in (elementwise.Neg, elementwise.Abs, elementwise.Sign, elementwise.Not):
        _check(op(), x)
    for op in (*BINARY, *LOGIC, ShiftLeft, ShiftRight):
        _check(op(), x[:, None], x)
    for op in (Mod(False), Mod(True)):
        _check(op, x[:, None], x)
    _check(Pow(), np.array([[0], [1], [2], [5]], dtype.numpy), np.array([0, 1, 2], dtype.numpy))


def test_booleans():
    x = np.array([True, False])
    _check(elementwise.Not(), x)
    for op in (*COMPARED, *LOGIC, ShiftLeft, ShiftRight):
        _check(op(), x[:, None], x)


@pytest.mark.parametrize("source", [f32, bf16, dtypes.u8, dtypes.i64, dtypes.boolean])
def test_conversions(source):
    if source is dtypes.boolean:
        x = np.array([True, False])
    elif source.is_float:
        x = np.array([0.0, -0.0, 0.5, -1.5, 2.5, 100.75, -128.0]).astype(source.numpy)
    else:
        x = _integers(source)
    for dtype in (f32, f64, f16, bf16, *INTEGERS, *WIDE, dtypes.boolean):
        _check(Cast(dtype), x)


def _elementwise(cases):
    """One case for each op and element types, and the kernels of them."""
    found = {}
    for case in cases:
        kinds = tuple(None if type is None else type.dtype for type in case.types)
        if has_expression(type(case.op)):
            found.setdefault((type(case.op), kinds, str(case.op)), case)
    return found.values()


def _kinds(cases):
    """Of those, one for each op."""
    return {type(case.op): case for case in _elementwise(cases)}.values()


@pytest.mark.parametrize(
    "cases", [_kinds(CASES), pytest.param(_elementwise(CASES), marks=pytest.mark.slow)]
)
def test_every_expression_gives_what_its_op_is_defined_to(cases):
    for case in cases:
        ((_, work),) = works_of(case, ["plain"])
        check(work)


@pytest.mark.slow
def test_the_compiler_takes_every_expression():
    for case in _elementwise(CASES):
        ((_, work),) = works_of(case, ["plain"])
        source = kernel_of(work.step)
        assert source is None or compiled(source)
