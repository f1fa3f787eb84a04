"""Campaigns hand out seeds, count, and keep a file of each finding."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from fuzzing.campaign import Extent, Seeds, run_kind, shrink
from fuzzing.findings import Findings
from fuzzing.kind import Setup
from fuzzing.outcome import Outcome, Verdict
from tests.fuzzing.silly import Silly


def test_findings_are_counted_and_stored_once(tmp_path: Path) -> None:
    findings = Findings(tmp_path / "found")
    told = []
    tally = run_kind(
        Silly, Setup(tmp_path), Extent(0, None, 14), 1, findings, lambda t, n: told.append(n)
    )
    assert tally.count == 14
    counts = {verdict.value: tally.verdicts[verdict] for verdict in Verdict}
    assert counts == {"passed": 4, "refused": 4, "skipped": 2, "finding": 4}
    titles = {finding.title: finding.times for finding in findings.found.values()}
    assert titles == {
        f"{Silly.name}: mismatch numbers": 2,
        f"{Silly.name}: KeyError in tests/fuzzing/silly.py:check": 2,
    }
    assert [finding.path.read_bytes() for finding in findings.found.values()] == [
        b"differ",
        b"raise",
    ]
    assert told[-1] == 2


def test_a_smaller_example_that_shows_the_same_is_kept(tmp_path: Path) -> None:
    findings = Findings(tmp_path)
    outcome = Outcome(Verdict.FINDING, "KeyError in tests/fuzzing/silly.py:check")
    finding = findings.add(Silly.name, Silly.suffix, 0, outcome, b"raise and more")
    shrink(finding, Setup(tmp_path))
    assert finding.path.read_bytes() == b"raise"


def test_neighbouring_seeds_go_to_one_worker() -> None:
    seeds = Seeds(Extent(3, None, 9), 4)
    given = [(worker, seeds.next_for(worker)) for worker in "ab" * 6]
    assert sorted(seed for _, seed in given if seed is not None) == list(range(3, 12))
    blocks = {worker: [s for w, s in given if w == worker and s is not None] for worker in "ab"}
    assert all(b - a == 1 or b % 4 == 0 for own in blocks.values() for a, b in pairwise(own))


def test_a_block_that_shows_the_same_again_is_left() -> None:
    seeds = Seeds(Extent(0, None, 12), 4)
    assert [seeds.next_for("a") for _ in range(2)] == [0, 1]
    seeds.leave_block("a")
    assert seeds.next_for("a") == 4


def test_time_ends_a_campaign() -> None:
    assert Seeds(Extent(0, -1.0, None), 1).next_for("a") is None
