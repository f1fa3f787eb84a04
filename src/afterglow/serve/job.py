"""A request that waits for its run, and what several that run together have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from afterglow.runtime.trace import Trace
from afterglow.types import Array

Feed: TypeAlias = Mapping[str, Array]


@dataclass(order=True, slots=True)
class Job:
    """A request that waits for its run, in order by priority and then by age."""

    priority: int
    number: int
    feed: Feed = field(compare=False)
    rows: int = field(compare=False)
    key: Any = field(compare=False)
    """Requests with equal keys can be joined."""
    answer: asyncio.Future[list[Array]] = field(compare=False)
    came: float = field(compare=False)
    is_traced: bool = field(compare=False, default=False)
    """Whether the steps of its run are wanted."""
    began: float = field(compare=False, default=0.0)
    ended: float = field(compare=False, default=0.0)
    trace: Trace | None = field(compare=False, default=None)
    """The steps of its run, if they are wanted."""


def trace_of(batch: Sequence[Job]) -> Trace | None:
    """A trace for the steps of a run, which those of its requests have that want it."""
    wanting = [job for job in batch if job.is_traced]
    trace = Trace() if wanting else None
    for job in wanting:
        job.trace = trace
    return trace


def joined(batch: Sequence[Job]) -> dict[str, Array]:
    """The inputs of several requests, one after another along the first axis."""
    return {name: np.concatenate([job.feed[name] for job in batch]) for name in batch[0].feed}
