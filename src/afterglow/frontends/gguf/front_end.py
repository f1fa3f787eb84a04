"""The GGUF front end, as the registry knows it."""

from __future__ import annotations

from typing import Any

from afterglow.frontends.base import Source
from afterglow.frontends.content import Content
from afterglow.frontends.definition.dialect import Dialect
from afterglow.frontends.language.dialects import GGUF

MAGIC = b"GGUF"


class GgufFrontEnd:
    """Opens GGUF models: a path, or the bytes of a file."""

    name = "gguf"
    reads = "GGUF"

    @property
    def dialect(self) -> Dialect:
        """The table of the ops of language models, filled when it is asked for."""
        from afterglow.frontends.language import importers  # noqa: F401, PLC0415

        return GGUF

    def opens(self, source: Any) -> Source | None:
        """A source that reads the model once; None if it is of another kind."""
        if not isinstance(source, Content) or not source.head.startswith(MAGIC):
            return None
        from afterglow.frontends.gguf.source import open_file  # noqa: PLC0415

        return open_file(source)
