"""The front ends, each found by what it opens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from afterglow.frontends.base import FrontEnd, Source
from afterglow.frontends.caffe2.front_end import Caffe2FrontEnd
from afterglow.frontends.content import Content
from afterglow.frontends.definition.defined import DefinedSource, HostGraphSource
from afterglow.frontends.definition.dialect import Dialect
from afterglow.frontends.definition.host_graph import dialect_name
from afterglow.frontends.formats import refusal
from afterglow.frontends.gguf.front_end import GgufFrontEnd
from afterglow.frontends.huggingface.front_end import HuggingFaceFrontEnd
from afterglow.frontends.module import ModuleFrontEnd
from afterglow.frontends.onnx.front_end import OnnxFrontEnd
from afterglow.frontends.tflite.front_end import TfliteFrontEnd
from afterglow.frontends.torch.front_end import TorchFrontEnd
from afterglow.graph import Module
from afterglow.support.errors import UnsupportedError
from afterglow.support.plugins import FRONT_ENDS, load_plugin, plugin_names


class HostGraphFrontEnd:
    """Opens modules with host nodes, of whatever dialect they are."""

    name = "host nodes"
    dialect: None = None
    reads = ""

    def opens(self, source: Any) -> Source | None:
        """A source that expands the host nodes for each binding."""
        name = dialect_name(source) if isinstance(source, Module) else None
        return None if name is None else HostGraphSource(source, find_dialect(name))


BUILT_IN: tuple[FrontEnd, ...] = (
    HostGraphFrontEnd(),
    ModuleFrontEnd(),
    TorchFrontEnd(),
    Caffe2FrontEnd(),
    TfliteFrontEnd(),
    GgufFrontEnd(),
    HuggingFaceFrontEnd(),
    OnnxFrontEnd(),
)
"""Asked in this order, before those of plug-ins."""
_NEEDS = ("name", "reads", "dialect", "opens")
"""The attributes of a `FrontEnd`."""


def front_ends() -> Iterator[FrontEnd]:
    """All front ends: the built-in ones, then those of packages, which are imported only then."""
    yield from BUILT_IN
    for name in plugin_names(FRONT_ENDS):
        yield load_plugin(FRONT_ENDS, name, _NEEDS)


def find_source(source: Any) -> Source | None:
    """The model that `source` is, opened by the first front end that can; a source is itself.

    None if none can; if a path or bytes were given, an error says what they are.
    """
    if isinstance(source, DefinedSource):
        return source
    given = Content.of(source) if isinstance(source, (str, Path, bytes)) else source
    opened = (front_end.opens(given) for front_end in front_ends())
    found = next((found for found in opened if found is not None), None)
    if found is None and isinstance(given, Content):
        raise refusal(given, readable())
    return found


def readable() -> str:
    """The formats of files that can be opened, for people."""
    return ", ".join(front_end.reads for front_end in front_ends() if front_end.reads)


def find_dialect(name: str) -> Dialect:
    """The dialect of this name."""
    own = {front_end.name: front_end for front_end in BUILT_IN}
    front_end = own.get(name) or load_plugin(FRONT_ENDS, name, _NEEDS)
    if front_end is None or not isinstance(front_end.dialect, Dialect):
        raise UnsupportedError(
            f"no front end has a dialect {name!r}", help="install the package that defines it"
        )
    return front_end.dialect
