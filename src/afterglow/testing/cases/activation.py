"""Cases of afterglow.ops.activation and afterglow.ops.softmax."""

from __future__ import annotations

import numpy as np

from afterglow.ops import activation as ops
from afterglow.ops import softmax
from afterglow.testing.cases.case import bf16, case, f16, f32, f64, i8, i32, i64, u8

_EDGES = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, 90.0, -90.0], np.float32)
_SMOOTH = (
    ops.Relu(),
    ops.LeakyRelu(0.1),
    ops.Sigmoid(),
    ops.HardSigmoid(0.3, 0.4),
    ops.HardSwish(),
    ops.Swish(),
    ops.Swish(1.702),
    ops.Gelu(),
    ops.Gelu(approximate=True),
    ops.Elu(0.7),
    ops.Selu(),
    ops.Celu(2.0),
    ops.Softplus(),
    ops.Softsign(),
    ops.Mish(),
    ops.ThresholdedRelu(0.5),
    ops.Shrink(0.5, 0.2),
    ops.Clip(-1.0, 0.5),
)

CASES = [
    *(case(op, f32(2, 3, 4)) for op in _SMOOTH),
    *(case(op, f16(5)) for op in _SMOOTH),
    *(case(op, f32(10), given={0: _EDGES}) for op in _SMOOTH),
    *(case(op, f64()) for op in (ops.Relu(), ops.Gelu(), ops.Clip(0.0, None))),
    *(case(op, f32(0, 3)) for op in (ops.Relu(), ops.Sigmoid(), ops.Clip(None, 1.0))),
    case(ops.Gelu(), bf16(3, 5)),
    case(ops.Relu(), i32(2, 5)),
    case(ops.Clip(), f32(3)),
    case(ops.Clip(1.0, -1.0), f32(3)),
    case(ops.Clip(-1.0, 1.0), i8(9)),
    case(ops.Clip(None, 1.0), u8(9)),
    case(ops.PRelu(), f32(2, 3, 4), f32(2, 3, 4)),
    case(ops.PRelu(), f32(2, 3, 4), f32(3, 1)),
    case(ops.PRelu(), f32(2, 3, 4), f32()),
    case(ops.PRelu(), i64(2, 3), i64(3)),
    *(
        case(op(axis), f32(2, 3, 4))
        for op in (softmax.Softmax, softmax.LogSoftmax, softmax.Hardmax)
        for axis in (0, 1, -1)
    ),
    *(
        case(op(1), f32(2, 3), given={0: np.array([[1e4, 1e4, -1e4], [1, 2, 2]], np.float32)})
        for op in (softmax.Softmax, softmax.LogSoftmax, softmax.Hardmax)
    ),
    *(case(op(1), f16(2, 9)) for op in (softmax.Softmax, softmax.LogSoftmax, softmax.Hardmax)),
    *(case(op(1), f64(2, 1)) for op in (softmax.Softmax, softmax.LogSoftmax, softmax.Hardmax)),
    *(case(op(0), f32(3, 0)) for op in (softmax.Softmax, softmax.LogSoftmax, softmax.Hardmax)),
]
