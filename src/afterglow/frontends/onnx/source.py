"""ONNX models as sources: files, bytes, and parsed models."""

from __future__ import annotations

from functools import cached_property

import onnx
import onnx.shape_inference

from afterglow.frontends.base import FileDigests
from afterglow.frontends.content import Content
from afterglow.frontends.definition.binding import Binding
from afterglow.frontends.definition.file_source import FileSource
from afterglow.frontends.definition.host_graph import graph_of
from afterglow.frontends.definition.importer import ModelImporter
from afterglow.frontends.onnx.reader import ModelFile, ModelSource, read_model
from afterglow.frontends.onnx.translate import translate_model
from afterglow.graph import Module

MOST_INFERRED_BYTES = 2**26
"""The size of a model, without the weights that stay in its file, whose types are inferred."""


def import_onnx(source: ModelSource | ModelFile, binding: Binding | None = None) -> Module:
    """Import a model: a path, bytes, an `onnx.ModelProto`, or what `read_model` gave.

    Dynamic dimensions raise `UnboundDimensionsError`, shapes that depend on the values of inputs
    `NeedsValuesError`: bind them and try again.
    """
    file = source if isinstance(source, ModelFile) else read_model(source)
    return ModelImporter(file.definition, binding or Binding()).run()[0]


class OnnxSource(FileSource):
    """An ONNX model, read once and imported for each binding."""

    def __init__(self, source: Content | onnx.ModelProto) -> None:
        self.file = read_model(source)
        is_message = isinstance(source, onnx.ModelProto)
        content = Content(memoryview(b"")) if is_message else source
        super().__init__(content, self.file.definition, self.file.external_files())
        self._is_message = is_message

    @cached_property
    def graph(self) -> Module:
        """The graph IR of the model, with the types that the standard's rules infer."""
        proto = _with_types(self.file.proto)
        return graph_of(translate_model(proto, self.file.files, self.file.warn))

    def digest(self, files: FileDigests) -> str | None:
        """That of its files; None for a message, which would first have to be written."""
        return None if self._is_message else super().digest(files)


def _with_types(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with types of values, where ONNX can tell them; itself if it is very large."""
    if proto.ByteSize() > MOST_INFERRED_BYTES:
        return proto
    try:
        return onnx.shape_inference.infer_shapes(proto)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return proto  # which only makes the text say less
