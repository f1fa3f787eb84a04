"""The measurement of one engine on one model."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from afterglow.support.lazy_dataclass import dataclass


@dataclass
class Measurement:
    """Times, memory and error of one engine; None where not measured, `problem` says why."""

    engine: str
    threads: int
    version: str = ""
    import_seconds: float | None = None
    compile_seconds: float | None = None
    """Compilation ahead of time, to files that are loaded later."""
    load_seconds: float | None = None
    """Loading, in the process that runs the model, until it is ready."""
    first_seconds: float | None = None
    times: list[float] = field(default_factory=list)
    """Seconds of every call after the first."""
    peak_bytes: int | None = None
    """Peak growth of the process, including the engine's own code."""
    arena_bytes: int | None = None
    weight_bytes: int | None = None
    code_bytes: int | None = None
    note: str = ""
    """Remark on how the model was compiled."""
    error: float | None = None
    """Relative error of the outputs, with the first other engine as the reference."""
    problem: str = ""
    help: str = ""
    turns: list[list[float]] = field(default_factory=list)
    """The times by turns, between which other engines ran."""
    clients: int = 1
    """Threads that called it at the same time."""
    busy_seconds: float = 0.0
    """Time in which the calls were made."""

    @property
    def best(self) -> float | None:
        """The seconds of the fastest call."""
        return min(self.times, default=None)

    @property
    def start_seconds(self) -> float | None:
        """Seconds from the start of a process to its first result."""
        parts = (self.import_seconds, self.load_seconds, self.first_seconds)
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    @property
    def mean(self) -> float | None:
        """The mean seconds of a call."""
        return float(np.mean(self.times)) if self.times else None

    def throughput(self, items: int = 1) -> float | None:
        """Calls per second of all clients together, times the items of a call."""
        return items * len(self.times) / self.busy_seconds if self.busy_seconds else None

    def percentile(self, percent: float) -> float | None:
        """The given percentile of the seconds per call."""
        return float(np.percentile(self.times, percent)) if self.times else None

    def gflops(self, flops: float) -> float | None:
        """Billions of operations per second of the fastest call, given its operations."""
        return None if not self.best or not flops else flops / self.best / 1e9

    def data(self, flops: float) -> dict[str, Any]:
        """The JSON representation."""
        return {
            "engine": self.engine,
            "version": self.version,
            "threads": self.threads,
            "note": self.note or None,
            "problem": self.problem or None,
            "help": self.help or None,
            "import_seconds": self.import_seconds,
            "compile_seconds": self.compile_seconds,
            "load_seconds": self.load_seconds,
            "first_seconds": self.first_seconds,
            "calls": len(self.times),
            "min_seconds": self.best,
            "mean_seconds": self.mean,
            "clients": self.clients,
            "calls_per_second": self.throughput(),
            "p50_seconds": self.percentile(50),
            "p90_seconds": self.percentile(90),
            "p99_seconds": self.percentile(99),
            "gflops": self.gflops(flops),
            "peak_bytes": self.peak_bytes,
            "arena_bytes": self.arena_bytes,
            "weight_bytes": self.weight_bytes,
            "code_bytes": self.code_bytes,
            "relative_error": self.error,
        }
