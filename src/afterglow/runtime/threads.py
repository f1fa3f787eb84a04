"""How many threads run a model, as callers may ask for it."""

from __future__ import annotations

from operator import index
from typing import Any

from afterglow.support.errors import UsageError

MOST_THREADS = 1024
"""The most threads that may be asked for: each has memory of its own, and a worker."""


def checked_threads(threads: Any) -> int | None:
    """The number of threads that a caller asks for; None for all cores that may be used."""
    if threads is None:
        return None
    try:
        number = None if isinstance(threads, bool) else index(threads)
    except TypeError:
        number = None
    if number is None:
        raise UsageError(
            f"threads must be a whole number, got {threads!r}",
            help="omit it to use all cores",
        )
    if number < 1:
        raise UsageError(f"threads must be 1 or more, got {threads}")
    if number > MOST_THREADS:
        raise UsageError(
            f"threads must be {MOST_THREADS:,} or fewer, got {_shown(number)}",
            help="omit it to use all cores",
        )
    return number


def _shown(number: int) -> str:
    """A number as text, unless it has more digits than anyone reads."""
    return str(number) if number.bit_length() < 64 else f"one of {number.bit_length()} bits"
