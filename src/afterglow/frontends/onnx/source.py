"""ONNX models as sources: files, bytes, and parsed models."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx

from afterglow.frontends.base import (
    Bindings,
    FileDigests,
    HostLimits,
    HostRun,
    Remainder,
    RunBody,
    Source,
)
from afterglow.frontends.onnx.binding import Binding
from afterglow.frontends.onnx.bodies import BodyGraph
from afterglow.frontends.onnx.host import HostNodes
from afterglow.frontends.onnx.importer import ModelImporter
from afterglow.frontends.onnx.parts import needed_nodes
from afterglow.frontends.onnx.reader import ModelFile, read_model
from afterglow.frontends.onnx.remainder import open_remainder, remainder_of
from afterglow.frontends.onnx.signature import Parameter, model_signature
from afterglow.graph import Module
from afterglow.runtime import Signature, TensorInfo
from afterglow.support.digest import digest_of_bytes, digest_of_texts
from afterglow.support.regular_file import path_inside
from afterglow.types import OutputForm


class OnnxFrontEnd:
    """Opens ONNX models: a path, the bytes of a file, or an `onnx.ModelProto`."""

    def opens(self, source: Any) -> Source | None:
        """A source that reads the model once."""
        is_model = isinstance(source, (str, Path, bytes, onnx.ModelProto))
        return OnnxSource(source) if is_model else None


class OnnxSource:
    """An ONNX model, read once and imported for each binding."""

    def __init__(self, source: str | Path | bytes | onnx.ModelProto) -> None:
        self.source = source
        self.file = read_model(source)
        self._paths = self._find_paths()
        self._seen = [_identity(path) for path in self._paths]

    @property
    def path(self) -> Path | None:
        """The model's file, if it came from one."""
        return Path(self.source) if isinstance(self.source, (str, Path)) else None

    def load(self, bindings: Bindings) -> tuple[Module, tuple[OutputForm, ...]]:
        """Import it."""
        bound = Binding(bindings.shapes, bindings.dims, bindings.values, bindings.max_memory)
        unchecked = bindings.unchecked
        return ModelImporter(self.file, bound, bindings.partition, unchecked=unchecked).run()

    @property
    def output_names(self) -> list[str]:
        """Those of the main graph."""
        return [output.name for output in self.file.proto.graph.output]

    def on_host(
        self,
        wanted: Sequence[str],
        given: Iterable[str],
        values: Mapping[str, Any],
        run_body: RunBody,
        limits: HostLimits,
    ) -> HostRun:
        """Node by node: each is imported once for the types of its operands, and replayed."""
        return HostNodes(self.file, wanted, given, values, run_body, limits).run

    def is_done(self, known: Iterable[str]) -> bool:
        """Whether there is no node between what is known and the outputs."""
        return not needed_nodes(self.file.proto.graph, self.output_names, known)

    def remainder(
        self, boundaries: Sequence[Collection[str]], values: Mapping[str, Any]
    ) -> Remainder:
        """The nodes behind the boundaries, and the weights that they read."""
        return remainder_of(self.file, boundaries, values)

    def body_source(self, body: BodyGraph, given: Collection[str]) -> Source | None:
        """A body as a model without inputs; None if all that it returns is given."""
        file = body.as_model(given)
        return None if file is None else BodySource(self, body, file)

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

    def signature(self, bindings: Bindings) -> Signature:
        """What the file declares, with what the bindings determine filled in."""
        declared = model_signature(self.file)
        inputs = (p for p in declared.inputs if p.name not in bindings.values)
        return Signature(
            tuple(_info(parameter, bindings) for parameter in inputs),
            tuple(_info(parameter, bindings) for parameter in declared.outputs),
        )


class RemainderSource(OnnxSource):
    """What was left of an ONNX model when it was saved."""

    def __init__(self, remainder: Remainder) -> None:
        self.source = b""
        self.left = remainder
        self.file = open_remainder(remainder)

    @cached_property
    def _digest(self) -> str:
        return digest_of_texts(
            [digest_of_bytes(self.left.graph), digest_of_bytes(self.left.weights)]
        )

    def digest(self, files: FileDigests) -> str | None:
        """A digest of the graph and of the weights."""
        return self._digest


class BodySource(OnnxSource):
    """A body as a model, which takes all its inputs as boundary values."""

    def __init__(self, outer: Source, graph: BodyGraph, file: ModelFile) -> None:
        self.source = b""
        self.outer = outer
        self.graph = graph
        self.file = file

    def digest(self, files: FileDigests) -> str | None:
        """A digest of the model around it, and of what the body is."""
        outer = self.outer.digest(files)
        return None if outer is None else digest_of_texts([outer, self.graph.digest])


def _identity(path: Path | None) -> tuple[int, ...] | None:
    """What changes when a file is replaced or written; None if there is none."""
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _info(parameter: Parameter, bindings: Bindings) -> TensorInfo:
    shape: Sequence[int | str | None] | None = bindings.shapes.get(parameter.name, parameter.shape)
    if shape is not None:
        dims = bindings.dims
        shape = tuple(dims.get(e, e) if isinstance(e, str) else e for e in shape)
    return TensorInfo(parameter.name, parameter.dtype, shape)
