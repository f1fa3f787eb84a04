"""What the entry point names: it tells sketches by their first word, and opens them."""

from __future__ import annotations

from typing import Any

from afterglow.frontends.base import Source
from afterglow.frontends.content import Content
from afterglow.frontends.definition.file_source import FileSource
from sketch_frontend.importers import SKETCH
from sketch_frontend.reader import read_sketch

_MAGIC = b"sketch "


class SketchFrontEnd:
    """Opens sketches: a path, or the bytes of one."""

    name = "sketch"
    reads = "sketches"
    dialect = SKETCH

    def opens(self, source: Any) -> Source | None:
        """A source; None if it is something else than a sketch."""
        if not isinstance(source, Content) or not source.head.startswith(_MAGIC):
            return None
        with source.located():
            return FileSource(source, read_sketch(bytes(source.data)))


FRONT_END = SketchFrontEnd()
