from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import guard
from benchmarks.guard import stored_ratios, verdicts
from tests.benchmarks.stored import engine, results, row

NET = Path("some/net.onnx")


class Clock:
    """Gives ratios that were thought of beforehand, and remembers what it was asked."""

    def __init__(self, *ratios):
        self.ratios = list(ratios)
        self.asked = []

    def __call__(self, path, threads, longer):
        self.asked.append((path.stem, threads, longer))
        return self.ratios.pop(0)


def judged(clock, stored=0.8, tolerance=0.1):
    found = verdicts([NET], {("net", 1): stored, ("other", 1): 0.1}, clock, tolerance)
    return [verdict.slower for verdict in found]


def test_as_fast_as_before():
    clock = Clock(0.87)
    assert judged(clock) == [False]
    assert clock.asked == [("net", 1, 1.0)]


def test_slower_is_measured_twice():
    clock = Clock(0.95, 0.96)
    assert judged(clock) == [True]
    assert clock.asked == [("net", 1, 1.0), ("net", 1, guard.LONGER)]


def test_one_bad_measurement_is_no_verdict():
    assert judged(Clock(1.4, 0.82)) == [False]


def test_a_model_that_does_not_run_is_slower():
    assert judged(Clock(float("inf"), float("inf"))) == [True]


def test_the_stored_ratio_is_that_to_the_engines_asked_for():
    stored = results(
        row("net", afterglow=0.01, mnn=0.02, openvino=0.04),
        row("net", afterglow=0.01, ncnn=0.01),
        row("net", threads=2, afterglow=0.01, mnn=engine(None, problem="x")),
        row("net", batch=4, afterglow=0.01, mnn=0.001),
    )
    assert stored_ratios(stored, ("mnn", "openvino")) == {("net", 1): 0.5}
    assert stored_ratios(stored, ("ncnn",)) == {("net", 1): 1.0}


def run(tmp_path, monkeypatch, ratio, *words):
    file = tmp_path / "results.json"
    results(row("net", afterglow=0.01, onnxruntime=0.02)).save(file)
    model = tmp_path / "net.onnx"
    model.touch()
    answer = row("net", afterglow=0.01 * ratio, onnxruntime=0.01)
    monkeypatch.setattr(guard, "measured", lambda task, python, folder: answer)
    return CliRunner().invoke(guard.main, [str(model), "--results", str(file), *words])


@pytest.mark.parametrize(("ratio", "status"), [(0.5, 0), (0.54, 0), (0.6, 1)])
def test_the_exit_status(tmp_path, monkeypatch, ratio, status):
    done = run(tmp_path, monkeypatch, ratio)
    assert done.exit_code == status, done.output
    word = "slower" if status else "as before"
    assert (
        f"net                      1 threads:   {ratio:.2f}, stored   0.50: {word}" in done.output
    )


def test_guarding_nothing_is_an_error(tmp_path, monkeypatch):
    done = run(tmp_path, monkeypatch, 0.5, "--vs", "mnn")
    assert done.exit_code == 1
    assert "has a ratio of none of these models" in done.output
