"""The TFLite front end, as the registry knows it: it imports the library when a model is opened."""

from __future__ import annotations

from typing import Any

from afterglow.frontends.base import Source
from afterglow.frontends.content import Content
from afterglow.frontends.definition.dialect import Dialect
from afterglow.support.errors import UsageError

IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of a TFLite file."""


class TfliteFrontEnd:
    """Opens TFLite models: a path, or the bytes of a file."""

    name = "tflite"
    reads = "TFLite"

    @property
    def dialect(self) -> Dialect:
        """The table of TFLite's ops, which nothing needs before there is such a model."""
        from afterglow.frontends.tflite.importers import TFLITE  # noqa: PLC0415

        return TFLITE

    def opens(self, source: Any) -> Source | None:
        """A source that reads the model once; None if it is of another kind."""
        if not isinstance(source, Content) or source.head[4:8] != IDENTIFIER:
            return None
        return _opened(source)


def _opened(content: Content) -> Source:
    try:
        from afterglow.frontends.tflite.source import TfliteSource  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in ("tflite", "flatbuffers"):
            raise
        raise UsageError(
            "reading TFLite models needs the package tflite",
            help='install it: pip install "afterglow[tflite]"',
        ) from None
    return TfliteSource(content)
