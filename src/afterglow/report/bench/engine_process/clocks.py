"""Time and memory of this process."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_CALLS = 20_000
"""Calls of one turn, lest their times fill a pipe."""
LEAST_CALLS = 3
SLOW = 1.5
"""Seconds of a call that is not repeated beyond the time of a turn."""

_STATUS = Path("/proc/self/status")


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call gives, and its seconds."""
    started = time.perf_counter()
    result = call()
    return result, time.perf_counter() - started


def repeat(call: Callable[[], Any], seconds: float, *, warm: bool = True) -> list[float]:
    """The seconds of each of many calls in a row, after one to warm up that is not counted."""
    least = LEAST_CALLS if warm and timed(call)[1] < SLOW else 1
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < MOST_CALLS:
        times.append(timed(call)[1])
        if len(times) >= least and time.perf_counter() >= end:
            break
    return times


def resident_bytes() -> int:
    """Memory that this process has now; where that cannot be known, the most it had."""
    found = _status("VmRSS")
    return peak_bytes() if found is None else found


def peak_bytes() -> int:
    """The most memory that this process had."""
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
