"""What a served model has done: counts and times, for the protocol and for Prometheus."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from dataclasses import field
from itertools import accumulate
from typing import Any

from afterglow.host.statistics import percentiles
from afterglow.support.lazy_dataclass import dataclass

BOUNDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Upper ends of the classes of a histogram of seconds."""
RECENT = 2048
"""Requests whose times are kept for the status page."""


@dataclass
class Duration:
    """How often something was done, and the seconds that it took."""

    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        """Count something that took so long."""
        self.count += count
        self.seconds += seconds

    def data(self) -> dict[str, int]:
        """The duration as the protocol shows it."""
        return {"count": self.count, "ns": max(0, round(self.seconds * 1e9))}


@dataclass
class Histogram:
    """How many values there were in each class."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a value."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[int]:
        """How many values there were up to each bound, and in all."""
        return [*accumulate(self.counts)]


@dataclass
class ServedStatistics:
    """Counts of one version of a model; only the event loop writes them."""

    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    queue: Duration = field(default_factory=Duration)
    join: Duration = field(default_factory=Duration)
    compute: Duration = field(default_factory=Duration)
    batches: dict[int, Duration] = field(default_factory=dict)
    """Runs by their number of rows."""
    failures: dict[str, int] = field(default_factory=dict)
    """By the kind of error."""
    latency: Histogram = field(default_factory=Histogram)
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    rows: int = 0
    last: int = 0
    """When the last request was answered, in milliseconds since 1970."""

    def succeed(self, seconds: float, rows: int) -> None:
        """Count a request that was answered."""
        self.success.add(seconds)
        self.latency.add(seconds)
        self.recent.append(seconds)
        self.rows += rows
        self.last = int(time.time() * 1e3)

    def failed(self, seconds: float, kind: str) -> None:
        """Count a request that got an error."""
        self.fail.add(seconds)
        self.failures[kind] = self.failures.get(kind, 0) + 1

    def ran(self, rows: int, join: float, compute: float) -> None:
        """Count a run of the model."""
        self.join.add(join)
        self.compute.add(compute)
        self.batches.setdefault(rows, Duration()).add(compute)

    def data(self, name: str, version: str, nbytes: int) -> dict[str, Any]:
        """The statistics as the protocol has them."""
        nothing = Duration().data()
        return {
            "name": name,
            "version": version,
            "last_inference": self.last,
            "inference_count": self.rows,
            "execution_count": self.compute.count,
            "inference_stats": {
                "success": self.success.data(),
                "fail": self.fail.data(),
                "queue": self.queue.data(),
                "compute_input": self.join.data(),
                "compute_infer": self.compute.data(),
                "compute_output": nothing,
                "cache_hit": nothing,
                "cache_miss": nothing,
            },
            "batch_stats": [
                {
                    "batch_size": rows,
                    "compute_input": nothing,
                    "compute_infer": duration.data(),
                    "compute_output": nothing,
                }
                for rows, duration in sorted(self.batches.items())
            ],
            "memory_usage": [{"type": "CPU", "id": 0, "byte_size": nbytes}],
        }

    def percentiles(self) -> tuple[float, float, float]:
        """Seconds that half, nine tenths and 99 of 100 of the last requests took at most."""
        return percentiles(self.recent)
