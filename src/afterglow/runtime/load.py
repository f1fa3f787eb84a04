"""Loading a model that was saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from afterglow.backends.cpu.bundle import BundleCode
from afterglow.runtime.bundle import SUFFIXES as LIBRARIES
from afterglow.runtime.bundle import load_library
from afterglow.runtime.model import CompiledModel
from afterglow.runtime.saved import SavedModel, read_versions
from afterglow.runtime.signature import Signature, TensorInfo
from afterglow.runtime.version import BundleWish, Specialiser, Version
from afterglow.support.errors import UsageError


def load_model(
    path: str | Path, *, threads: int | None = None, perf_map: bool = False
) -> CompiledModel:
    """Load a model that was saved, to be run by so many threads: by default as many as may be.

    Code and constants are mapped from the file, and shared by all processes that do the same. The
    shared library of a bundle is loaded too; it runs on the calling thread.
    """
    saved = _read(Path(path), threads, perf_map=perf_map)
    static = saved.versions[0] if saved.is_static else None
    model = CompiledModel(saved.signature, _Saved(str(path), saved.versions), static)
    if static is None:
        model.keep(saved.versions)
    return model


def _read(path: Path, threads: int | None, *, perf_map: bool) -> SavedModel:
    if path.suffix not in LIBRARIES:
        return read_versions(path, threads, perf_map=perf_map)
    versions = load_library(path)
    return SavedModel(_common_signature(versions), tuple(versions), is_static=len(versions) == 1)


def _common_signature(versions: Sequence[Version]) -> Signature:
    """What all versions take and give; extents in which they differ are free."""
    signatures = [version.signature for version in versions]
    inputs = zip(*(signature.inputs for signature in signatures), strict=True)
    outputs = zip(*(signature.outputs for signature in signatures), strict=True)
    return Signature(tuple(map(_common_info, inputs)), tuple(map(_common_info, outputs)))


def _common_info(infos: Sequence[TensorInfo]) -> TensorInfo:
    first, shapes = infos[0], [info.shape or () for info in infos]
    if len({len(shape) for shape in shapes}) > 1:
        return TensorInfo(first.name, first.dtype, None)
    extents = zip(*shapes, strict=True)
    shape = tuple(each[0] if len(set(each)) == 1 else None for each in extents)
    return TensorInfo(first.name, first.dtype, shape)


class _Saved(Specialiser):
    """Stands where a model that was compiled in this process has its source."""

    def __init__(self, path: str, versions: Sequence[Version]) -> None:
        self.path = path
        self.versions = versions

    def compile_for(self, feed: Mapping[str, Any]) -> Version:
        """Refuse: there is nothing to compile."""
        known = "; ".join(", ".join(map(str, v.signature.inputs)) for v in self.versions)
        raise UsageError(
            f"{self.path}: the model was not saved for inputs of these shapes",
            help=f"it takes {known}; run the source model with others and save it again",
        )

    def stage(self, name: str) -> str:
        """Refuse: only code was saved."""
        raise UsageError("a loaded model has no stages to print", help="compile it from its source")

    def bundle(self, wish: BundleWish) -> BundleCode:
        """Refuse: only code was saved, for one machine."""
        raise UsageError("a loaded model cannot be exported", help="compile it from its source")
