"""Pooling where versions of ONNX differ."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.testing.cases.case import f16, f32, f64, i8, u8
from tests.frontends.onnx.one_node import Form, check, each_form, form, giving

X = f32(2, 3, 7, 6)
KERNEL = {"kernel_shape": [3, 2]}
PLACEMENTS = ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")


@each_form(
    form("MaxPool", (1, 8, 10, 11, 12, 22), X, **KERNEL),
    form("MaxPool", 8, X, **KERNEL, strides=[2, 2], pads=[1, 0, 2, 1]),
    form("MaxPool", 10, X, **KERNEL, dilations=[2, 3]),
    form("MaxPool", (10, 12), X, **KERNEL, strides=[2, 4], ceil_mode=1),
    form("MaxPool", 12, X, **KERNEL, strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1),
    form("MaxPool", 12, X, **KERNEL, strides=[2, 3], dilations=[2, 2], ceil_mode=1),
    form("MaxPool", 12, f32(2, 3, 9), kernel_shape=[4], strides=[3]),
    form("MaxPool", 12, f32(1, 2, 4, 5, 6), kernel_shape=[2, 2, 2], strides=[1, 2, 2]),
    form("MaxPool", 12, f64(1, 2, 5, 5), kernel_shape=[2, 2]),
    form("MaxPool", 12, i8(1, 2, 5, 5), kernel_shape=[2, 2], pads=[1] * 4, low=-99, high=-1),
    form("MaxPool", 12, u8(1, 2, 5, 5), kernel_shape=[2, 2], high=255),
    form("MaxPool", 12, f16(1, 2, 5, 5), kernel_shape=[2, 2]),
    *(form("MaxPool", (1, 12), X, **KERNEL, auto_pad=place) for place in PLACEMENTS),
    *(form("MaxPool", 12, X, **KERNEL, auto_pad=p, strides=[2, 2]) for p in PLACEMENTS),
)
def test_largest_of_a_window(form: Form) -> None:
    check(form)


@each_form(
    form("MaxPool", (8, 12), X, **KERNEL, outputs=2),
    form("MaxPool", 8, X, **KERNEL, strides=[2, 2], pads=[1, 0, 1, 1], outputs=2),
    form("MaxPool", (8, 12), X, **KERNEL, storage_order=1, outputs=2),
    form("MaxPool", 12, X, **KERNEL, dilations=[2, 1], outputs=2),
    form("MaxPool", 12, X, **KERNEL, strides=[2, 4], ceil_mode=1, outputs=2),
    form("MaxPool", 12, f32(2, 3, 9), kernel_shape=[4], outputs=2),
)
def test_places_of_the_largest(form: Form) -> None:
    check(form)


@each_form(
    form("AveragePool", (1, 7, 10, 11, 19, 22), X, **KERNEL),
    form("AveragePool", (7, 19), X, **KERNEL, strides=[2, 2], pads=[1, 0, 2, 1]),
    form("AveragePool", (7, 11, 19), X, **KERNEL, pads=[1, 0, 2, 1], count_include_pad=1),
    form("AveragePool", (10, 19), X, **KERNEL, strides=[2, 4], ceil_mode=1),
    form("AveragePool", 19, X, **KERNEL, strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1),
    form("AveragePool", 19, X, **KERNEL, dilations=[2, 3]),
    form("AveragePool", 19, X, **KERNEL, dilations=[2, 3], pads=[1, 0, 2, 1]),
    form("AveragePool", 11, f32(2, 3, 9), kernel_shape=[4], strides=[3]),
    form("AveragePool", 11, f32(1, 2, 4, 5, 6), kernel_shape=[2, 2, 2], pads=[1] * 6),
    *(form("AveragePool", (7, 11), X, **KERNEL, auto_pad=place) for place in PLACEMENTS),
    *(
        form("AveragePool", 11, X, **KERNEL, auto_pad=place, strides=[2, 2], count_include_pad=1)
        for place in PLACEMENTS
    ),
)
def test_mean_of_a_window(form: Form) -> None:
    check(form)


@each_form(
    *(
        form(
            *("AveragePool", version, X),
            **KERNEL,
            strides=[3, 4],
            pads=[1, 1, 1, 1],
            ceil_mode=1,
            count_include_pad=1,
        )
        for version in (10, 19, 22)
    ),
    form(
        *("AveragePool", 19, f32(1, 1, 6)),
        kernel_shape=[3],
        strides=[2],
        ceil_mode=1,
        count_include_pad=1,
    ),
)
def test_a_mean_counts_padding_but_not_what_lies_beyond_it(form: Form) -> None:
    check(form)


@each_form(
    form("LpPool", (2, 11, 18), X, **KERNEL),
    form("LpPool", (2, 11, 18), X, **KERNEL, p=1, strides=[2, 2], pads=[1, 0, 2, 1]),
    form("LpPool", 18, X, **KERNEL, p=3, dilations=[2, 2]),
    form("LpPool", 18, X, **KERNEL, strides=[2, 4], ceil_mode=1),
    form("LpPool", 11, X, **KERNEL, auto_pad="SAME_UPPER"),
    giving(
        lambda x: np.sqrt(x[..., ::2] ** 2 + x[..., 1::2] ** 2),
        form("LpPool", 1, f32(1, 2, 6), kernel_shape=[2], strides=[2], p=2.0),
    ),
)
def test_norm_of_a_window(form: Form) -> None:
    check(form)


@each_form(
    *(form(f"Global{kind}Pool", (1, 22), X) for kind in ("Average", "Max")),
    *(form(f"Global{kind}Pool", 1, f32(2, 3, 5)) for kind in ("Average", "Max")),
    *(form("GlobalLpPool", 2, X, p=p) for p in (1, 2, 3)),
    giving(
        lambda x: np.sqrt((x * x).sum(-1, keepdims=True)),
        form("GlobalLpPool", 1, f32(1, 2, 6), p=2.0),
        form("GlobalLpPool", 22, f32(1, 2, 6)),
    ),
)
def test_whole_images(form: Form) -> None:
    check(form)


PLACES = np.array([[[[5, 7], [13, 15]]]], np.int64)


@each_form(
    form("MaxUnpool", (9, 11, 22), f32(1, 1, 2, 2), PLACES, kernel_shape=[2, 2], strides=[2, 2]),
)
def test_unpooling(form: Form) -> None:
    check(form)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@each_form(
    *(
        form("", 22, f32(1, 1, n), kernel_shape=[3], strides=[2], ceil_mode=1, pads=[1, 1])
        for n in range(3, 8)
    )
)
def test_no_window_begins_in_the_padding_behind(op: str, form: Form) -> None:
    check(Form(op, form.version, form.inputs, form.attributes))
