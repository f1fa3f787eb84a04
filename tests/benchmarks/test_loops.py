"""The loops that the benchmark times are right."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("torch")

from benchmarks import loops
from benchmarks.loop_cases import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_loops_agree_with_onnx_runtime(case: Case) -> None:
    row = loops.measure(case, seconds=0)
    assert row.agrees
    assert str(row).startswith(case.name)


def test_results_that_differ_are_seen() -> None:
    one, other = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    assert loops.is_same([one], [one + 1e-6])
    assert not loops.is_same([one], [one + 1])
    assert not loops.is_same([one], [other])


def test_the_table_ends_with_the_mean() -> None:
    finished = CliRunner().invoke(loops.main, ["nested", "--seconds", "0"], catch_exceptions=False)
    first, last = finished.output.splitlines()
    assert first.startswith("nested")
    assert last.startswith("1 models: geometric mean")
