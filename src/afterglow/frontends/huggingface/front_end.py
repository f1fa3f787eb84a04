"""The front end of Hugging Face folders, as the registry knows it."""

from __future__ import annotations

from typing import Any

from afterglow.frontends.base import Source
from afterglow.frontends.content import Content
from afterglow.frontends.definition.dialect import Dialect
from afterglow.frontends.language.dialects import HUGGING_FACE

_CONFIG = "config.json"
_WEIGHTS = frozenset(("model.safetensors", "model.safetensors.index.json"))


class HuggingFaceFrontEnd:
    """Opens folders with a config and weights in safetensors."""

    name = "huggingface"
    reads = "folders of Hugging Face"

    @property
    def dialect(self) -> Dialect:
        """The table of the ops of language models, filled when it is asked for."""
        from afterglow.frontends.language import importers  # noqa: F401, PLC0415

        return HUGGING_FACE

    def opens(self, source: Any) -> Source | None:
        """A source that reads the model once; None if it is of another kind."""
        if not isinstance(source, Content) or not source.is_folder:
            return None
        if _CONFIG not in source.names or source.names.isdisjoint(_WEIGHTS):
            return None
        from afterglow.frontends.huggingface.source import open_folder  # noqa: PLC0415

        return open_folder(source)
