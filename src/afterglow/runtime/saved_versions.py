"""Versions of a model as data that a file can hold, and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypeAlias

from afterglow.runtime.compiled import CompiledFunction
from afterglow.runtime.content import describe_content, restore_content
from afterglow.runtime.native.artefact import Artefact
from afterglow.runtime.native.executable import NativeExecutable
from afterglow.runtime.native.saved import describe, restore, sections_of
from afterglow.runtime.segmented import Continuation, SegmentedVersion
from afterglow.runtime.version import SourceLeft, Version
from afterglow.runtime.versions import Key, Versions
from afterglow.support.container import Container
from afterglow.support.errors import UsageError
from afterglow.types import MemoryPlan, OutputForm, OutputKind

AnyVersions: TypeAlias = "Versions[Version | SegmentedVersion]"


@dataclass
class VersionWriter:
    """Describes versions as what JSON can hold, and gathers the sections that they need."""

    sections: dict[str, bytes | memoryview] = field(default_factory=dict)
    _count: int = 0

    def versions(self, versions: AnyVersions) -> dict[str, Any]:
        """Versions, each with what it was compiled for."""
        described = [
            {
                "shapes": key.shapes,
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
        compiled, artefact = version.compiled, _artefact(version)
        number, self._count = self._count, self._count + 1
        sections = sections_of(artefact).items()
        self.sections.update((f"{number}.{name}", data) for name, data in sections)
        return {
            "number": number,
            "artefact": describe(artefact),
            "plan": asdict(compiled.plan),
            "input_names": compiled.input_names,
            "output_names": compiled.output_names,
            "value_inputs": sorted(version.value_inputs),
            "forms": [[f.name, f.kind.value, f.count, list(f.keys)] for f in version.forms],
        }

    def _segmented(self, version: SegmentedVersion) -> dict[str, Any]:
        return {
            "first": None if version.first is None else self._whole(version.first),
            "crossing": list(version.crossing),
            "continuation": version.continuation.describe(),
            "value_inputs": sorted(version.value_inputs),
            "unbound": sorted(version.unbound),
            "rest": self.versions(version.rest),
        }


def _artefact(version: Version) -> Artefact:
    executable = version.compiled.executable
    if not isinstance(executable, NativeExecutable):
        raise UsageError(
            "only models compiled for the CPU can be saved, and only without verify",
            help='use backend="cpu" and verify=False',
        )
    return executable.artefact


class Resumer(Protocol):
    """What goes on with a model where the code in a file ends."""

    def continuation(self, crossing: list[str], data: Mapping[str, Any]) -> Continuation:
        """How a segmented version goes on behind its first part, which was described so."""

    def source_left(self, cuts: Sequence[Collection[str]]) -> SourceLeft:
        """What a file needs to do the same."""


@dataclass(frozen=True)
class VersionReader:
    """Loads versions from a file, to be run by so many threads."""

    container: Container
    threads: int | None
    perf_map: bool = False
    resumer: Resumer | None = None

    def fill(self, versions: AnyVersions, data: Mapping[str, Any]) -> None:
        """Load versions that were described so."""
        versions.depend_on(data["value_inputs"])
        for described in data["versions"]:
            shapes = (None if s is None else tuple(s) for s in described["shapes"])
            key = Key(tuple(shapes), tuple(map(restore_content, described["values"])))
            versions.keep(key, self.version(described))

    def version(self, data: Mapping[str, Any]) -> Version | SegmentedVersion:
        """One version."""
        return self.whole(data) if "artefact" in data else self._segmented(data)

    def whole(self, data: Mapping[str, Any]) -> Version:
        """A version in one piece."""
        artefact = restore(data["artefact"], self.container, f"{data['number']}.")
        executable = NativeExecutable(artefact, self.threads, perf_map=self.perf_map)
        compiled = CompiledFunction(
            artefact.interface,
            MemoryPlan(**data["plan"]),
            executable,
            data["input_names"],
            data["output_names"],
        )
        forms = [
            OutputForm(name, OutputKind(kind), count, tuple(keys))
            for name, kind, count, keys in data["forms"]
        ]
        return Version(compiled, tuple(forms), frozenset(data["value_inputs"]))

    def _segmented(self, data: Mapping[str, Any]) -> SegmentedVersion:
        assert self.resumer is not None
        version = SegmentedVersion(
            None if data["first"] is None else self.whole(data["first"]),
            data["crossing"],
            self.resumer.continuation(data["crossing"], data["continuation"]),
            frozenset(data["value_inputs"]),
            unbound=frozenset(data["unbound"]),
        )
        self.fill(version.rest, data["rest"])
        return version
