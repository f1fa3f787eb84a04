"""Convolutions where versions of ONNX differ."""

from __future__ import annotations

import numpy as np

from afterglow.testing.cases.case import f16, f32, f64, i8, u8
from tests.frontends.onnx.one_node import Form, check, each_form, form, scalar

X = f32(2, 3, 7, 6)
WEIGHT = f32(4, 3, 3, 2)
PLACEMENTS = ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")


@each_form(
    form("Conv", (1, 11, 22), X, WEIGHT),
    form("Conv", 11, X, WEIGHT, f32(4), kernel_shape=[3, 2], pads=[1, 0, 2, 1], strides=[2, 1]),
    form("Conv", 11, X, WEIGHT, dilations=[2, 3]),
    form("Conv", 11, f32(2, 4, 5, 5), f32(6, 2, 3, 3), f32(6), group=2),
    form("Conv", 11, f32(2, 4, 5, 5), f32(4, 1, 3, 3), group=4),
    form("Conv", 11, f32(2, 3, 9), f32(4, 3, 3), f32(4), strides=[2]),
    form("Conv", 11, f32(1, 2, 4, 5, 6), f32(3, 2, 2, 2, 2), pads=[1, 0, 1, 0, 1, 1]),
    form("Conv", 11, f32(2, 3, 1, 1), f32(4, 3, 1, 1)),
    form("Conv", 11, f32(0, 3, 7, 6), WEIGHT),
    form("Conv", 11, f64(1, 2, 5, 5), f64(3, 2, 3, 3), f64(3)),
    form("Conv", 11, f16(1, 2, 5, 5), f16(3, 2, 3, 3), f16(3)),
)
def test_convolution(form: Form) -> None:
    check(form)


@each_form(
    *(form("Conv", (1, 11), X, WEIGHT, auto_pad=place) for place in PLACEMENTS),
    *(form("Conv", 11, X, WEIGHT, auto_pad=place, strides=[2, 3]) for place in PLACEMENTS),
    *(
        form("Conv", 11, X, f32(4, 3, 2, 3), auto_pad=place, dilations=[2, 1])
        for place in PLACEMENTS
    ),
)
def test_convolution_pads_by_itself(form: Form) -> None:
    check(form)


IMAGE = f32(2, 4, 4, 3)
KERNEL = f32(4, 3, 3, 2)


@each_form(
    form("ConvTranspose", (1, 11, 22), IMAGE, KERNEL),
    form("ConvTranspose", 11, IMAGE, KERNEL, f32(3), strides=[2, 3], pads=[1, 0, 0, 1]),
    form("ConvTranspose", 11, IMAGE, KERNEL, strides=[2, 3], output_padding=[1, 2]),
    form("ConvTranspose", 11, IMAGE, KERNEL, dilations=[2, 2], strides=[1, 2]),
    form("ConvTranspose", 11, IMAGE, f32(4, 2, 3, 3), f32(4), group=2),
    form("ConvTranspose", 11, IMAGE, f32(4, 1, 2, 2), group=4, strides=[2, 2]),
    form("ConvTranspose", 11, f32(1, 2, 5), f32(2, 3, 3), strides=[2]),
    form("ConvTranspose", 11, f32(1, 2, 3, 3, 3), f32(2, 1, 2, 2, 2), strides=[2, 2, 2]),
)
def test_transposed_convolution(form: Form) -> None:
    check(form)


@each_form(
    *(
        form("ConvTranspose", 11, IMAGE, KERNEL, auto_pad=place, strides=[2, 2])
        for place in PLACEMENTS
    ),
    *(form("ConvTranspose", 11, IMAGE, KERNEL, auto_pad=place) for place in PLACEMENTS),
    *(
        form("ConvTranspose", 11, IMAGE, f32(4, 3, 3, 3), strides=[3, 2], output_shape=shape)
        for shape in ([10, 8], [12, 6], [9, 7], [11, 5])
    ),
    *(
        form(
            *("ConvTranspose", 11, IMAGE, f32(4, 3, 3, 3)),
            strides=[3, 2],
            output_shape=[10, 6],
            auto_pad=place,
        )
        for place in PLACEMENTS[:2]
    ),
    form(
        *("ConvTranspose", 11, IMAGE, f32(4, 3, 3, 3)),
        strides=[3, 2],
        output_shape=[13, 8],
        output_padding=[1, 1],
    ),
)
def test_transposed_convolution_of_a_wanted_shape(form: Form) -> None:
    check(form)


BYTES = {"low": -128, "high": 255}


@each_form(
    form("ConvInteger", 10, u8(1, 2, 5, 5), u8(3, 2, 3, 3), **BYTES),
    form("ConvInteger", 10, u8(1, 2, 5, 5), u8(3, 2, 3, 3), scalar(9, np.uint8), **BYTES),
    form(
        *("ConvInteger", 10, u8(1, 2, 5, 5), u8(3, 2, 3, 3)),
        *(scalar(9, np.uint8), scalar(7, np.uint8)),
        **BYTES,
        pads=[1, 1, 1, 1],
        strides=[2, 2],
    ),
)
def test_convolution_of_integers(form: Form) -> None:
    check(form)


def one(number: float, dtype: type = np.uint8) -> tuple[np.ndarray, np.ndarray]:
    """A scale and a zero point."""
    return np.array(0.02, np.float32), np.array(number, dtype)


@each_form(
    form(
        *("QLinearConv", 10, u8(1, 2, 5, 5), *one(99), u8(3, 2, 3, 3), *one(3), *one(120)),
        **BYTES,
        tolerance=1,
    ),
    form(
        *("QLinearConv", 10, u8(1, 2, 5, 5), *one(99), i8(3, 2, 3, 3)),
        *(np.array([0.01, 0.02, 0.03], np.float32), np.zeros(3, np.int8)),
        *(*one(120), np.array([5, -3, 100], np.int32)),
        low=-100,
        high=100,
        tolerance=1,
        pads=[1, 1, 0, 0],
    ),
)
def test_convolution_of_quantized_numbers(form: Form) -> None:
    check(form)


@each_form(
    form("DeformConv", (19, 22), f32(1, 2, 4, 4), f32(3, 2, 2, 2), f32(1, 8, 3, 3), f32(3)),
    form(
        *("DeformConv", 19, f32(1, 2, 4, 4), f32(3, 2, 2, 2), f32(1, 8, 3, 3), f32(3)),
        f32(1, 4, 3, 3),
    ),
)
def test_deformed_convolution(form: Form) -> None:
    check(form)
