from __future__ import annotations

from afterglow.report.bench import Measurement


def test_nothing_measured():
    measured = Measurement("mnn", 1, problem="MNN is not installed")
    data = measured.data(flops=1e6)
    assert data["problem"] == "MNN is not installed"
    assert data["calls"] == 0
    for name in ("min_seconds", "p50_seconds", "gflops", "peak_bytes", "relative_error"):
        assert data[name] is None
    assert measured.start_seconds is None


def test_the_spread_of_times():
    measured = Measurement("mnn", 1, times=[0.004, 0.001, 0.002, 0.003, 0.005])
    data = measured.data(flops=2e6)
    assert data["min_seconds"] == 0.001
    assert data["p50_seconds"] == 0.003
    assert data["p99_seconds"] <= 0.005
    assert data["gflops"] == 2.0


def test_the_start_is_import_load_and_first_call():
    measured = Measurement("x", 1, import_seconds=1.0, load_seconds=0.5, first_seconds=0.25)
    assert measured.start_seconds == 1.75
