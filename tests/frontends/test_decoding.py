"""ImageDecoder, beside what ONNX's suite has."""

from __future__ import annotations

import io
import sys

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.support.errors import ModelError, UnsupportedError
from tests.frontends.models import info, model, node

Image = pytest.importorskip("PIL.Image")
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 6, 3)).astype(np.uint8)


def decoder(pixel_format: str = "RGB") -> onnx.ModelProto:
    one = node("ImageDecoder", ["x"], ["y"], pixel_format=pixel_format)
    uint8 = onnx.TensorProto.UINT8
    inputs, outputs = (info("x", (None,), uint8),), (info("y", None, uint8),)
    return model([one], opset=20, inputs=inputs, outputs=outputs)


def encoded(image: object) -> np.ndarray:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return np.frombuffer(buffer.getvalue(), np.uint8)


def test_each_image_may_have_another_size() -> None:
    model = afterglow.compile(decoder())
    for part in (PIXELS, PIXELS[:2], PIXELS[:, :1]):
        np.testing.assert_array_equal(model(encoded(Image.fromarray(part))), part)


def test_a_palette_becomes_colours_and_grey_one_channel() -> None:
    image = Image.fromarray(PIXELS).convert("P")
    colours = np.asarray(image.convert("RGB"))
    np.testing.assert_array_equal(
        afterglow.compile(decoder("BGR"))(encoded(image)), colours[..., ::-1]
    )
    grey = afterglow.compile(decoder("Grayscale"))(encoded(image))
    np.testing.assert_array_equal(grey[..., 0], np.asarray(image.convert("L")))


def test_bytes_that_are_no_image() -> None:
    with pytest.raises(ModelError, match="the image cannot be decoded"):
        afterglow.compile(decoder())(np.zeros(9, np.uint8))


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(UnsupportedError) as caught:
        afterglow.compile(decoder())(np.zeros(9, np.uint8))
    assert 'help: pip install "afterglow[image]"' in str(caught.value)
