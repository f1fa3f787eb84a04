"""The ONNX front end, as the registry knows it: it imports the library when a model is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from afterglow.frontends.base import Source
from afterglow.frontends.onnx.registry import ONNX


class OnnxFrontEnd:
    """Opens ONNX models: a path, the bytes of a file, or an `onnx.ModelProto`."""

    name = "onnx"
    dialect = ONNX

    def opens(self, source: Any) -> Source | None:
        """A source that reads the model once."""
        is_message = type(source).__name__ == "ModelProto"
        if not is_message and not isinstance(source, (str, Path, bytes)):
            return None
        # here, because a process that only loads saved models does not need the library
        from afterglow.frontends.onnx.source import OnnxSource  # noqa: PLC0415

        return OnnxSource(source)
