"""Opening a model, whatever front end it needs."""

from __future__ import annotations

from typing import Any

from afterglow.frontends.base import Source
from afterglow.frontends.registry import find_source
from afterglow.support.errors import UsageError

__all__ = ["Source", "open_source"]


def open_source(source: Any) -> Source:
    """The model that was given, as the first front end that knows its kind opens it."""
    if source == "":
        raise UsageError("the name of the model's file is empty")
    found = find_source(source)
    if found is None:
        raise UsageError(
            f"cannot compile a {type(source).__name__}",
            help="give a path, bytes, an onnx.ModelProto or an afterglow.Module",
        )
    return found
