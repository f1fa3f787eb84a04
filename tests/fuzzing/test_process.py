"""Workers survive everything that an example can do, and tell what it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fuzzing.campaign import checked
from fuzzing.kind import Setup
from fuzzing.limits import Patience
from fuzzing.outcome import Verdict
from fuzzing.process import WorkerProcess
from fuzzing.program import ProgramExample
from tests.fuzzing.silly import WORDS, Silly

EXPECTED = {
    "pass": (Verdict.PASSED, ""),
    "refuse": (Verdict.REFUSED, ""),
    "fault": (Verdict.FINDING, "internal VerifyError in tests/fuzzing/silly.py:check"),
    "skip": (Verdict.SKIPPED, ""),
    "differ": (Verdict.FINDING, "mismatch numbers"),
    "raise": (Verdict.FINDING, "KeyError in tests/fuzzing/silly.py:check"),
    "crash": (Verdict.FINDING, "SIGSEGV in tests/fuzzing/silly.py:check"),
    "exit": (Verdict.FINDING, "exit status 7 outside"),
    "sleep": (Verdict.FINDING, "hang in tests/fuzzing/silly.py:check"),
    "grow": (Verdict.FINDING, "MemoryError in tests/fuzzing/silly.py:check"),
}


@pytest.fixture
def worker(tmp_path: Path):
    worker = WorkerProcess(Silly.name, Setup(tmp_path), Patience(1.0, 3.0))
    yield worker
    worker.close()


def test_each_end_is_told_apart(worker: WorkerProcess, tmp_path: Path) -> None:
    found = {}
    for word in WORDS:
        path = tmp_path / word
        path.write_text(word)
        outcome = checked(worker, path)
        found[word] = outcome.verdict, outcome.signature
    assert found == EXPECTED


def test_an_example_that_cannot_be_made_is_skipped(worker: WorkerProcess) -> None:
    worker.ask("seed -1")
    outcome = None
    while outcome is None:
        outcome = worker.answer()
    assert (outcome.verdict, outcome.text) == (
        Verdict.SKIPPED,
        "not made: ValueError('no example')",
    )


def test_a_program_in_a_file_is_checked_by_a_fresh_worker(tmp_path: Path) -> None:
    text = 'func @main(%x: f32[2]) {\n  %y = relu(%x) : f32[2]\n  return %y as "y"\n}\n'
    path = tmp_path / "program.npz"
    path.write_bytes(ProgramExample(text, inputs={"x": np.ones(2, np.float32)}).packed())
    worker = WorkerProcess("hostile", Setup(tmp_path))
    outcome = checked(worker, path)
    worker.close()
    assert outcome.verdict is Verdict.PASSED, outcome.text
