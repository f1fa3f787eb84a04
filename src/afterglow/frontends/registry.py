"""The front ends, each found by what it opens, and the dialects of their host nodes."""

from __future__ import annotations

from typing import Any

from afterglow.frontends.base import FrontEnd, Source
from afterglow.frontends.module import ModuleFrontEnd
from afterglow.frontends.onnx.defined import HostGraphSource
from afterglow.frontends.onnx.front_end import OnnxFrontEnd
from afterglow.graph import Module

FRONT_ENDS: tuple[FrontEnd, ...] = (ModuleFrontEnd(), OnnxFrontEnd())
"""Asked in this order."""


def find_source(source: Any) -> Source | None:
    """The model that `source` is, opened by the first front end that can; None if none can."""
    opened = (front_end.opens(source) for front_end in FRONT_ENDS)
    return next((found for found in opened if found is not None), None)


def expanding_source(graph: Module) -> Source:
    """Graph IR of host nodes, which the front end of their dialect expands."""
    return HostGraphSource(graph)
