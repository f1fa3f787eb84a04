"""Loading a model that was saved."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from afterglow.runtime.bundle import Bundle, BundleRequest
from afterglow.runtime.device import FindDevice, LoadOptions
from afterglow.runtime.library import SUFFIXES as LIBRARIES
from afterglow.runtime.library import load_library
from afterglow.runtime.model import CompiledModel
from afterglow.runtime.saved import Resume, read_versions
from afterglow.runtime.saved_versions import AnyVersions, Resumer
from afterglow.runtime.segmented import SegmentedVersion
from afterglow.runtime.signature import Signature, TensorInfo
from afterglow.runtime.version import SourceLeft, Specialiser, Version
from afterglow.runtime.versions import Key, Versions, by_input
from afterglow.support.container import is_container
from afterglow.support.errors import UsageError
from afterglow.support.output_path import checked_path
from afterglow.support.regular_file import open_regular
from afterglow.types.extent import dims_of

Names: TypeAlias = Mapping[tuple[str, int], str]
"""Of dimensions, by an input and an axis of it."""


def load_model(
    path: str | Path,
    find_device: FindDevice,
    options: LoadOptions,
    resume: Resume,
    *,
    name: str | None = None,
) -> CompiledModel:
    """Load a model that was saved on the devices that it is for.

    Code and constants are mapped from the file, and shared by all processes that do the same. The
    shared library of a bundle is loaded too; it runs on the calling thread. `resume` makes what
    compiles the rest of a model with data-dependent shapes. Errors call the model by its `name`,
    which is its path by default.
    """
    path = checked_path(path, "saved model")
    if path.suffix in LIBRARIES:
        return _load_bundle(path)
    saved = read_versions(path, find_device, options, resume=resume)
    specialiser = _Saved(
        name or str(path), saved.signature, saved.versions, saved.resumer, saved.made
    )
    return CompiledModel(saved.signature, specialiser, saved.static, versions=saved.versions)


def is_saved_model(path: str | Path) -> bool:
    """Whether a file is for `load_model`: one that was saved, or the library of a bundle."""
    path = Path(path)
    if path.suffix in LIBRARIES:
        return True
    try:
        with open_regular(path) as file:
            return is_container(file.read(64))
    except (OSError, ValueError):
        return False


def _load_bundle(path: Path) -> CompiledModel:
    library = load_library(path)
    entries, versions = library.entries, Versions[Version | SegmentedVersion]()
    signature = _common_signature(entries, library.dimensions)
    static = entries[0] if len(entries) == 1 else None
    specialiser = _Saved(str(path), signature, versions)
    model = CompiledModel(signature, specialiser, static, versions=versions)
    for entry in entries:
        model.keep(entry, entry.input_shapes)
    return model


def _common_signature(versions: Sequence[Version], names: Names) -> Signature:
    """What all versions take and give; extents in which they differ are free."""
    signatures = [version.signature for version in versions]
    inputs = zip(*(signature.inputs for signature in signatures), strict=True)
    outputs = zip(*(signature.outputs for signature in signatures), strict=True)
    return Signature(
        tuple(_common_info(infos, names) for infos in inputs),
        tuple(_common_info(infos, {}) for infos in outputs),
    )


def _common_info(infos: Sequence[TensorInfo], names: Names) -> TensorInfo:
    first, shapes = infos[0], [info.shape or () for info in infos]
    if len({len(shape) for shape in shapes}) > 1:
        return TensorInfo(first.name, first.dtype, None)
    extents = zip(*shapes, strict=True)
    shape = (
        each[0] if len(set(each)) == 1 else names.get((first.name, axis))
        for axis, each in enumerate(extents)
    )
    return TensorInfo(first.name, first.dtype, tuple(shape))


def _bounds_text(key: Key) -> str:
    """The bounds of the dimensions in the shapes of a key, if there are some."""
    dims = dims_of(*(extent for shape in key.shapes for extent in shape or ()))
    bounds = " and ".join(dim.with_bounds for dim in dims)
    return f" with {bounds}" if bounds else ""


class _Saved(Specialiser):
    """Stands where a model that was compiled in this process has its source."""

    def __init__(
        self,
        path: str,
        signature: Signature,
        versions: AnyVersions,
        resumer: Resumer | None = None,
        made: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.signature = signature
        self.versions = versions
        self.resumer = resumer
        self.made = made or {}

    def made_from(self) -> Mapping[str, Any]:
        """What the file says."""
        return self.made

    def compile_for(self, feed: Mapping[str, Any]) -> Version:
        """Refuse: there is nothing to compile."""
        given = self.versions.key(feed, feed)
        known = "; ".join(self._shown(key) for key, _ in self.versions.items())
        raise UsageError(
            f"{self.path}: the model was not saved for {self._shown(given)}",
            help=f"it takes {known}; run the source model with others and save it again",
        )

    def _shown(self, key: Key) -> str:
        """The inputs that a version takes."""
        values = dict(zip(sorted(self.versions.value_inputs), key.values, strict=True))
        shapes = by_input(self.signature.inputs, key.shapes)
        texts = []
        for info in self.signature.inputs:
            value = f" = {values[info.name]}" if info.name in values else ""
            texts.append(f"{replace(info, shape=shapes[info.name])}{value}")
        return ", ".join(texts) + _bounds_text(key)

    def title(self) -> str:
        """The file that it was loaded from."""
        return f"loaded from {self.path}"

    def stage(self, name: str) -> str:
        """Refuse: only code was saved."""
        raise UsageError("a loaded model has no stages to print", help="compile it from its source")

    def export(self, request: BundleRequest, folder: Path, *, shared: bool) -> Bundle:
        """Refuse: only code was saved, for one machine."""
        raise UsageError("a loaded model cannot be exported", help="compile it from its source")

    def source_left(self, boundaries: Sequence[Collection[str]]) -> SourceLeft:
        """What the file had."""
        assert self.resumer is not None
        return self.resumer.source_left(boundaries)
