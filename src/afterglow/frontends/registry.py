"""The front ends, each found by what it opens."""

from __future__ import annotations

from typing import Any

from afterglow.frontends.base import FrontEnd, Source
from afterglow.frontends.module import ModuleFrontEnd
from afterglow.frontends.onnx.defined import HostGraphFrontEnd
from afterglow.frontends.onnx.front_end import OnnxFrontEnd

FRONT_ENDS: tuple[FrontEnd, ...] = (HostGraphFrontEnd(), ModuleFrontEnd(), OnnxFrontEnd())
"""Asked in this order."""


def find_source(source: Any) -> Source | None:
    """The model that `source` is, opened by the first front end that can; None if none can."""
    opened = (front_end.opens(source) for front_end in FRONT_ENDS)
    return next((found for found in opened if found is not None), None)
