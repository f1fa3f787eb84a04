from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def test_a_benchmark_times_both_engines():
    pytest.importorskip("onnxruntime")
    words = [sys.executable, "benchmarks/run.py", "examples/digits", "--repeat", "1"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    heading, _, row = done.stdout.strip().splitlines()
    assert "interpreter" in heading
    assert "onnxruntime" in heading
    assert row.split()[0] == "digits"
