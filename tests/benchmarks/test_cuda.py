"""The tables of the benchmark on a GPU, from rows that were not measured here."""

from __future__ import annotations

from types import SimpleNamespace

import benchmarks.cuda.page as cuda_page
from benchmarks.cuda.__main__ import table

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
    monkeypatch.setattr(cuda_page, "devices", lambda: [gpu])
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    lines = cuda_page.page(report, [])
    assert lines[2].startswith("GPU, driver for CUDA 13.0, ")
    assert "Conformance kit: 2 of 3 right, 2 left out; wrong: bad." in lines
