"""Ops that ONNX took back."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow
from afterglow.support.errors import ModelError
from afterglow.testing.cases.case import f32
from tests.frontends.onnx.one_node import Form, check, const, each_form, fed, form, giving

IMAGE = f32(2, 3, 5, 4)


@each_form(
    form("Affine", (1, 7), f32(2, 3), alpha=2.0, beta=0.5),
    form("Affine", 1, f32(2, 3)),
    form("Scale", 1, f32(2, 3), scale=3.0),
    form("ScaledTanh", 1, f32(2, 3), alpha=2.0, beta=0.5),
    form("ParametricSoftplus", 1, f32(2, 3), alpha=2.0, beta=0.5),
    form("ThresholdedRelu", (1, 7, 10), f32(2, 3), alpha=0.3),
    form("ImageScaler", (1, 7), IMAGE, scale=2.0, bias=[1.0, 2.0, 3.0]),
    form("Crop", (1, 7), IMAGE, border=[1, 1, 1, 2]),
    form("Crop", 7, IMAGE, border=[1, 1, 0, 0], scale=[2, 3]),
    form("DynamicSlice", (1, 7), IMAGE, const(1, 0), const(4, 2), const(2, 3)),
    form("DynamicSlice", 1, IMAGE, const(1), const(2)),
    fed(form("DynamicSlice", 1, IMAGE, const(1), const(2))),
    form("MeanVarianceNormalization", (1, 7, 9, 13), IMAGE),
    form("MeanVarianceNormalization", 7, IMAGE, across_channels=1),
    form("MeanVarianceNormalization", 7, IMAGE, normalize_variance=0),
    form("MeanVarianceNormalization", 13, IMAGE, axes=[1, 2, 3]),
)
def test_they_run_as_in_onnx_runtime(form: Form) -> None:
    check(form)


FILLED = giving(
    lambda x: np.full((2, 3), 1.5, np.float32),
    form("ConstantFill", 1, const(2, 3), input_as_shape=1, value=1.5),
    form("ConstantFill", 1, f32(2), extra_shape=[3], value=1.5),
)
LISTED = giving(
    lambda x: np.array([[1], [2]], np.float32),
    form("GivenTensorFill", 1, f32(2), extra_shape=[1], values=[1.0, 2.0]),
)


@each_form(FILLED, LISTED)
def test_tensors_are_filled(form: Form) -> None:
    check(form)


def test_a_crop_stays_inside() -> None:
    (outside,) = form("Crop", 1, IMAGE, border=[1, 1, 0, 0], scale=[5, 3])
    with pytest.raises(ModelError, match=r"the cropped region is not inside f32\[2, 3, 5, 4\]"):
        afterglow.compile(outside.model()[0])
