"""How much work a program does, told so that the speed of the machine hardly matters."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from time import process_time
from types import FrameType

ATTEMPTS = 8
"""How often times are taken before they count as too long: other processes only add to them."""
SLACK_SECONDS = 0.03


def calls(work: Callable[[], object]) -> int:
    """How many functions some work calls in this thread, those that are built in as well."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count - 1  # to end the count is a call


def seconds(work: Callable[[], object]) -> float:
    """The time some work takes, without that for what other tests have left behind."""
    gc.disable()
    try:
        started = process_time()
        work()
        return process_time() - started
    finally:
        gc.enable()


def is_linear(work_of_size: Callable[[int], Callable[[], object]], size: int) -> bool:
    """Whether work of four times a size takes about four times as long; sixteen is square.

    What `work_of_size` does to prepare its result is not timed.
    """
    short = long = float("inf")
    for _ in range(ATTEMPTS):
        short = min(short, seconds(work_of_size(size)))
        long = min(long, seconds(work_of_size(4 * size)))
        if long < 9 * short + SLACK_SECONDS:
            return True
    return False
