"""Cases of afterglow.ops.elementwise, afterglow.ops.functions and afterglow.ops.power."""

from __future__ import annotations

import numpy as np

from afterglow.ops import elementwise as ops
from afterglow.ops import functions as fn
from afterglow.ops.power import Pow
from afterglow.testing.cases.case import (
    bf16,
    boolean,
    case,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    string,
    u8,
)
from afterglow.types import dtype as dtypes

_EDGES = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30], np.float32)

CASES = [
    *(case(op(), f32(2, 3), f32(2, 3)) for op in (ops.Add, ops.Sub, ops.Mul, ops.Max, ops.Min)),
    *(case(op(), i64(2, 1, 3), i64(4, 1)) for op in (ops.Add, ops.Sub, ops.Mul, ops.Max, ops.Min)),
    case(ops.Add(), f16(3), f16()),
    case(ops.Mul(), bf16(2, 3), bf16(1, 3)),
    case(ops.Add(), f32(0, 3), f32(3)),
    case(ops.Add(), u8(4), u8(4), low=0, high=255),
    case(ops.Div(), f32(2, 3), f32(3), low=0.5),
    case(
        ops.Div(),
        i32(4),
        i32(4),
        given={0: np.array([7, -7, 7, 5], np.int32), 1: np.array([2, 2, -2, 0], np.int32)},
    ),
    case(
        ops.Mod(),
        i32(4),
        i32(4),
        given={0: np.array([7, -7, 7, -7], np.int32), 1: np.array([3, 3, -3, -3], np.int32)},
    ),
    case(ops.Mod(truncated=True), f32(3), f32(3), low=0.5),
    case(ops.Mod(truncated=True), f32(2, 3), f32(3)),
    case(ops.Mod(), f32(2, 3), f32(3)),
    case(Pow(), f32(2, 3), f32(2, 3), low=0.1),
    case(Pow(), i64(3), i64(3), low=1, high=3),
    *(
        case(op(), f32(8), f32(8), given={0: _EDGES, 1: _EDGES[::-1].copy()})
        for op in (ops.Equal, ops.Less, ops.LessEqual, ops.Max, ops.Min)
    ),
    *(case(op(), i8(2, 3), i8(1, 3)) for op in (ops.Equal, ops.Less, ops.LessEqual)),
    case(ops.Equal(), boolean(3), boolean(3)),
    case(ops.Equal(), string(3), string(3)),
    *(case(op(), boolean(4, 1), boolean(3)) for op in (ops.And, ops.Or, ops.Xor)),
    *(
        case(op(), i32(4), i32(4), low=0, high=9)
        for op in (ops.And, ops.Or, ops.Xor, ops.ShiftLeft, ops.ShiftRight)
    ),
    case(ops.Not(), boolean(2, 2)),
    case(ops.Not(), i8(3)),
    *(case(op(), f32(8), given={0: _EDGES}) for op in (ops.Neg, ops.Abs, ops.Sign)),
    *(case(op(), type(2, 3)) for op in (ops.Neg, ops.Abs, ops.Sign) for type in (i64, f32)),
    case(ops.Sign(), u8(3)),
    case(ops.Round(), f32(6), given={0: np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4], np.float32)}),
    *(
        case(op(), f32(3, 5))
        for op in (
            ops.Floor,
            ops.Ceil,
            fn.Exp,
            fn.Expm1,
            fn.Sin,
            fn.Cos,
        )
    ),
    *(case(op(), f64(3, 5)) for op in (fn.Exp, fn.Tanh, fn.Erf)),
    *(
        case(op(), f32(3, 5))
        for op in (
            fn.Tan,
            fn.Atan,
            fn.Sinh,
            fn.Cosh,
            fn.Tanh,
            fn.Asinh,
            fn.Erf,
        )
    ),
    *(case(op(), f32(3, 5), low=0.1) for op in (fn.Log, fn.Log1p, fn.Sqrt, fn.Reciprocal)),
    case(fn.Asin(), f32(9), low=-0.99, high=0.99),
    case(fn.Acos(), f32(9), low=-0.99, high=0.99),
    case(fn.Atanh(), f32(9), low=-0.99, high=0.99),
    case(fn.Acosh(), f32(9), low=1.1, high=9),
    case(fn.Erf(), f32(8), given={0: _EDGES}),
    case(ops.IsNaN(), f32(8), given={0: _EDGES}),
    case(ops.IsInf(), f32(8), given={0: _EDGES}),
    case(ops.IsInf(positive=False), f32(8), given={0: _EDGES}),
    case(ops.Where(), boolean(2, 1), f32(2, 3), f32()),
    case(ops.Where(), boolean(3), i64(3), i64(3)),
    case(ops.BitCast(dtype=dtypes.i32), f32(2, 3)),
]
