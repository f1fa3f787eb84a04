from __future__ import annotations

import sys

import pytest

from afterglow.report.bench.process import EngineError, EngineProcess, MissingError


def task(**others):
    names = {"model": "missing.onnx", "threads": 1, "inputs": [], "outputs": [], "shapes": {}}
    return {"do": "build", "kinds": {}, **names, **others}


def answer(engine, tmp_path, python=sys.executable):
    asked = task(engine=engine, folder=str(tmp_path))
    with EngineProcess(python, asked, tmp_path / "log.txt") as process:
        return process.read(60)


def test_an_engine_that_makes_nothing_ahead_of_time(tmp_path):
    assert answer("onnxruntime", tmp_path) == {"compile_seconds": None}


def test_an_engine_that_is_not_installed(tmp_path):
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    with pytest.raises((MissingError, EngineError), match=r"numpy|No module"):
        answer("openvino", tmp_path, str(script))


def test_what_an_engine_says_when_it_fails(tmp_path):
    with pytest.raises(EngineError, match="cannot read the model"):
        answer("afterglow", tmp_path)


def test_a_process_that_ends(tmp_path):
    with pytest.raises(EngineError, match="the process ended"):
        answer("onnxruntime", tmp_path, "/bin/true")
