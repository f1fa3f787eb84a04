"""Opening a model, whatever front end it needs."""

from __future__ import annotations

from typing import Any

from afterglow.frontends.base import Source, Traced
from afterglow.frontends.registry import find_source
from afterglow.support.errors import UsageError

__all__ = ["Source", "open_source"]


def open_source(source: Any) -> Source:
    """The model that was given, as the first front end that knows its kind opens it."""
    if source == "":
        raise UsageError("the name of the model's file is empty")
    found = find_source(source)
    if found is None and isinstance(source, Traced):
        raise UsageError(
            "example inputs and dynamic_shapes are for modules of PyTorch, "
            f"got a {type(source.model).__name__}",
            help="give a torch.nn.Module",
        )
    if found is None:
        raise UsageError(
            f"cannot compile an object of type {type(source).__name__}",
            help="give a path, bytes, a torch.nn.Module with example inputs, an exported program, "
            "an onnx.ModelProto or an afterglow.Module",
        )
    return found
