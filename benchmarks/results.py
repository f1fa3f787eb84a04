"""What was measured, as a file of JSON: the page and the pictures are made of it alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

OURS = "afterglow"
DEFAULT = Path(__file__).parent / "results.json"
WRONG = 0.3
"""A distance of outputs from the reference that is no rounding; quantized models come to 0.2."""
DIGITS = 5
"""Significant digits that are kept of times."""


@dataclass(frozen=True)
class Machine:
    """What it was measured on, and the most that it can do."""

    processor: str
    cores: int
    day: str
    peak: float
    """GFLOP/s of one core that does nothing but multiply and add."""
    cache_bytes: int
    """Of the last level."""
    cache_rates: dict[str, float] = field(default_factory=dict)
    """GB/s at which so many threads read what lies in that cache."""
    memory_rates: dict[str, float] = field(default_factory=dict)
    """GB/s at which so many threads read what lies in memory."""


@dataclass(frozen=True)
class Row:
    """One run of `afterglow bench`: a model on so many threads, and what each engine took.

    What was not measured of an engine is not in its dictionary.
    """

    model: str
    threads: int
    batch: int
    """How many items it computes at once; 0 where the file has its say."""
    flops: float
    weight_bytes: int
    io_bytes: int
    arena_bytes: int
    others: float
    """The share of the machine that other processes used meanwhile."""
    engines: dict[str, dict[str, Any]]

    @property
    def place(self) -> tuple[str, int, int]:
        """What was measured: rows of one place are merged."""
        return self.model, self.threads, self.batch

    @property
    def ours(self) -> dict[str, Any]:
        """Our own measurement."""
        return self.engines[OURS]

    @property
    def peers(self) -> list[str]:
        """The other engines that it was asked of."""
        return [name for name in self.engines if name != OURS]

    def ratio(self, peer: str) -> float | None:
        """Our time over that of another engine in the same run, if that computed the same."""
        theirs, ours = self.engines.get(peer, {}), self.ours
        if not theirs.get("min_seconds") or not ours.get("min_seconds"):
            return None
        right = theirs.get("relative_error", 0.0) <= WRONG
        return float(ours["min_seconds"] / theirs["min_seconds"]) if right else None


@dataclass(frozen=True)
class Case:
    """A model on so many threads: all rows of one place."""

    rows: tuple[Row, ...]

    @property
    def best(self) -> tuple[float, str] | None:
        """The fastest other engine: our time over its own in the same run, and its name."""
        return self._best and (self._best[0], self._best[1])

    @property
    def row(self) -> Row:
        """The run whose figures of ours are shown: that of the fastest other engine."""
        return self._best[2] if self._best else self.rows[0]

    @property
    def engines(self) -> dict[str, dict[str, Any]]:
        """What is known of each engine; later rows win."""
        merged = {name: engine for row in self.rows for name, engine in row.engines.items()}
        return {**merged, OURS: self.row.ours}

    @property
    def _best(self) -> tuple[float, str, Row] | None:
        found = [(row.ratio(peer), peer, row) for row in self.rows for peer in row.peers]
        known = [(ratio, peer, row) for ratio, peer, row in found if ratio is not None]
        return max(known, key=lambda entry: entry[0], default=None)


@dataclass
class Results:
    """Everything that was measured on one machine."""

    machine: Machine
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Take in a row; what it has anew of other engines, older rows need not keep."""
        kept = []
        for old in self.rows:
            if old.place == row.place:
                left = {k: v for k, v in old.engines.items() if k == OURS or k not in row.engines}
                if set(left) == {OURS}:
                    continue
                old = Row(**{**asdict(old), "engines": left})
            kept.append(old)
        self.rows = [*kept, row]

    def known(self, place: tuple[str, int, int]) -> set[str]:
        """The engines whose figures at a place are there, or that cannot have any."""
        rows = [row for row in self.rows if row.place == place]
        return {name for row in rows for name, e in row.engines.items() if not e.get("help")}

    def cases(self, batched: bool = False) -> list[Case]:
        """Models and threads in order of their names; or else those with batches."""
        places = sorted({row.place for row in self.rows if bool(row.batch) == batched})
        return [Case(tuple(r for r in self.rows if r.place == place)) for place in places]

    def save(self, path: Path) -> None:
        """Write it, a row a line."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(_short(asdict(row))) for row in self.rows)
        machine = json.dumps(_short(asdict(self.machine)))
        path.write_text(f'{{"machine": {machine},\n"rows": [\n{lines}\n]}}\n', encoding="utf-8")


def load(path: Path) -> Results | None:
    """What a file has; nothing if there is none."""
    if not path.exists():
        return None
    data = json.loads(path.read_text(encoding="utf-8"))
    return Results(Machine(**data["machine"]), [Row(**row) for row in data["rows"]])


def threads_of(cases: Iterable[Case]) -> list[int]:
    """The numbers of threads that there are."""
    return sorted({case.row.threads for case in cases})


def engines_of(cases: Sequence[Case]) -> list[str]:
    """The engines that there are, ours first."""
    return list(dict.fromkeys([OURS, *(name for case in cases for name in case.engines)]))


def _short(value: Any) -> Any:
    """Without what is unknown, and without digits that nobody measured."""
    if isinstance(value, dict):
        return {key: _short(part) for key, part in value.items() if part is not None}
    if isinstance(value, float) and value != int(value):
        return float(f"{value:.{DIGITS}g}")
    return value
