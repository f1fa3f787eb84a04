"""A campaign: seeds handed out to workers until time or a count is reached."""

from __future__ import annotations

import selectors
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fuzzing.findings import Finding, Findings, store
from fuzzing.kind import Kind, Setup
from fuzzing.kinds import load_kind
from fuzzing.outcome import Outcome, Verdict
from fuzzing.process import WorkerProcess

ENOUGH = 3
"""How often a finding is seen before a block of seeds that shows it is left."""
SHRINKING_SECONDS = 60.0
"""Time to look for a smaller example, for each finding."""


@dataclass
class Tally:
    """How the examples of a kind ended, and how long that took."""

    kind: str
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def count(self) -> int:
        """The examples that were made."""
        return self.verdicts.total()

    @property
    def rate(self) -> float:
        """Examples a second."""
        return self.count / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Extent:
    """Where a campaign begins and how far it goes: until seconds or a count is reached."""

    seed: int
    seconds: float | None
    count: int | None


class Seeds:
    """Hands out the seeds of a campaign: to each worker a block of neighbours at a time."""

    def __init__(self, extent: Extent, block: int) -> None:
        self.extent = extent
        self.block = block
        self.begun = time.monotonic()
        self._next = extent.seed
        self._blocks: dict[WorkerProcess, list[int]] = {}

    def next_for(self, worker: WorkerProcess) -> int | None:
        """The next seed for a worker; None if time or count is reached."""
        extent, mine = self.extent, self._blocks.setdefault(worker, [])
        if extent.seconds is not None and time.monotonic() > self.begun + extent.seconds:
            return None
        if not mine:
            end = self._next + self.block - self._next % self.block
            if extent.count is not None:
                end = min(end, extent.seed + extent.count)
            mine.extend(range(self._next, end))
            self._next = end
        return mine.pop(0) if mine else None

    def leave_block(self, worker: WorkerProcess) -> None:
        """Go on with another block: this one shows the same again and again."""
        self._blocks[worker] = []


def run_kind(
    kind: type[Kind],
    setup: Setup,
    extent: Extent,
    jobs: int,
    findings: Findings,
    progress: Callable[[Tally, int], None],
) -> Tally:
    """Check examples of one kind with several workers; an interrupt ends it early."""
    kind.prepare(setup)
    tally = Tally(kind.name)
    workers = [WorkerProcess(kind.name, setup) for _ in range(jobs)]
    seeds, labels = Seeds(extent, kind.block), kind(setup)
    try:
        for worker, seed, outcome in _outcomes(workers, seeds):
            tally.verdicts[outcome.verdict] += 1
            tally.seconds = time.monotonic() - seeds.begun
            if outcome.verdict is Verdict.FINDING:
                example = worker.current.read_bytes()
                outcome = outcome.labelled(labels.label(example))
                finding = findings.add(kind.name, kind.suffix, seed, outcome, example)
                if finding.times >= ENOUGH:
                    seeds.leave_block(worker)
            progress(tally, len(findings.of(kind.name)))
    except KeyboardInterrupt:
        tally.interrupted = True
    finally:
        for worker in workers:
            worker.close()
    return tally


def _outcomes(
    workers: list[WorkerProcess], seeds: Seeds
) -> Iterator[tuple[WorkerProcess, int, Outcome]]:
    """Hand out seeds and yield what becomes of each."""
    busy: dict[WorkerProcess, int] = {}
    for worker in workers:
        _ask(worker, seeds, busy)
    while busy:
        for worker, outcome in _finished(busy):
            yield worker, busy.pop(worker), outcome
            _ask(worker, seeds, busy)


def _ask(worker: WorkerProcess, seeds: Seeds, busy: dict[WorkerProcess, int]) -> None:
    seed = seeds.next_for(worker)
    if seed is not None:
        worker.ask(f"seed {seed}")
        busy[worker] = seed


def _finished(busy: dict[WorkerProcess, int]) -> list[tuple[WorkerProcess, Outcome]]:
    """Workers that are done, after waiting for at most a second."""
    with selectors.DefaultSelector() as selector:
        for worker in busy:
            selector.register(worker.pipe, selectors.EVENT_READ, worker)
        answered = {key.data: key.data.answer() for key, _ in selector.select(1.0)}
    late = {worker: worker.overdue() for worker in busy if worker not in answered}
    both = {**answered, **late}
    return [(worker, outcome) for worker, outcome in both.items() if outcome is not None]


def shrink(finding: Finding, setup: Setup) -> None:
    """Replace the example of a finding by the smallest one that shows the same, if time allows."""
    kind = load_kind(finding.kind)(setup)
    worker = WorkerProcess(finding.kind, setup)
    candidate = worker.folder / f"candidate{kind.suffix}"
    deadline = time.monotonic() + SHRINKING_SECONDS
    try:
        for example in kind.smaller(finding.path.read_bytes()):
            if time.monotonic() > deadline:
                return
            candidate.write_bytes(example)
            outcome = checked(worker, candidate)
            if outcome.signature == finding.outcome.signature:
                store(finding, example)
                return
    finally:
        worker.close()


def checked(worker: WorkerProcess, path: object) -> Outcome:
    """The outcome of the example in a file, in a worker."""
    worker.ask(f"file {path}")
    while True:
        for _, outcome in _finished({worker: 0}):
            return outcome
