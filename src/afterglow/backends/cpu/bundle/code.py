"""The contents of a bundle, before it becomes files."""

from __future__ import annotations

from afterglow.backends.capabilities import BundleExtent
from afterglow.backends.cpu.target import Target
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.runtime.native.program import CheckedIndex
from afterglow.runtime.text_metadata import TextMetadata
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, Interface


@dataclass(frozen=True)
class ArenaLayout:
    """The caller's memory for a run: what is planned, scratch of the thread, then alarms.

    Each part begins at a multiple of the alignment, and so does the whole.
    """

    planned: int
    scratch: int
    alarms: int

    @staticmethod
    def of(planned: int, scratch: int, alarms: int) -> ArenaLayout:
        """Parts of at least so many bytes."""
        return ArenaLayout(*map(_padded, (planned, scratch, alarms)))

    @property
    def before_alarms(self) -> int:
        """Where the alarms begin."""
        return self.planned + self.scratch

    @property
    def size(self) -> int:
        """Bytes of the whole; never none, so that there is always something to point to."""
        return max(self.before_alarms + self.alarms, ALIGNMENT)


@dataclass(frozen=True)
class EntryCode:
    """One program of a bundle: its symbols begin with `prefix`."""

    prefix: str
    interface: Interface
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    layout: ArenaLayout
    steps: tuple[str, ...]
    """The names of the steps, in order."""
    checks: tuple[CheckedIndex, ...]
    """What each alarm is about, in order."""
    work: float
    """FLOPs of a run, about."""
    self_check_bytes: int
    stack_bytes: int


@dataclass(frozen=True)
class BundleCode:
    """Programs as one object file, and the weights that they share."""

    name: str
    target: Target
    object: bytes
    code_bytes: int
    """Bytes of code and of its own constants, without weights."""
    weights: Array
    checksum: int
    embedded: bool
    """Whether the weights are in the object."""
    freestanding: bool
    entries: tuple[EntryCode, ...]
    extents: tuple[BundleExtent, ...] = ()
    """What tells the entries apart; nothing if that is no extent."""
    text: TextMetadata | None = None
    """What a language model says about texts."""

    @property
    def alignment(self) -> int:
        """What the addresses of arena, weights and scratch memory are multiples of."""
        return ALIGNMENT


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
