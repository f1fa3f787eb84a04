"""The front ends, each found by what it opens."""

from __future__ import annotations

from typing import Any

from afterglow.frontends.base import FrontEnd, Source
from afterglow.frontends.definition.defined import HostGraphSource
from afterglow.frontends.definition.dialect import Dialect
from afterglow.frontends.definition.host_graph import dialect_name
from afterglow.frontends.module import ModuleFrontEnd
from afterglow.frontends.onnx.front_end import OnnxFrontEnd
from afterglow.frontends.tflite.front_end import TfliteFrontEnd
from afterglow.graph import Module
from afterglow.support.errors import UnsupportedError


class HostGraphFrontEnd:
    """Opens modules with host nodes, of whatever dialect they are."""

    name = "host nodes"
    dialect: None = None

    def opens(self, source: Any) -> Source | None:
        """A source that expands the host nodes for each binding."""
        name = dialect_name(source) if isinstance(source, Module) else None
        return None if name is None else HostGraphSource(source, find_dialect(name))


FRONT_ENDS: tuple[FrontEnd, ...] = (
    HostGraphFrontEnd(),
    ModuleFrontEnd(),
    TfliteFrontEnd(),
    OnnxFrontEnd(),
)
"""Asked in this order."""


def find_source(source: Any) -> Source | None:
    """The model that `source` is, opened by the first front end that can; None if none can."""
    opened = (front_end.opens(source) for front_end in FRONT_ENDS)
    return next((found for found in opened if found is not None), None)


def find_dialect(name: str) -> Dialect:
    """The dialect of this name."""
    for front_end in FRONT_ENDS:
        if front_end.name == name and isinstance(front_end.dialect, Dialect):
            return front_end.dialect
    raise UnsupportedError(
        f"no front end has a dialect {name!r}", help="install the package that defines it"
    )
