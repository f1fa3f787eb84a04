"""Work in the background: futures, and the threads that do it.

The library of futures takes longer to import than a saved model to load, so it is imported when
something is to happen in the background.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Result = TypeVar("Result")

RUNS_AT_ONCE = 16
"""Threads that wait for runs in the background; further runs wait for one of them."""


def done(result: Result) -> Future[Result]:
    """A future whose result is there already."""
    from concurrent.futures import Future  # noqa: PLC0415

    future: Future[Result] = Future()
    future.set_result(result)
    return future


def in_background(work: Callable[[], Result], kind: str = "run") -> Future[Result]:
    """Have a thread do some work; an error comes with the result.

    Work that waits for other work must be of another kind than that: each kind has threads of its
    own, which cannot all be taken by those who wait.
    """
    return _workers(kind).submit(work)


@cache
def _workers(kind: str) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    return ThreadPoolExecutor(RUNS_AT_ONCE, f"afterglow-{kind}")
