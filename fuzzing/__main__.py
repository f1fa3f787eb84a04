"""Fuzz Afterglow: `python -m fuzzing --seconds 600 --kinds models,mutants --jobs 2`.

Exit status 1 if there were findings; each is a file, which `--replay` checks again.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from fuzzing.campaign import Extent, Tally, checked, run_kind, shrink
from fuzzing.findings import REGRESSIONS, Findings
from fuzzing.kind import Setup
from fuzzing.kinds import PLACES, load_kind
from fuzzing.outcome import Verdict
from fuzzing.process import WorkerProcess

CONSOLE = Console()


def _existing() -> click.Path:
    return click.Path(exists=True, path_type=Path)


@click.command(help=__doc__)
@click.option("--seconds", type=float, help="How long to go on, all kinds together.")
@click.option("--count", type=int, help="Examples of each kind.")
@click.option("--kinds", default=",".join(PLACES), show_default=True, help="What to fuzz.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default=True, help="Processes.")
@click.option("--seed", type=int, help="The first seed; by default another each time.")
@click.option("--corpus", type=_existing(), help="A folder of `python -m fuzzing.generate`.")
@click.option("--findings", type=click.Path(path_type=Path), default=REGRESSIONS)
@click.option("--scratch", type=click.Path(path_type=Path), help="A folder for scratch files.")
@click.option("--replay", type=_existing(), multiple=True, help="Check the example in a file.")
def main(
    seconds: float | None,
    count: int | None,
    kinds: str,
    jobs: int,
    seed: int | None,
    corpus: Path | None,
    findings: Path,
    scratch: Path | None,
    replay: tuple[Path, ...],
) -> None:
    """Run a campaign, or check examples again."""
    own = Path(tempfile.mkdtemp(prefix="afterglow-fuzz-", dir=scratch))
    setup = Setup(own, corpus and corpus.resolve())
    try:
        if replay:
            sys.exit(_replay(replay, setup))
        extent = Extent(_first_seed(seed), seconds, count)
        sys.exit(_campaign(kinds.split(","), setup, extent, jobs, Findings(findings)))
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _first_seed(seed: int | None) -> int:
    return random.SystemRandom().randrange(1 << 31) if seed is None else seed


def _campaign(names: list[str], setup: Setup, extent: Extent, jobs: int, findings: Findings) -> int:
    unknown = [name for name in names if name not in PLACES]
    if unknown:
        raise click.UsageError(f"there is no kind {unknown[0]!r}: there are {', '.join(PLACES)}")
    if extent.seconds is None and extent.count is None:
        raise click.UsageError("say how long: --seconds or --count")
    share = None if extent.seconds is None else extent.seconds / len(names)
    tallies = []
    for name in names:
        kind = load_kind(name)
        CONSOLE.print(f"{name}: {kind.about}; from seed {extent.seed}")
        each = Extent(extent.seed, share, extent.count)
        tallies.append(run_kind(kind, setup, each, jobs, findings, Progress()))
        if tallies[-1].interrupted:
            break
    for finding in findings.found.values():
        shrink(finding, setup)
    _summary(tallies, findings)
    return 1 if findings.found else 0


class Progress:
    """Prints a line now and then."""

    def __init__(self, every: float = 10.0) -> None:
        self.every = every
        self.last = time.monotonic()

    def __call__(self, tally: Tally, findings: int) -> None:
        """Tell how far a kind is, if that was not told just now."""
        if time.monotonic() - self.last < self.every:
            return
        self.last = time.monotonic()
        CONSOLE.print(
            f"  {tally.kind}: {tally.count:,} in {tally.seconds:.0f} s"
            f" ({tally.rate:.1f}/s), findings: {findings}",
            highlight=False,
        )


def _summary(tallies: list[Tally], findings: Findings) -> None:
    table = Table("kind", "examples", "passed", "refused", "skipped", "per second", "findings")
    for tally in tallies:
        verdicts = [tally.verdicts[v] for v in (Verdict.PASSED, Verdict.REFUSED, Verdict.SKIPPED)]
        numbers = [f"{number:,}" for number in (tally.count, *verdicts)]
        table.add_row(tally.kind, *numbers, f"{tally.rate:.1f}", str(len(findings.of(tally.kind))))
    CONSOLE.print(table)
    for finding in findings.found.values():
        CONSOLE.print(f"{finding.title} ({finding.times} times)", markup=False, highlight=False)
        CONSOLE.print(f"  {finding.path}", markup=False, highlight=False, soft_wrap=True)


def _replay(paths: tuple[Path, ...], setup: Setup) -> int:
    bad = 0
    for path in paths:
        worker = WorkerProcess(path.resolve().parent.name, setup)
        outcome = checked(worker, path.resolve())
        worker.close()
        bad += outcome.verdict is Verdict.FINDING
        CONSOLE.print(f"{path}: {outcome.verdict.value}", highlight=False, soft_wrap=True)
        CONSOLE.print(outcome.text, markup=False, highlight=False, soft_wrap=True)
    return 1 if bad else 0


if __name__ == "__main__":
    main()
