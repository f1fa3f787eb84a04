"""How many threads run a model, as callers may ask for it."""

from __future__ import annotations

from operator import index
from typing import Any

from afterglow.runtime.native.machine import usable_cores
from afterglow.support.errors import UsageError

MOST_THREADS = 1024
"""The most threads that may be asked for: each has memory of its own, and a worker."""


def checked_threads(threads: Any) -> int | None:
    """The number of threads that a caller asks for; None for all cores that may be used."""
    return None if threads is None else _checked("threads", threads, "omit it to use all cores")


def checked_streams(streams: Any) -> int:
    """The number of runs at the same time, each on cores of its own, that a caller asks for."""
    return _checked("streams", streams, "omit it for runs that use all cores")


def threads_of_stream(threads: int | None, streams: int) -> int | None:
    """The threads of each stream: as many as are asked for, or an equal part of all cores."""
    if threads is not None or streams == 1:
        return threads
    return max(1, usable_cores() // streams)


def _checked(what: str, given: Any, otherwise: str) -> int:
    try:
        number = None if isinstance(given, bool) else index(given)
    except TypeError:
        number = None
    if number is None:
        raise UsageError(f"{what} must be a whole number, got {given!r}", help=otherwise)
    if number < 1:
        raise UsageError(f"{what} must be 1 or more, got {given}")
    if number > MOST_THREADS:
        raise UsageError(
            f"{what} must be {MOST_THREADS:,} or fewer, got {_shown(number)}", help=otherwise
        )
    return number


def _shown(number: int) -> str:
    """A number as text, unless it has more digits than anyone reads."""
    return str(number) if number.bit_length() < 64 else f"one of {number.bit_length()} bits"
