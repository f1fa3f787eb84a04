"""Where a model comes from: a file, bytes, a proto, or a module built by hand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import onnx

from afterglow.driver.cache import CompileCache, digest_of_bytes, digest_of_texts
from afterglow.driver.options import Options
from afterglow.frontends.onnx import (
    Binding,
    HostLimits,
    HostNodes,
    ModelImporter,
    Parameter,
    Remainder,
    RunBody,
    model_signature,
    needed_nodes,
    read_model,
    remainder_of,
)
from afterglow.graph import Module, verify_module
from afterglow.runtime import Signature, TensorInfo
from afterglow.support.errors import UsageError
from afterglow.support.regular_file import path_inside
from afterglow.types import Array, OutputForm
from afterglow.types.output_form import tensor_forms

HostRun: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Array]]
"""From what is known by name to what the host computes of it."""


class Source(Protocol):
    """A model that can be loaded, again for other bindings."""

    def load(self, options: Options) -> tuple[Module, tuple[OutputForm, ...]]:
        """A fresh module that the caller may rewrite, and how its outputs are grouped."""

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs."""

    def on_host(
        self,
        wanted: Sequence[str],
        given: Iterable[str],
        values: Mapping[str, Any],
        run_body: RunBody,
        limits: HostLimits,
    ) -> HostRun:
        """What computes what is wanted of what is given, by definition, for `HostNodes`."""

    def is_done(self, known: Iterable[str]) -> bool:
        """Whether the outputs take no node besides what is known."""

    def files(self) -> list[Path]:
        """The files that the model is in; none if it is in memory."""

    def signature(self, options: Options) -> Signature:
        """What the model takes and gives, as far as the options bind it."""

    def digest(self, cache: CompileCache) -> str | None:
        """A digest of all that the model is; None if it would take too long."""

    def remainder(self, cuts: Sequence[Collection[str]], values: Mapping[str, Any]) -> Remainder:
        """What is left of it once the values that cross one of the cuts are known."""


def open_source(source: Any) -> Source:
    """Find out what kind of model was given."""
    match source:
        case "":
            raise UsageError("the name of the model's file is empty")
        case Module():
            return ModuleSource(source)
        case str() | Path() | bytes() | onnx.ModelProto():
            return OnnxSource(source)
    raise UsageError(
        f"cannot compile a {type(source).__name__}",
        help="give a path, bytes, an onnx.ModelProto or an afterglow.Module",
    )


class ModuleSource:
    """A module built by hand; it is never changed."""

    def __init__(self, module: Module) -> None:
        verify_module(module)
        self.module = module

    def load(self, options: Options) -> tuple[Module, tuple[OutputForm, ...]]:
        """A copy; each output is a tensor."""
        if options.shapes or options.dims or options.values:
            raise UsageError("a module has static shapes: there is nothing to bind")
        return self.module.clone(), tensor_forms([o.name for o in self.module.main.outputs])

    @property
    def output_names(self) -> list[str]:
        """Those of the main function."""
        return [output.name for output in self.module.main.outputs]

    def on_host(
        self,
        wanted: Sequence[str],
        given: Iterable[str],
        values: Mapping[str, Any],
        run_body: RunBody,
        limits: HostLimits,
    ) -> HostRun:
        """Refuse: shapes in a module are exact."""
        raise UsageError("a module has static shapes: there is nothing to partition")

    def is_done(self, known: Iterable[str]) -> bool:
        """Never: it is not cut."""
        return False

    def remainder(self, cuts: Sequence[Collection[str]], values: Mapping[str, Any]) -> Remainder:
        """Refuse: it is not cut."""
        raise UsageError("a module has static shapes: there is nothing to partition")

    def digest(self, cache: CompileCache) -> str | None:
        """None: a module built by hand is compiled as quickly as it would be digested."""
        return None

    def files(self) -> list[Path]:
        """None: it is in memory."""
        return []

    def signature(self, options: Options) -> Signature:
        """The main function's."""
        main = self.module.main
        return Signature(
            tuple(TensorInfo(v.name, v.type.dtype, v.type.shape) for v in main.inputs),
            tuple(TensorInfo(o.name, o.value.type.dtype, o.value.type.shape) for o in main.outputs),
        )


class OnnxSource:
    """An ONNX model, read once and imported for each binding."""

    def __init__(self, source: str | Path | bytes | onnx.ModelProto) -> None:
        self.source = source
        self.file = read_model(source)
        self._paths = self._find_paths()
        self._seen = [_identity(path) for path in self._paths]

    def load(self, options: Options) -> tuple[Module, tuple[OutputForm, ...]]:
        """Import it."""
        unchecked = options.policy.unchecked
        return ModelImporter(self.file, _binding(options), options.part, unchecked=unchecked).run()

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

    def remainder(self, cuts: Sequence[Collection[str]], values: Mapping[str, Any]) -> Remainder:
        """The nodes behind the cuts, and the weights that they read."""
        return remainder_of(self.file, cuts, values)

    def digest(self, cache: CompileCache) -> str | None:
        """A digest of the file and of those beside it that hold its tensors.

        None if they are no longer what was read, as there is no telling what the digest would be
        of, and if one may not be read, or cannot be.
        """
        if isinstance(self.source, bytes):
            return digest_of_bytes(self.source)
        if isinstance(self.source, onnx.ModelProto):
            return None
        seen = self._seen
        if None in seen or [_identity(path) for path in self._paths] != seen:
            return None
        try:
            return cache.note_files(Path(self.source), self.file.external_files())
        except OSError:
            return None

    def files(self) -> list[Path]:
        """The model's file, and those beside it that hold its tensors."""
        return [path for path in self._find_paths() if path is not None]

    def _find_paths(self) -> list[Path | None]:
        """The files that the model is in; None for those that may not be read."""
        if not isinstance(self.source, (str, Path)):
            return []
        path = Path(self.source)
        beside = (path_inside(path.parent, name) for name in self.file.external_files())
        return [path, *beside]

    def signature(self, options: Options) -> Signature:
        """What the file declares, with what the options bind filled in."""
        declared = model_signature(self.file)
        inputs = (p for p in declared.inputs if p.name not in options.values)
        return Signature(
            tuple(_info(parameter, options) for parameter in inputs),
            tuple(_info(parameter, options) for parameter in declared.outputs),
        )


class LeftSource(OnnxSource):
    """What was left of an ONNX model when it was saved."""

    def __init__(self, left: Remainder) -> None:
        self.source = b""
        self.left = left
        self.file = left.open()

    @cached_property
    def _digest(self) -> str:
        return digest_of_texts(
            [digest_of_bytes(self.left.graph), digest_of_bytes(self.left.weights)]
        )

    def digest(self, cache: CompileCache) -> str | None:
        """A digest of the graph and of the weights."""
        return self._digest


def _identity(path: Path | None) -> tuple[int, ...] | None:
    """What changes when a file is replaced or written; None if there is none."""
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _info(parameter: Parameter, options: Options) -> TensorInfo:
    shape: Sequence[int | str | None] | None = options.shapes.get(parameter.name, parameter.shape)
    if shape is not None:
        dims = options.dims
        shape = tuple(dims.get(e, e) if isinstance(e, str) else e for e in shape)
    return TensorInfo(parameter.name, parameter.dtype, shape)


def _binding(options: Options) -> Binding:
    return Binding(options.shapes, options.dims, options.values, options.max_memory)
