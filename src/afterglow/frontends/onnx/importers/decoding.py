"""ONNX's ImageDecoder, through Pillow. The bytes decide the shape, so they must be known."""

from __future__ import annotations

import io
import struct
import zlib
from importlib import import_module
from typing import Any

import numpy as np

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.support.errors import ModelError
from afterglow.types import Array

_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}
_FORMATS = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""Those that ONNX names: Pillow has more, and some of them run other programs."""

_BROKEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
"""What Pillow's decoders raise for damaged bytes; they do not agree on one error."""


@onnx_op("ImageDecoder")
def image_decoder(n: NodeContext) -> Value:
    """Rows, columns and channels: red, green and blue, the other way round, or one of grey."""
    try:
        pillow = import_module("PIL.Image")  # an optional extra, and slow to import
    except ImportError:
        message, help = "images are decoded by Pillow", 'pip install "afterglow[image]"'
        raise n.fail(message, help=help) from None
    pixel_format = n.text("pixel_format", "RGB")
    if pixel_format not in _MODES:
        raise ModelError(f"there is no pixel_format {pixel_format!r}")
    pixels = _decoded(pillow, n.known(0), _MODES[pixel_format])
    return n.constant(pixels[..., ::-1] if pixel_format == "BGR" else pixels)


def _decoded(pillow: Any, encoded: Array, mode: str) -> Array:
    try:
        image = pillow.open(io.BytesIO(encoded.tobytes()), formats=_FORMATS)
        pixels = np.asarray(image.convert(mode))
    except pillow.UnidentifiedImageError:
        known = ", ".join(_FORMATS)
        message = f"the image cannot be decoded: it is none of {known}, or damaged"
        raise ModelError(message) from None
    except (*_BROKEN, pillow.DecompressionBombError) as error:
        raise ModelError(f"the image cannot be decoded: {error}") from None
    return pixels if pixels.ndim == 3 else pixels[..., np.newaxis]
