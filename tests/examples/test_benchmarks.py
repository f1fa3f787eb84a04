from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
QUICK = ("--threads", "1", "--seconds", "0.05", "--vs", "onnxruntime")


def test_a_benchmark_times_both_engines():
    pytest.importorskip("onnxruntime")
    words = [sys.executable, "benchmarks/run.py", "examples/digits", *QUICK]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert "| model | afterglow | onnxruntime | ratio to the best |" in done.stdout
    assert len([line for line in done.stdout.splitlines() if line.startswith("| digits |")]) == 2


def test_the_picture_of_ratios(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    picture = pytest.importorskip("picture")
    text = picture.ratio_svg([("small & fast", 1, 0.5), ("small & fast", 2, 1.25)])
    drawn = [element.text for element in ET.fromstring(text).iter()]
    for wanted in ("small & fast", "0.50", "1.25", "1 thread", "2 threads"):
        assert wanted in drawn
