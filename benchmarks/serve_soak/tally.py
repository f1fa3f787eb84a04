"""What a load has found so far, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

SHOWN = 20
"""Failures of a kind that are kept word by word."""


@dataclass(frozen=True)
class Sample:
    """A second of the run: memory of the server, and times of right answers in milliseconds."""

    second: float
    megabytes: float
    files: int
    requests: int
    p50: float
    p99: float


@dataclass
class Tally:
    """Counts of a run."""

    counts: Counter[str] = field(default_factory=Counter)
    """What clients did, by kind."""
    statuses: Counter[str] = field(default_factory=Counter)
    """Answers to malformed requests."""
    failures: list[str] = field(default_factory=list)
    failed: int = 0
    samples: list[Sample] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """Seconds of the answers since the last sample."""

    def right(self, kind: str, seconds: float) -> None:
        """Count an answer that was right."""
        self.counts[kind] += 1
        self.times.append(seconds)

    def fail(self, what: str) -> None:
        """Note what must not happen."""
        self.failed += 1
        if len(self.failures) < SHOWN:
            self.failures.append(what[:300])

    def sample(self, second: float, megabytes: float, files: int) -> None:
        """End a second of the run."""
        ordered, self.times = sorted(self.times), []
        count = len(ordered)
        p50, p99 = (ordered[int(share * count)] if count else 0.0 for share in (0.5, 0.99))
        numbers = (round(each, 3) for each in (second, megabytes))
        self.samples.append(
            Sample(*numbers, files, count, round(p50 * 1e3, 3), round(p99 * 1e3, 3))
        )

    def growth(self) -> float:
        """Megabytes that the server has more in the last tenth of the run than in its third."""
        tenth = max(1, len(self.samples) // 10)
        early = self.samples[2 * tenth : 3 * tenth] or self.samples
        return median(s.megabytes for s in self.samples[-tenth:]) - median(
            s.megabytes for s in early
        )

    def data(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "counts": dict(self.counts),
            "statuses": dict(self.statuses),
            "failed": self.failed,
            "failures": self.failures,
            "growth_mb": round(self.growth(), 2),
            "samples": [asdict(sample) for sample in self.samples],
        }
