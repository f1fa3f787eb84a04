"""The guard of compile time and memory: what it measures and what it reports."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import compile_time
from benchmarks.compile_time import MB, Cost, Limit, exceeded


def test_limits_are_told_by_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_time, "LIMITS", {"small": Limit(10, 2, 100 * MB)})
    fine = Cost("small", int(50 * MB), seconds=0.5, peak=190 * MB)
    large = Cost("small", int(50 * MB), seconds=0.7, peak=250 * MB)
    other = Cost("other", 1, seconds=100, peak=1e12)
    assert exceeded([fine, other], 0.06) == []
    assert exceeded([large], 0.06) == [
        "small: 11.7 yardsticks, allowed 10; 250 MB of memory, allowed 200"
    ]


def test_models_without_a_limit_guard_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "unknown.onnx"
    path.write_bytes(b"")
    monkeypatch.setattr(compile_time, "measure", lambda path, _: Cost(path.stem, 0, 1.0, 1.0))
    result = CliRunner().invoke(compile_time.main, [str(path), "--check"])
    assert result.exit_code == 1
    assert "nothing was guarded" in result.output
