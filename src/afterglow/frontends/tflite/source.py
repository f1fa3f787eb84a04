"""TFLite models as sources: files and bytes."""

from __future__ import annotations

from afterglow.frontends.base import Bindings
from afterglow.frontends.content import Content
from afterglow.frontends.definition.file_source import FileSource
from afterglow.frontends.tflite import importers  # noqa: F401  fills the table of the dialect
from afterglow.frontends.tflite.reader import read_file
from afterglow.frontends.tflite.registry import INTERNAL
from afterglow.frontends.tflite.translate import translate_file
from afterglow.graph import Module
from afterglow.support.errors import UnsupportedError
from afterglow.types import OutputForm


class TfliteSource(FileSource):
    """A TFLite model, read once and imported for each binding."""

    def __init__(self, content: Content) -> None:
        with content.located():
            super().__init__(content, translate_file(read_file(content.data)))

    def load(self, bindings: Bindings) -> tuple[Module, tuple[OutputForm, ...]]:
        """Import it; state of a model whose parts are compiled each on its own has no place."""
        if bindings.partition is not None and self._has_variables:
            raise UnsupportedError(
                "shapes in the model depend on data, and it has variables",
                help="bind what decides shapes when compiling: values={name: array}",
            )
        return super().load(bindings)

    @property
    def _has_variables(self) -> bool:
        nodes = self.model.graph.node
        return any((node.domain, node.op_type) == (INTERNAL, "VARIABLE") for node in nodes)
