"""ONNX models as sources: files, bytes, and parsed models."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import onnx
import onnx.shape_inference

from afterglow.frontends.base import FileDigests
from afterglow.frontends.definition.binding import Binding
from afterglow.frontends.definition.defined import DefinedSource
from afterglow.frontends.definition.host_graph import graph_of
from afterglow.frontends.definition.importer import ModelImporter
from afterglow.frontends.onnx.reader import ModelFile, ModelSource, read_model
from afterglow.frontends.onnx.translate import translate_model
from afterglow.graph import Module
from afterglow.support.digest import digest_of_bytes
from afterglow.support.regular_file import path_inside

MOST_INFERRED_BYTES = 2**26
"""The size of a model, without the weights that stay in its file, whose types are inferred."""


def import_onnx(source: ModelSource | ModelFile, binding: Binding | None = None) -> Module:
    """Import a model: a path, bytes, an `onnx.ModelProto`, or what `read_model` gave.

    Dynamic dimensions raise `UnboundDimensionsError`, shapes that depend on the values of inputs
    `NeedsValuesError`: bind them and try again.
    """
    file = source if isinstance(source, ModelFile) else read_model(source)
    return ModelImporter(file.definition, binding or Binding()).run()[0]


class OnnxSource(DefinedSource):
    """An ONNX model, read once and imported for each binding."""

    def __init__(self, source: str | Path | bytes | onnx.ModelProto) -> None:
        self.source = source
        self.file = read_model(source)
        super().__init__(self.file.definition)
        self._paths = self._find_paths()
        self._seen = [_identity(path) for path in self._paths]

    @property
    def path(self) -> Path | None:
        """The model's file, if it came from one."""
        return Path(self.source) if isinstance(self.source, (str, Path)) else None

    @cached_property
    def graph(self) -> Module:
        """The graph IR of the model, with the types that the standard's rules infer."""
        proto = _with_types(self.file.proto)
        return graph_of(translate_model(proto, self.file.files, self.file.warn))

    def digest(self, files: FileDigests) -> str | None:
        """A digest of the file and of those beside it that hold its tensors.

        None if they are no longer what was read, as there is no telling what the digest would be
        of, and if one may not be read, or cannot be.
        """
        if isinstance(self.source, bytes):
            return digest_of_bytes(self.source)
        seen, path = self._seen, self.path
        if path is None or None in seen or [_identity(p) for p in self._paths] != seen:
            return None
        try:
            return files.note_files(path, self.file.external_files())
        except OSError:
            return None

    def files(self) -> list[Path]:
        """The model's file, and those beside it that hold its tensors."""
        return [path for path in self._find_paths() if path is not None]

    def _find_paths(self) -> list[Path | None]:
        """The files that the model is in; None for those that may not be read."""
        path = self.path
        if path is None:
            return []
        beside = (path_inside(path.parent, name) for name in self.file.external_files())
        return [path, *beside]


def _with_types(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with types of values, where ONNX can tell them; itself if it is very large."""
    if proto.ByteSize() > MOST_INFERRED_BYTES:
        return proto
    try:
        return onnx.shape_inference.infer_shapes(proto)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return proto  # which only makes the text say less


def _identity(path: Path | None) -> tuple[int, ...] | None:
    """What changes when a file is replaced or written; None if there is none."""
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
