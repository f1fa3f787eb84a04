"""Signal processing and losses, where versions of ONNX differ."""

from __future__ import annotations

import numpy as np

import afterglow
from afterglow.testing.cases.case import f32, f64
from tests.frontends.models import info, model, node
from tests.frontends.onnx.one_node import Fixed, Form, check, const, each_form, form, scalar

ROUGH = {"tolerance": 1e-4}
REAL, COMPLEX = f32(2, 10, 1), f32(2, 10, 2)


def whole(number: int) -> Fixed:
    return scalar(number, np.int64)


@each_form(
    form("DFT", 17, REAL, axis=1, **ROUGH),
    form("DFT", 20, REAL, None, whole(1), **ROUGH),
    form("DFT", 17, REAL, axis=1, onesided=1, **ROUGH),
    form("DFT", 20, REAL, None, whole(-2), onesided=1, **ROUGH),
    form("DFT", 17, COMPLEX, axis=1, inverse=1, **ROUGH),
    form("DFT", 20, COMPLEX, None, whole(1), inverse=1, **ROUGH),
    form("DFT", 17, REAL, whole(6), axis=1, **ROUGH),
    form("DFT", 20, REAL, whole(16), whole(1), **ROUGH),
    form("DFT", 20, f32(2, 3, 4, 1), **ROUGH),
    form("DFT", 20, f64(1, 8, 1), None, whole(1), **ROUGH),
)
def test_fourier_transforms_have_the_axis_as_an_attribute_then_as_an_input(form: Form) -> None:
    check(form)


HANN = Fixed(np.hanning(16).astype(np.float32))


@each_form(
    form("STFT", 17, f32(2, 64, 1), whole(8), None, whole(16)),
    form("STFT", 17, f32(2, 64, 1), whole(8), HANN, whole(16)),
    form("STFT", 17, f32(2, 64, 1), whole(8), HANN, onesided=0),
    form("STFT", 17, f32(2, 64), whole(8), HANN, whole(16)),
    form("MelWeightMatrix", 17, *map(whole, (8, 16, 8192)), scalar(0), scalar(4096)),
)
def test_spectra(form: Form) -> None:
    check(form)


SCORES, KINDS = f32(3, 5), np.array([1, 0, 4], np.int64)
PIXELS, EACH = f32(2, 3, 4), np.array([[0, 1, 2, 1], [2, 2, 0, 1]], np.int64)
WEIGHTS = const(1, 0.5, 2, 1, 3, dtype=np.float32)


@each_form(
    *(
        form("SoftmaxCrossEntropyLoss", (12, 13), SCORES, KINDS, reduction=reduction)
        for reduction in ("none", "sum", "mean")
    ),
    form("SoftmaxCrossEntropyLoss", 13, SCORES, KINDS, WEIGHTS),
    form("SoftmaxCrossEntropyLoss", 13, SCORES, KINDS, WEIGHTS, outputs=2),
    form("SoftmaxCrossEntropyLoss", 13, PIXELS, EACH, ignore_index=1),
    *(
        form("NegativeLogLikelihoodLoss", (12, 13, 22), SCORES, KINDS, reduction=reduction)
        for reduction in ("none", "sum", "mean")
    ),
    form("NegativeLogLikelihoodLoss", 13, SCORES, KINDS, WEIGHTS),
    form("NegativeLogLikelihoodLoss", 13, PIXELS, EACH, ignore_index=2, reduction="sum"),
)
def test_losses(form: Form) -> None:
    check(form)


@each_form(
    form("AffineGrid", 20, f32(2, 2, 3), const(2, 3, 4, 5)),
    form("AffineGrid", 20, f32(1, 3, 4), const(1, 1, 2, 3, 4), align_corners=1),
    form("AffineGrid", 20, f32(1, 2, 3), const(1, 3, 4, 5)),
    form("AffineGrid", 20, f32(1, 2, 3), const(1, 1, 1, 3)),
    form("AffineGrid", 20, f32(1, 2, 3), const(1, 3, 4, 5), align_corners=1),
)
def test_grids(form: Form) -> None:
    check(form)


def test_a_single_pixel_between_aligned_corners_is_at_the_first() -> None:
    """As ONNX's reference has it; ONNX Runtime puts it at the last."""
    theta = np.array([[[1, 0, 0], [0, 1, 0]]], np.float32)
    nodes = [node("AffineGrid", ["theta", "size"], ["y"], align_corners=1)]
    proto = model(
        nodes,
        opset=20,
        inputs=[info("theta", (1, 2, 3))],
        outputs=[info("y", None)],
        constants={"size": np.array([1, 1, 1, 2])},
    )
    y = afterglow.compile(proto, cache=False)(theta)
    assert y.tolist() == [[[[-1, -1], [1, -1]]]]
