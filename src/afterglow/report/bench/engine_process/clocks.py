"""Time and memory of this process."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_CALLS = 20_000
"""Maximum number of calls per turn, so that their times fit into the pipe."""
LEAST_CALLS = 3
SLOW = 1.5
"""A call that takes more seconds than this is made only once per turn."""

_STATUS = Path("/proc/self/status")


def nothing() -> None:
    """What is to be done before a call that goes on from nothing."""


def timed(call: Callable[[], Any], before: Callable[[], None] = nothing) -> tuple[Any, float]:
    """The result of a call, and the seconds it took without what is done before it."""
    before()
    started = time.perf_counter()
    result = call()
    return result, time.perf_counter() - started


def repeat(
    call: Callable[[], Any],
    seconds: float,
    *,
    warm: bool = True,
    before: Callable[[], None] = nothing,
) -> list[float]:
    """The seconds of each call, repeated for a given time after one warm-up call."""
    least = LEAST_CALLS if warm and timed(call, before)[1] < SLOW else 1
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < MOST_CALLS:
        times.append(timed(call, before)[1])
        if len(times) >= least and time.perf_counter() >= end:
            break
    return times


def resident_bytes() -> int:
    """Resident memory of this process; its peak where the system does not report it."""
    found = _status("VmRSS")
    return peak_bytes() if found is None else found


def peak_bytes() -> int:
    """Peak resident memory of this process."""
    found = _status("VmHWM")
    if found is not None:
        return found
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _status(key: str) -> int | None:
    if not _STATUS.exists():
        return None
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return None
