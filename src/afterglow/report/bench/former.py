"""Benchmark results in a file, and whether new ones differ from them by more than noise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.runtime.native.machine import processor_name, usable_cores
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

FORMAT = "afterglow bench"
"""By which a file is known to be a result of ours."""
RESAMPLES = 2000
CONFIDENCE = 95
"""Percent of resampled differences that lie in the interval."""


@dataclass(frozen=True)
class Difference:
    """How much longer a call takes than before, in percent, with an interval around that."""

    percent: float
    low: float
    high: float

    @property
    def is_noise(self) -> bool:
        """Whether the interval includes no difference."""
        return self.low <= 0 <= self.high

    def __str__(self) -> str:
        margin = max(self.high - self.percent, self.percent - self.low)
        if self.is_noise:
            return f"no difference beyond noise (±{max(abs(self.low), abs(self.high)):.1f} %)"
        verb = "slower" if self.percent > 0 else "faster"
        return f"{verb} by {abs(self.percent):.1f} % ± {margin:.1f} %"


def difference(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> Difference:
    """Compare the median times of two measurements, each of several turns.

    Turns are drawn again with repetition (a bootstrap of clusters), because calls in one turn
    share the state of the machine; the interval has 95 % of the differences found so.
    """
    old, new = _medians(before), _medians(after)
    random = np.random.default_rng(0)
    ratios = _resampled(new, random) / _resampled(old, random)
    edge = (100 - CONFIDENCE) / 2
    low, high = np.percentile(ratios, (edge, 100 - edge))
    ratio = float(np.median(new) / np.median(old))
    return Difference(*(100 * (each - 1) for each in (ratio, float(low), float(high))))


def _medians(turns: Sequence[Sequence[float]]) -> Array:
    return np.array([np.median(times) for times in turns if len(times)])


def _resampled(medians: Array, random: np.random.Generator) -> Array:
    drawn = random.choice(medians, (RESAMPLES, len(medians)))
    return np.asarray(np.median(drawn, axis=1))


def machine() -> dict[str, Any]:
    """What tells this machine from others whose times cannot be compared with its own."""
    return {"processor": processor_name(), "cores": usable_cores()}


def result_text(model: str, about: Mapping[str, Any], engines: Sequence[Mapping[str, Any]]) -> str:
    """A result as a file holds it: what was measured, where, and all turns of each engine."""
    data = {"format": FORMAT, "model": model, "machine": machine(), **about}
    return json.dumps({**data, "engines": list(engines)}, indent=1) + "\n"


def read_result(path: str) -> dict[str, Any]:
    """A result that was written so."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--against: {path} cannot be read: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UsageError(
            f"--against: {path} is no result of a benchmark",
            help="write one with afterglow bench MODEL --save FILE.json",
        )
    return data
