"""Options of a compilation: a frozen value, passed in. The only reader of the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from afterglow.graph import Array
from afterglow.passes import Instrument

Progress: TypeAlias = Callable[[str], None]
"""Called with the name of each stage as it begins."""


@dataclass(frozen=True)
class Options:
    """How to compile a model."""

    backend: str = "interpreter"
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Array] = field(default_factory=dict)
    optimize: bool = True
    lend_inputs: bool = False
    """Whether inputs may be overwritten once they have been read."""
    max_arena: int | None = None
    """The most bytes that the arena may have: nodes are split until it fits."""
    verify: bool = False
    instruments: tuple[Instrument, ...] = ()
    progress: Progress | None = None


def verify_by_default() -> bool:
    """Whether AFTERGLOW_VERIFY asks to verify after each pass."""
    return os.environ.get("AFTERGLOW_VERIFY", "") not in ("", "0")
