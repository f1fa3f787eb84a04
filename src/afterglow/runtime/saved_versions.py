"""Versions of a model as data that a file can hold, and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, field, replace
from typing import Any, Protocol, TypeAlias

from afterglow.runtime.artifact import Artifact, StoredSections
from afterglow.runtime.compiled import CompiledFunction
from afterglow.runtime.content import describe_content, restore_content
from afterglow.runtime.device import Device, FindDevice, LoadOptions
from afterglow.runtime.extents import Shapes, has_ranges
from afterglow.runtime.micro_batches import MicroBatches
from afterglow.runtime.segmented import Continuation, SegmentedVersion
from afterglow.runtime.stored_artifact import describe_artifact, restore_artifact
from afterglow.runtime.version import SourceLeft, Version
from afterglow.runtime.versions import Key, Versions
from afterglow.support.container import Container
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import (
    OutputForm,
    OutputKind,
)
from afterglow.types.extent import Dim, dims_of
from afterglow.types.extent.text import read_shape, spell_shape

AnyVersions: TypeAlias = "Versions[Version | SegmentedVersion]"
ATTACHED = "attached."
"""What the names of sections begin with that came with the source, once for all versions."""


@dataclass
class VersionWriter:
    """Describes versions as what JSON can hold, and gathers the sections that they need."""

    sections: dict[str, bytes | memoryview] = field(default_factory=dict)
    _count: int = 0

    def versions(self, versions: AnyVersions) -> dict[str, Any]:
        """Versions, each with what it was compiled for."""
        described = [
            {
                **_describe_shapes(key.shapes),
                "values": [describe_content(content) for content in key.values],
                **self.version(version),
            }
            for key, version in versions.items()
        ]
        return {"value_inputs": sorted(versions.value_inputs), "versions": described}

    def version(self, version: Version | SegmentedVersion) -> dict[str, Any]:
        """One version."""
        return self._whole(version) if isinstance(version, Version) else self._segmented(version)

    def _whole(self, version: Version) -> dict[str, Any]:
        compiled, artifact = version.compiled, _artifact(version)
        number, self._count = self._count, self._count + 1
        sections = artifact.sections.items()
        self.sections.update((f"{number}.{name}", data) for name, data in sections)
        attached = version.attachments.items()
        self.sections.update((ATTACHED + name, data) for name, data in attached)
        return {
            "number": number,
            "artifact": describe_artifact(artifact),
            "batches": compiled.batches and compiled.batches.describe(),
            "input_names": compiled.input_names,
            "output_names": compiled.output_names,
            "value_inputs": sorted(version.value_inputs),
            "forms": [[f.name, f.kind.value, f.count, list(f.keys)] for f in version.forms],
        }

    def _segmented(self, version: SegmentedVersion) -> dict[str, Any]:
        return {
            "first": None if version.first is None else self._whole(version.first),
            "boundary": list(version.boundary),
            "continuation": version.continuation.describe(),
            "value_inputs": sorted(version.value_inputs),
            "unbound": sorted(version.unbound),
            "rest": self.versions(version.rest),
        }


def _artifact(version: Version) -> Artifact:
    artifact = version.compiled.artifact
    if artifact is None:
        raise UsageError(
            "a model that checks itself as it runs, or that a shared library holds, is not saved",
            help="compile the model with verify=False, and save that",
        )
    return artifact


def _describe_shapes(shapes: Shapes) -> dict[str, Any]:
    """Shapes, and the dimensions that their extents depend on."""
    dims = dims_of(*(extent for shape in shapes for extent in shape or ()))
    spelled = [None if shape is None else spell_shape(shape) for shape in shapes]
    return {"shapes": spelled, "dims": list(map(astuple, dims))}


def _restore_shapes(data: Mapping[str, Any]) -> Shapes:
    dims = [Dim(*dim) for dim in data["dims"]]
    return tuple(None if shape is None else read_shape(shape, dims) for shape in data["shapes"])


class Resumer(Protocol):
    """What goes on with a model where the code in a file ends."""

    def continuation(self, boundary: list[str], data: Mapping[str, Any]) -> Continuation:
        """How a segmented version goes on behind its first part, which was described so."""

    def source_left(self, boundaries: Sequence[Collection[str]]) -> SourceLeft:
        """What a file needs to do the same."""


@dataclass(frozen=True)
class VersionReader:
    """Loads versions from a file on the devices that they are for."""

    container: Container
    find_device: FindDevice
    options: LoadOptions
    resumer: Resumer | None = None

    def fill(self, versions: AnyVersions, data: Mapping[str, Any]) -> None:
        """Load versions that were described so."""
        versions.depend_on(data["value_inputs"])
        for described in data["versions"]:
            shapes = _restore_shapes(described)
            key = Key(shapes, tuple(map(restore_content, described["values"])))
            taken = shapes if has_ranges(shapes) else None
            versions.keep(key, replace(self.version(described), ranged_shapes=taken))

    def version(self, data: Mapping[str, Any]) -> Version | SegmentedVersion:
        """One version."""
        return self.whole(data) if "artifact" in data else self._segmented(data)

    def whole(self, data: Mapping[str, Any]) -> Version:
        """A version in one piece."""
        sections = StoredSections(self.container, f"{data['number']}.")
        artifact = restore_artifact(data["artifact"], sections)
        device = self._device(artifact.device)
        compiled = CompiledFunction(
            artifact.interface,
            artifact.plan,
            device.load(artifact, self.options),
            data["input_names"],
            data["output_names"],
            artifact=artifact,
            allocate=device.allocate,
            batches=data["batches"] and MicroBatches.restore(data["batches"]),
        )
        forms = [
            OutputForm(name, OutputKind(kind), count, tuple(keys))
            for name, kind, count, keys in data["forms"]
        ]
        attached = StoredSections(self.container, ATTACHED)
        names = frozenset(data["value_inputs"])
        return Version(compiled, tuple(forms), names, attachments=attached)

    def _device(self, name: str) -> Device:
        try:
            return self.find_device(name)
        except UsageError as error:
            what = f"{self.container.path}: {error.what}"
            raise UsageError(what, where=error.where, help=error.help) from error

    def _segmented(self, data: Mapping[str, Any]) -> SegmentedVersion:
        assert self.resumer is not None
        version = SegmentedVersion(
            None if data["first"] is None else self.whole(data["first"]),
            data["boundary"],
            self.resumer.continuation(data["boundary"], data["continuation"]),
            frozenset(data["value_inputs"]),
            unbound=frozenset(data["unbound"]),
        )
        self.fill(version.rest, data["rest"])
        return version
