"""Cases of afterglow.ops.convolution."""

from __future__ import annotations

from afterglow.ops.convolution import Conv, ConvTranspose, ConvWeightGradient
from afterglow.testing.cases.case import bf16, case, f16, f32, f64, i8, i32

_PLAIN = Conv(strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))
_SAME = Conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1))
_SLOPES = ConvWeightGradient((1, 1), (1,) * 4, (1, 1), kernel=(3, 3))
_SPREAD = ConvTranspose(strides=(2, 2), pads=(1, 0, 0, 1), dilations=(1, 1))

CASES = [
    case(_PLAIN, f32(2, 4, 5, 3), f32(6, 1, 1, 3), f32(6)),
    case(_SAME, f32(1, 5, 6, 3), f32(4, 3, 3, 3), f32(4)),
    case(_SAME, f64(2, 5, 6, 3), f64(4, 3, 3, 3)),
    case(_SAME, f16(1, 4, 4, 3), f16(4, 3, 3, 3), f16(4)),
    case(_SAME, bf16(1, 4, 4, 3), bf16(4, 3, 3, 3)),
    case(_SAME, i32(1, 5, 6, 3), i32(4, 3, 3, 3), i32(4), low=-255, high=255),
    case(_SAME, i8(1, 5, 6, 3), i8(4, 3, 3, 3), low=-128, high=127),
    case(Conv((2, 1), (0, 1, 2, 0), (1, 2)), f32(1, 7, 8, 2), f32(3, 3, 2, 2), f32(3)),
    case(Conv((2,), (1, 1), (1,)), f32(2, 9, 4), f32(3, 3, 4)),
    case(Conv((1, 2, 1), (1,) * 6, (1, 1, 1)), f32(1, 4, 5, 3, 2), f32(3, 3, 2, 3, 2)),
    case(Conv((1, 1), (1,) * 4, (1, 1), groups=2), f32(2, 5, 4, 4), f32(6, 3, 3, 2), f32(6)),
    case(Conv((1, 1), (1,) * 4, (1, 1), groups=4), f32(1, 5, 6, 4), f32(4, 3, 3, 1), f32(4)),
    case(Conv((2, 2), (1,) * 4, (2, 1), groups=3), f32(1, 9, 6, 3), f32(6, 3, 3, 1)),
    case(Conv((1, 1), (1,) * 4, (1, 1), groups=2), i32(1, 5, 4, 2), i32(2, 3, 3, 1)),
    case(Conv((3, 3), (0,) * 4, (1, 1)), f32(1, 8, 8, 1), f32(2, 2, 2, 1)),
    case(_SAME, f32(0, 5, 6, 3), f32(4, 3, 3, 3)),
    case(_PLAIN, f32(1, 2, 2, 3), f32(4, 3, 3, 3)),
    case(_PLAIN, f32(1, 3, 3, 0), f32(2, 3, 3, 0), f32(2)),
    case(_SPREAD, f32(2, 3, 4, 5), f32(5, 3, 3, 2), f32(2)),
    case(_SPREAD, i32(1, 3, 4, 2), i32(2, 3, 3, 2)),
    case(_SPREAD, f16(1, 3, 4, 2), f16(2, 3, 3, 2)),
    case(ConvTranspose((2,), (0, 0), (1,), output_pads=(1,)), f32(1, 4, 3), f32(3, 2, 2)),
    case(ConvTranspose((3,), (0, 0), (1,)), f32(1, 4, 3), f32(3, 2, 2)),
    case(ConvTranspose((1, 1), (2, 2, 3, 1), (2, 1)), f32(1, 5, 6, 2), f32(2, 3, 2, 3)),
    case(ConvTranspose((1, 2), (0, 3, 0, 2), (1, 1)), f32(1, 3, 4, 2), f32(2, 1, 2, 3)),
    case(ConvTranspose((2, 2), (1,) * 4, (1, 1), 2, (1, 0)), f32(1, 3, 3, 4), f32(4, 3, 3, 3)),
    case(ConvTranspose((2, 1, 2), (0,) * 6, (1, 1, 1)), f32(1, 2, 3, 2, 2), f32(2, 2, 2, 2, 1)),
    case(_SPREAD, f32(0, 3, 4, 5), f32(5, 3, 3, 2)),
    case(_SLOPES, f32(2, 5, 6, 3), f32(2, 5, 6, 4)),
    case(_SLOPES, f64(1, 2, 2, 3), f64(1, 2, 2, 5)),
    case(_SLOPES, f16(1, 4, 4, 3), f16(1, 4, 4, 2)),
    case(_SLOPES, f32(0, 5, 6, 3), f32(0, 5, 6, 4)),
    case(
        ConvWeightGradient((2, 1), (0, 1, 2, 0), (1, 2), kernel=(3, 2)),
        *(f32(1, 7, 8, 2), f32(1, 4, 7, 3)),
    ),
    case(ConvWeightGradient((2,), (1, 1), (1,), kernel=(3,)), f32(2, 9, 4), f32(2, 4, 3)),
    case(
        ConvWeightGradient((1, 2, 1), (1,) * 6, (1, 1, 1), kernel=(3, 2, 3)),
        *(f32(1, 4, 5, 3, 2), f32(1, 4, 3, 3, 3)),
    ),
    case(ConvWeightGradient((1, 1), (1,) * 4, (1, 1), 2, (3, 3)), f32(2, 5, 4, 4), f32(2, 5, 4, 6)),
    case(ConvWeightGradient((2, 2), (1,) * 4, (2, 1), 3, (3, 3)), f32(1, 9, 6, 3), f32(1, 4, 3, 6)),
    case(_SLOPES, i32(1, 4, 3, 2), i32(1, 4, 3, 3), low=-255, high=255),
]
