"""The tables of the benchmark on a GPU, from rows that were not measured here."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

import benchmarks.cuda.gpu as cuda_gpu
import benchmarks.cuda.page as cuda_page
import benchmarks.cuda.suite as cuda_suite
from afterglow.support.errors import UsageError
from afterglow.testing.onnx_suite import SuiteCase
from benchmarks.cuda.__main__ import table
from benchmarks.cuda.suite import LATE, RIGHT
from tests.frontends.models import info, model, node

ROWS = [
    {
        "name": "resnet50",
        "batch": 1,
        "failed": {},
        "afterglow": {"error": 1e-3},
        "inductor": {"error": 2e-3},
        "eager": {"error": 2e-3},
        "times": {
            "afterglow": [50.0, 60.0, 55.0],
            "inductor": [100.0, 110.0, 105.0],
            "eager": [200.0, 210.0, 205.0],
        },
    },
    {"name": "net", "batch": 32, "failed": {"worker": "no time"}},
]


def test_a_row_has_the_ratio_to_the_best_other_engine_and_its_span():
    _, _, first, second, *rest = table(ROWS)
    assert first == (
        "| resnet50 | 1 | afterglow 55, inductor 105, eager 205 | 0.52 | 0.50, 0.55 "
        "| 1.0e-03, inductor 2.0e-03 |"
    )
    assert "no time" in second
    assert rest == ["\nGeometric mean 0.52, the largest 0.52."]


REPORT = """<testsuites><testsuite tests="5" failures="1" errors="0" skipped="2">
<testcase name="good"/><testcase name="bad"><failure/></testcase></testsuite></testsuites>"""


def test_the_page_counts_tests_and_names_those_that_failed(tmp_path, monkeypatch):
    gpu = SimpleNamespace(name="GPU", driver="13.0")
    monkeypatch.setattr(cuda_page, "gpu", lambda: gpu)
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    lines = cuda_page.page(report, [])
    assert lines[2].startswith("GPU, driver for CUDA 13.0, ")
    assert "Conformance kit: 2 of 3 right, 2 left out; wrong: bad." in lines


def test_without_a_gpu_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise UsageError("CUDA finds no driver", help="install it")

    monkeypatch.setattr(cuda_gpu, "devices", none)
    with pytest.raises(SystemExit, match="no GPU: CUDA finds no driver\ninstall it"):
        cuda_gpu.gpu()


def test_a_case_of_the_suite_is_right_wrong_or_late(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="triton is not installed: pip install afterglow[cuda]")
    x = np.arange(3, dtype=np.float32)
    sums = model(
        [node("Add", ["x", "x"], ["y"])], inputs=[info("x", [3])], outputs=[info("y", [3])]
    )
    cases = {
        name: SuiteCase(name, sums, [([x], [y])], 1e-3, 1e-7)
        for name, y in {"good": 2 * x, "bad": 3 * x}.items()
    }
    monkeypatch.setattr(cuda_suite.onnx_suite, "load", cases.__getitem__)
    until = time.time() + 600
    assert cuda_suite.outcome("good", target="emulated", until=until) == ("good", RIGHT)
    assert cuda_suite.outcome("bad", target="emulated", until=until)[1].startswith("AssertionError")
    assert cuda_suite.outcome("good", target="emulated", until=0) == ("good", LATE)
