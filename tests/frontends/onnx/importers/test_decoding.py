"""ImageDecoder, beside what ONNX's suite has."""

from __future__ import annotations

import contextlib
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


def encoded(image: object, format: str = "PNG") -> np.ndarray:
    buffer = io.BytesIO()
    image.save(buffer, format)
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


@pytest.mark.parametrize("format", ["BMP", "PNG", "PPM", "TIFF"])
def test_formats_that_lose_nothing(format: str) -> None:
    image = encoded(Image.fromarray(PIXELS), format)
    np.testing.assert_array_equal(afterglow.compile(decoder())(image), PIXELS)


NEITHER = [np.zeros(9, np.uint8), encoded(Image.fromarray(PIXELS), "GIF")]


@pytest.mark.parametrize("given", NEITHER, ids=["no image", "a format that ONNX does not name"])
def test_bytes_in_no_format_of_images(given: np.ndarray) -> None:
    with pytest.raises(ModelError) as caught:
        afterglow.compile(decoder())(given)
    known = "BMP, JPEG, JPEG2000, PNG, PPM, TIFF, WEBP"
    text = f"error: the image cannot be decoded: it is none of {known}, or damaged\n"
    assert str(caught.value).startswith(text)


def test_an_image_that_would_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4)
    with pytest.raises(ModelError, match=r"the image cannot be decoded: Image size \(24 pixels\)"):
        afterglow.compile(decoder())(encoded(Image.fromarray(PIXELS)))


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
def test_every_image_that_is_damaged_is_decoded_or_refused() -> None:
    model, rng = afterglow.compile(decoder()), np.random.default_rng(0)
    for format in ("BMP", "JPEG", "PNG", "PPM", "TIFF"):
        for _ in range(20):
            image = encoded(Image.fromarray(PIXELS), format).copy()
            image[rng.integers(0, min(60, len(image)), 3)] = rng.integers(0, 256, 3)
            with contextlib.suppress(ModelError):
                model(image)


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(UnsupportedError) as caught:
        afterglow.compile(decoder())(np.zeros(9, np.uint8))
    assert 'help: pip install "afterglow[image]"' in str(caught.value)
