"""Bundles as their users see them: what can be asked for, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.output_path import checked_path


@dataclass(frozen=True)
class BundleRequest:
    """What a bundle is asked to be: for which machine, of what kind, for which shapes."""

    target: str = "host"
    name: str | None = None
    """How its symbols begin; by default the name of the model's file."""
    embed_weights: bool = False
    """Whether the weights are in the object, rather than in a file."""
    freestanding: bool = False
    """Whether not even memcpy, memmove and memset are asked of others."""
    small: bool = False
    """Whether code should be small rather than fast."""
    shapes: Sequence[Mapping[str, Sequence[int]]] = ()
    """The shapes of the inputs, for each entry; none if there is nothing to bind."""
    force: bool = False
    """Whether files that are not of a bundle are replaced."""
    attachments: Mapping[str, bytes] = field(default_factory=dict)
    """What the source attaches to the model, such as its tokenizer."""

    def __post_init__(self) -> None:
        if self.name is not None and not isinstance(self.name, str):
            raise UsageError(
                f"the name of a bundle must be a text, got {self.name!r}",
                help='write name="model": its C functions begin with that',
            )


def bundle_folder(given: Any) -> Path:
    """The folder of a bundle, which need not be there."""
    path = checked_path(given, "folder")
    if path.exists() and not path.is_dir():
        raise UsageError(
            f"cannot write {path}: it is not a folder", help="give a folder, new or existing"
        )
    return path


def is_small(optimize_for: str) -> bool:
    """Whether code is optimised for size, of what users choose."""
    if optimize_for not in ("speed", "size"):
        raise UsageError(
            f"code cannot be optimised for {optimize_for!r}", help='use "speed" or "size"'
        )
    return optimize_for == "size"


def several_ranges(programs: int) -> UsageError:
    """The error about a bundle of several programs for ranges."""
    return UsageError(
        f"a bundle has one program for ranges, and the model has {programs}",
        help="give bounds instead of lists of extents, dims={'NAME': (FIRST, LAST)}, or write a "
        "bundle for each program",
    )


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk."""

    folder: Path
    name: str
    description: dict[str, Any]
    """What NAME.json says."""
    library: Path | None = None
    """The shared library, if one was wanted."""
    sizes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Bytes by what takes them: a number for all entries, or one for each."""
    entries: tuple[str, ...] = ()
    """The names of entries, if there are several."""
