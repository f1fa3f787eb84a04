"""Cases of afterglow.ops.quantization."""

from __future__ import annotations

import numpy as np

from afterglow.ops.fake_quantize import FakeQuantize
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.testing.cases.case import bf16, case, f16, f32, f64, i8, i32, tensor, u8
from afterglow.types import dtype as dtypes

_TIES = np.array([0.5, 1.5, 2.5, -0.5, 1e9, -1e9, np.inf, -np.inf, 126.7], np.float32)
_SCALE = np.array([0.1, 0.5, 2.0], np.float32)
_INTEGERS = [getattr(dtypes, t) for t in ("u2", "i2", "u4", "i4", "u8", "i8", "u16", "i16")]
_FLOATS = [getattr(dtypes, t) for t in ("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f4e2m1")]

CASES = [
    case(FakeQuantize(1, dtypes.i8), f32(2, 3, 4), f32(3), i8(3), given={1: _SCALE}),
    case(FakeQuantize(0, dtypes.u8, learns=True), f32(9), f32(), u8(), given={0: _TIES}, low=0.1),
    case(FakeQuantize(-1, dtypes.i8), f32(2, 3), f32(3), low=0.1),
    case(FakeQuantize(1, dtypes.i16), f64(2, 3), f64(), low=0.1),
    *(
        case(QuantizeLinear(1, t), f32(2, 3, 4), f32(), tensor(t)(), low=0.1, high=1)
        for t in _INTEGERS + _FLOATS
    ),
    *(
        case(QuantizeLinear(0, t), f32(9), f32(), given={0: _TIES, 1: np.array(1, np.float32)})
        for t in (dtypes.i8, dtypes.u8, dtypes.i16, dtypes.f8e4m3fn)
    ),
    case(QuantizeLinear(1, dtypes.i8), f32(2, 3, 4), f32(3), i8(3), given={1: _SCALE}),
    case(QuantizeLinear(-1, dtypes.u8), f32(2, 3), f32(3), given={1: _SCALE}),
    case(QuantizeLinear(1, dtypes.i8, 2), f32(2, 5, 2), f32(2, 3, 2), i8(2, 3, 2), low=0.1),
    case(QuantizeLinear(0, dtypes.i4, 3), f32(6, 2), f32(2, 2), low=0.1),
    case(QuantizeLinear(0, dtypes.f8e5m2, 0, False), f32(9), f32(), given={0: _TIES}, low=0.1),
    case(QuantizeLinear(1, dtypes.i8), f16(2, 3), f16(3), i8(3), low=0.1),
    case(QuantizeLinear(1, dtypes.i8), f64(0, 3), f64(), i8()),
    *(
        case(DequantizeLinear(1), tensor(t)(2, 3), f32(), tensor(t)(), low=0, high=1)
        for t in _INTEGERS + _FLOATS
    ),
    case(DequantizeLinear(1), u8(2, 3, 4), f32(3), u8(3), low=0, high=255),
    case(DequantizeLinear(0), i32(4, 2), f32(4), low=-(2**30), high=2**30),
    case(DequantizeLinear(1, block_size=2), i8(2, 5), f32(2, 3), i8(2, 3)),
    case(DequantizeLinear(0, block_size=4), i8(4, 2), f32(1, 2)),
    case(DequantizeLinear(1, dtypes.f16), i8(2, 3), f16(3), i8(3)),
    case(DequantizeLinear(1, dtypes.bf16), i8(2, 3), f32(), i8()),
    case(DequantizeLinear(1, dtypes.f32), i8(2, 3), bf16(3)),
    case(DequantizeLinear(0, dtypes.f64), i8(), f64(), i8()),
]
