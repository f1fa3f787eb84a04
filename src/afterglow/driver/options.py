"""Options of a compilation: a frozen value, passed in. The only reader of the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from afterglow.backends.policy import DEFAULT, Policy
from afterglow.frontends.onnx import Part
from afterglow.graph import Array
from afterglow.passes import Instrument
from afterglow.support.disk_cache import default_folder
from afterglow.support.errors import UsageError

Progress: TypeAlias = Callable[[str], None]
"""Called with the name of each stage as it begins."""


@dataclass(frozen=True)
class Options:
    """How to compile a model."""

    backend: str = "cpu"
    target: str = "host"
    threads: int | None = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Array] = field(default_factory=dict)
    part: Part | None = None
    """The part of the model to compile; None for all of it."""
    optimize: bool = True
    lend_inputs: bool = False
    """Whether inputs may be overwritten once they have been read."""
    max_arena: int | None = None
    """The most bytes that the arena may have: nodes are split until it fits."""
    policy: Policy = DEFAULT
    """What the choice of algorithms heeds."""
    tune: float | None = None
    """For how many seconds algorithms are tried; None to go by estimates."""
    cache: Path | None = None
    """The folder of the cache on disk; None for none."""
    verify: bool = False
    perf_map: bool = False
    """Whether the profiler `perf` is told the names of functions."""
    instruments: tuple[Instrument, ...] = ()
    progress: Progress | None = None


def verify_by_default() -> bool:
    """Whether AFTERGLOW_VERIFY asks to verify after each pass."""
    return _is_set("AFTERGLOW_VERIFY")


def perf_map_by_default() -> bool:
    """Whether AFTERGLOW_PERF_MAP asks to tell the profiler `perf` the names of functions."""
    return _is_set("AFTERGLOW_PERF_MAP")


def policy_of(exact: bool, optimize_for: str) -> Policy:
    """What the choice of algorithms heeds, from what a user says."""
    if optimize_for not in ("speed", "memory"):
        raise UsageError(
            f"a model cannot be optimised for {optimize_for!r}", help='say "speed" or "memory"'
        )
    return Policy(exact=exact, small_weights=optimize_for == "memory")


def cache_folder(wish: bool | str | Path) -> Path | None:
    """The folder of the cache: the one given, the usual one for True, none for False."""
    if isinstance(wish, bool):
        return default_folder(os.environ) if wish else None
    return Path(wish)


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")
