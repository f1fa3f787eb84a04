"""Artifacts: compiled programs as data that is cached, saved and shipped, whatever made them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from afterglow.support.container import Container
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Interface, MemoryPlan

Section: TypeAlias = bytes | memoryview
"""Bytes of an artifact that a file holds apart from the manifest, and that are mapped from it."""


@dataclass(frozen=True)
class Artifact:
    """A compiled program: what a device of some name needs to run it, and nothing else."""

    device: str
    """The name of the device that loads it."""
    interface: Interface
    plan: MemoryPlan
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """What its device wants to know, as JSON can hold it."""
    sections: Mapping[str, Section] = field(default_factory=dict)
    """Code, constants and the like, by name."""

    def locate(self, name: str) -> tuple[int, int] | None:
        """The open file that holds a section, and the offset in it; None if it is in memory."""
        located = self.sections
        return located.locate(name) if isinstance(located, StoredSections) else None


class StoredSections(Mapping[str, Section]):
    """The sections of a file whose names begin with a prefix; they are mapped, not copied."""

    def __init__(self, container: Container, prefix: str) -> None:
        self.container = container
        self.prefix = prefix

    def __getitem__(self, name: str) -> memoryview:
        if self.prefix + name not in self.container.names:
            raise KeyError(name)
        return self.container.section(self.prefix + name)

    def __iter__(self) -> Iterator[str]:
        names = (name for name in self.container.names if name.startswith(self.prefix))
        return (name.removeprefix(self.prefix) for name in names)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def locate(self, name: str) -> tuple[int, int]:
        """The file of a section, and where in it the section begins."""
        return self.container.locate(self.prefix + name)

    def within(self, prefix: str) -> StoredSections:
        """Those of them whose names go on with another prefix."""
        return StoredSections(self.container, self.prefix + prefix)


def sections_within(sections: Mapping[str, Section], prefix: str) -> Mapping[str, Section]:
    """The sections whose names begin with a prefix, under the rest of their names."""
    if isinstance(sections, StoredSections):
        return sections.within(prefix)
    return {
        name.removeprefix(prefix): data
        for name, data in sections.items()
        if name.startswith(prefix)
    }
