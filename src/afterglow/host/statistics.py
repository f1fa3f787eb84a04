"""What a host has done: counts, times and shares, which print as tables."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError
from dataclasses import field

from afterglow.support.errors import DeadlineError
from afterglow.support.lazy_dataclass import dataclass

RECENT = 4096
"""Requests of a model whose times are kept: the last ones."""


@dataclass
class Counters:
    """What became of the requests of a model; the lock of the scheduler is held by who counts."""

    submitted: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    expired: int = 0
    refused: int = 0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def count(self, seconds: float, error: BaseException | None) -> None:
        """Note how a request ended, and how long it took."""
        if isinstance(error, CancelledError):
            self.cancelled += 1
        elif isinstance(error, DeadlineError):
            self.expired += 1
        elif error is not None:
            self.failed += 1
        else:
            self.completed += 1
            self.seconds.append(seconds)


@dataclass(frozen=True)
class ModelStatistics:
    """The requests of a model; times are in seconds from submission to result."""

    name: str
    devices: tuple[str, ...]
    submitted: int
    completed: int
    failed: int
    cancelled: int
    expired: int
    refused: int
    running: int
    """Requests that were given to devices, and are not done."""
    waiting: int
    p50: float
    p90: float
    p99: float

    @staticmethod
    def of(
        name: str, devices: Sequence[str], counters: Counters, running: int, waiting: int
    ) -> ModelStatistics:
        """What the counters of a model say."""
        counts = (
            *(counters.submitted, counters.completed, counters.failed, counters.cancelled),
            *(counters.expired, counters.refused),
        )
        times = percentiles(counters.seconds)
        return ModelStatistics(name, tuple(devices), *counts, running, waiting, *times)


@dataclass(frozen=True)
class DeviceStatistics:
    """The work of a device."""

    name: str
    streams: int
    waiting: int
    """Requests that were given to it, and have not begun."""
    done: int
    failures: int
    down: tuple[str, ...]
    """The models that it failed with, and gets no requests of for a while."""
    busy: float
    """The share of the time of its streams in which they worked."""
    used_bytes: int
    memory_bytes: int | None
    """What was declared for it; None for no limit."""


@dataclass(frozen=True)
class HostStatistics:
    """What a host has done since it was made; printed, it is two tables."""

    seconds: float
    models: tuple[ModelStatistics, ...]
    devices: tuple[DeviceStatistics, ...]

    def __str__(self) -> str:
        return "\n".join([*_rows(_model_rows(self.models)), "", *_rows(_device_rows(self.devices))])


def percentiles(seconds: Iterable[float]) -> tuple[float, float, float]:
    """The times that half, nine tenths and all but one of a hundred requests took at most."""
    times = sorted(seconds)
    if not times:
        return math.nan, math.nan, math.nan
    p50, p90, p99 = (times[math.ceil(share * len(times)) - 1] for share in (0.5, 0.9, 0.99))
    return p50, p90, p99


def _model_rows(models: Sequence[ModelStatistics]) -> list[list[str]]:
    counts = ["submitted", "completed", "failed", "cancelled", "expired", "refused", "running"]
    counts.append("waiting")
    rows = [["model", *counts, "p50", "p90", "p99", "devices"]]
    for model in models:
        numbers = [f"{getattr(model, count):,}" for count in counts]
        times = [_duration(time) for time in (model.p50, model.p90, model.p99)]
        rows.append([model.name, *numbers, *times, ", ".join(model.devices)])
    return rows


def _device_rows(devices: Sequence[DeviceStatistics]) -> list[list[str]]:
    counted = ["streams", "waiting", "done", "failures"]
    rows = [["device", *counted, "busy", "used bytes", "of", "down"]]
    for device in devices:
        limit = "-" if device.memory_bytes is None else f"{device.memory_bytes:,}"
        memory = [f"{device.used_bytes:,}", limit]
        counts = [f"{getattr(device, count):,}" for count in counted]
        rows.append([device.name, *counts, f"{device.busy:.0%}", *memory, ", ".join(device.down)])
    return rows


def _rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns; the first and the last begin at the left, where names are."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    return [
        "  ".join(
            cell.ljust(width) if place in (0, last) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _duration(seconds: float) -> str:
    return "-" if math.isnan(seconds) else f"{seconds * 1e3:,.2f} ms"
