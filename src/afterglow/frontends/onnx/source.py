"""ONNX models as sources: files, bytes, and parsed models."""

from __future__ import annotations

from functools import cached_property

from afterglow.frontends.base import FileDigests
from afterglow.frontends.content import Content
from afterglow.frontends.definition.binding import Binding
from afterglow.frontends.definition.file_source import FileSource
from afterglow.frontends.definition.host_graph import graph_of
from afterglow.frontends.definition.importer import ModelImporter
from afterglow.frontends.onnx.messages import ModelProto
from afterglow.frontends.onnx.reader import ModelFile, ModelSource, read_model
from afterglow.frontends.onnx.translate import translate_model
from afterglow.graph import Module


def import_onnx(source: ModelSource | ModelFile, binding: Binding | None = None) -> Module:
    """Import a model: a path, bytes, an `onnx.ModelProto`, or what `read_model` gave.

    Dynamic dimensions raise `UnboundDimensionsError`, shapes that depend on the values of inputs
    `NeedsValuesError`: bind them and try again.
    """
    file = source if isinstance(source, ModelFile) else read_model(source)
    return ModelImporter(file.definition, binding or Binding()).run()[0]


class OnnxSource(FileSource):
    """An ONNX model, read once and imported for each binding."""

    def __init__(self, source: Content | ModelProto) -> None:
        self.file = read_model(source)
        is_message = isinstance(source, ModelProto)
        content = Content(memoryview(b"")) if is_message else source
        super().__init__(content, self.file.definition, self.file.external_files())
        self._is_message = is_message

    @cached_property
    def graph(self) -> Module:
        """The graph IR of the model, with the types that the standard's rules infer."""
        # here, because compiling a model does without
        from afterglow.frontends.onnx.library import with_types  # noqa: PLC0415

        proto = with_types(self.file.proto)
        return graph_of(translate_model(proto, self.file.files, self.file.warn))

    def digest(self, files: FileDigests) -> str | None:
        """That of its files; None for a message, which would first have to be written."""
        return None if self._is_message else super().digest(files)
