"""Examples that once were findings pass or are refused, within the limits of a campaign."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzzing.campaign import checked
from fuzzing.findings import REGRESSIONS
from fuzzing.kind import Setup
from fuzzing.kinds import PLACES
from fuzzing.outcome import Verdict
from fuzzing.process import WorkerProcess

FILES = sorted(p for p in REGRESSIONS.glob("*/*") if p.suffix != ".txt")


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory):
    started: dict[str, WorkerProcess] = {}
    setup = Setup(tmp_path_factory.mktemp("scratch"))

    def worker_for(kind: str) -> WorkerProcess:
        if kind not in started:
            started[kind] = WorkerProcess(kind, setup)
        return started[kind]

    yield worker_for
    for worker in started.values():
        worker.close()


@pytest.mark.parametrize("path", FILES, ids=[f"{p.parent.name}-{p.stem}" for p in FILES])
def test_what_was_found_once_stays_fixed(path: Path, workers) -> None:
    outcome = checked(workers(path.parent.name), path)
    assert outcome.verdict is not Verdict.FINDING, outcome.text


def test_every_folder_is_of_a_kind() -> None:
    assert {path.parent.name for path in FILES} <= set(PLACES)
