"""The TFLite front end, as the registry knows it: it imports the library when a model is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from afterglow.frontends.base import Source
from afterglow.frontends.definition.dialect import Dialect
from afterglow.support.errors import UsageError
from afterglow.support.regular_file import map_file, open_regular

IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of a TFLite file."""


class TfliteFrontEnd:
    """Opens TFLite models: a path, or the bytes of a file."""

    name = "tflite"

    @property
    def dialect(self) -> Dialect:
        """The table of TFLite's ops, which nothing needs before there is such a model."""
        from afterglow.frontends.tflite.importers import TFLITE  # noqa: PLC0415

        return TFLITE

    def opens(self, source: Any) -> Source | None:
        """A source that reads the model once; None if it is of another kind."""
        if isinstance(source, bytes):
            return _opened(memoryview(source), None) if _is_tflite(source[:8]) else None
        if not isinstance(source, (str, Path)) or not _is_tflite(_beginning(Path(source))):
            return None
        path = Path(source)
        return _opened(map_file(path), path)


def _is_tflite(beginning: bytes) -> bool:
    return beginning[4:8] == IDENTIFIER


def _beginning(path: Path) -> bytes:
    """The first bytes of a file; none if it cannot be read, which others will say."""
    try:
        with open_regular(path) as file:
            return file.read(8)
    except (OSError, ValueError):
        return b""


def _opened(data: memoryview, path: Path | None) -> Source:
    try:
        from afterglow.frontends.tflite.source import TfliteSource  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in ("tflite", "flatbuffers"):
            raise
        raise UsageError(
            "reading TFLite models needs the package tflite",
            help='install it: pip install "afterglow[tflite]"',
        ) from None
    return TfliteSource(data, path)
