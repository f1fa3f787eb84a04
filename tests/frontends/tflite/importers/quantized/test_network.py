"""A network of quantized integers, as converters write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from tests.frontends.tflite.importers.quantized.forms import Forms


def convolve(forms: Forms, x: str, kernel: tuple[int, ...], y: str, *, relu: int) -> None:
    """A convolution of a depth, or of each channel if the kernel begins with one."""
    by_channel = kernel[0] == 1 and kernel[1] > 1
    rows, axis = (kernel[3], 3) if by_channel else (kernel[0], 0)
    scales = forms.rng.uniform(0.002, 0.01, rows).astype(np.float32)
    weight = forms.constant(forms.numbers("int8", kernel), scales, axis=axis)
    bias = forms.constant(np.arange(rows, dtype=np.int32), np.float32(0.02) * scales)
    op = "DEPTHWISE_CONV_2D" if by_channel else "CONV_2D"
    options = {"stride_w": 1, "stride_h": 1, "fused_activation_function": relu}
    more = {"depth_multiplier": 1} if by_channel else {}
    kind = "DepthwiseConv2D" if by_channel else "Conv2D"
    forms.op(op, [x, weight, bias], y, kind, **options, **more)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_a_residual_block_has_the_bits_of_the_reference(backend: str, tmp_path: Path) -> None:
    forms = Forms()
    image = forms.input("int8", (2, 6, 6, 8), 0.02, -1)
    wide, deep = (forms.tensor("int8", (2, 6, 6, 16), 6 / 255, -128) for _ in range(2))
    flat, total = (forms.tensor("int8", (2, 6, 6, 8), scale, 4) for scale in (0.05, 0.06))
    convolve(forms, image, (16, 1, 1, 8), wide, relu=3)
    convolve(forms, wide, (1, 3, 3, 16), deep, relu=3)
    convolve(forms, deep, (8, 1, 1, 16), flat, relu=0)
    forms.op("ADD", [image, flat], total, "Add")
    mean = forms.tensor("int8", (2, 8), 0.03, 2)
    forms.op("MEAN", [total, forms.constant(np.array([1, 2], np.int32))], mean, "Reducer")
    scores, shares = (forms.tensor("int8", (2, 5), s, z) for s, z in ((0.05, 3), (1 / 256, -128)))
    weight = forms.constant(forms.numbers("int8", (5, 8)), 0.01)
    forms.op("FULLY_CONNECTED", [mean, weight], scores, "FullyConnected")
    forms.op("SOFTMAX", [scores], shares, "Softmax", beta=1.0)
    forms.check(tmp_path, backend)
