"""The graph of a partitioned program: its parts, and the values that pass between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from afterglow.runtime.artifact import Artifact, Section, sections_within
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.runtime.stored_artifact import describe_artifact, restore_artifact
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Interface, MemoryPlan

DEVICE = "partitioned"
"""The name of the device that loads partitioned programs: it has others run their parts."""


@dataclass(frozen=True)
class Rows:
    """Some items of a value, along its first axis."""

    value: str
    start: int
    stop: int


@dataclass(frozen=True)
class Part:
    """What one device computes as a whole: a program, and the values that it reads and gives."""

    device: LogicalDevice
    artifact: Artifact
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class PartGraph:
    """Parts in an order in which each follows those that it reads from."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parts: tuple[Part, ...]
    rows: Mapping[str, Rows] = field(default_factory=dict)
    """Values that are items of others, by name."""
    joined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Values that are the items of several others, one after the other."""

    def __post_init__(self) -> None:
        known = {*self.inputs}
        for part in self.parts:
            unknown = next((name for name in self.reads(part) if name not in known), None)
            if unknown is not None:
                raise UsageError(f"a part of the model reads {unknown!r} before it is computed")
            known.update(part.outputs)

    def reads(self, part: Part) -> list[str]:
        """The inputs of the model and the results of parts that a part needs."""
        return [name for value in part.inputs for name in self.sources(value)]

    def sources(self, value: str) -> list[str]:
        """The inputs of the model and the results of parts that a value is made of."""
        if value in self.rows:
            return self.sources(self.rows[value].value)
        if value in self.joined:
            return [name for part in self.joined[value] for name in self.sources(part)]
        return [value]


def to_artifact(graph: PartGraph, interface: Interface) -> Artifact:
    """A partitioned program as data."""
    sections: dict[str, Section] = {}
    for place, part in enumerate(graph.parts):
        own = part.artifact.sections.items()
        sections.update((f"{_prefix(place)}{name}", data) for name, data in own)
    manifest = {
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "parts": [_describe_part(part) for part in graph.parts],
        "rows": {name: [r.value, r.start, r.stop] for name, r in graph.rows.items()},
        "joined": {name: list(parts) for name, parts in graph.joined.items()},
    }
    return Artifact(DEVICE, interface, _whole_plan(graph.parts), manifest, sections)


def of_artifact(artifact: Artifact) -> PartGraph:
    """What was made data so."""
    manifest = artifact.manifest
    return PartGraph(
        tuple(manifest["inputs"]),
        tuple(manifest["outputs"]),
        tuple(
            _restore_part(data, sections_within(artifact.sections, _prefix(place)))
            for place, data in enumerate(manifest["parts"])
        ),
        {name: Rows(*rows) for name, rows in manifest["rows"].items()},
        {name: tuple(parts) for name, parts in manifest["joined"].items()},
    )


def _describe_part(part: Part) -> dict[str, Any]:
    return {
        "device": part.device.to_json(),
        "artifact": describe_artifact(part.artifact),
        "inputs": list(part.inputs),
        "outputs": list(part.outputs),
    }


def _restore_part(data: Mapping[str, Any], sections: Mapping[str, Section]) -> Part:
    return Part(
        LogicalDevice.of_json(data["device"]),
        restore_artifact(data["artifact"], sections),
        tuple(data["inputs"]),
        tuple(data["outputs"]),
    )


def _prefix(place: int) -> str:
    return f"part{place}."


def _whole_plan(parts: Sequence[Part]) -> MemoryPlan:
    """The memory of all parts together: each has an arena of its own."""
    plans = [part.artifact.plan for part in parts]
    return MemoryPlan(
        arena_bytes=sum(plan.arena_bytes for plan in plans),
        lower_bound_bytes=sum(plan.lower_bound_bytes for plan in plans),
        total_bytes=sum(plan.total_bytes for plan in plans),
        scratch_bytes=sum(plan.scratch_bytes for plan in plans),
    )
