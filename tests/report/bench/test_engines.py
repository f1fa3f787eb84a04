from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from afterglow.report.bench import PEERS, BenchPlan, compare
from afterglow.report.bench.engine_process import serve
from afterglow.report.bench.engine_process.bound import bound_model, bound_path
from afterglow.report.bench.engine_process.engine import BenchJob, CannotConvertError, Engine
from afterglow.report.bench.engine_process.ncnn_engine import foreign_layers, ports
from afterglow.report.bench.engine_process.registry import ENGINES
from afterglow.report.bench.engine_process.tools import run, run_tool, telling
from afterglow.report.bench.engines import how_to_install
from afterglow.report.bench.process import EngineProcess, MissingError

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
FEED = {"image": np.ones((1, 1, 8, 8), np.float32)}


def is_installed(peer):
    engine = ENGINES[peer]
    try:
        return all(version(package) for package in (*engine.packages, *engine.alone))
    except PackageNotFoundError:
        return False


def plan(*peers, **others):
    python = sys.executable
    return BenchPlan(
        str(DIGITS), FEED, ("probabilities",), peers, 1, 0.01, python, python, **others
    )


def test_engines_that_are_installed_agree(tmp_path):
    found = compare(plan(*filter(is_installed, PEERS), keep=tmp_path))
    for measured in found:
        assert not measured.problem, measured.engine
        assert measured.best is not None
        assert measured.error is None or measured.error < 1e-4


@pytest.mark.parametrize("peer", [p for p in PEERS if not is_installed(p)])
def test_engines_that_are_missing_say_so(peer, tmp_path):
    task = {"do": "build", "engine": peer, "model": str(DIGITS), "threads": 1, "inputs": ["image"]}
    task |= {"outputs": ["probabilities"], "shapes": {"image": [1, 1, 8, 8]}, "kinds": {}}
    task |= {"folder": str(tmp_path)}
    process = EngineProcess(sys.executable, task, tmp_path / "log.txt")
    with process, pytest.raises(MissingError):
        process.read(60)


def test_how_to_install():
    assert how_to_install("mnn", "python") == "python -m pip install MNN"
    wanted = "python -m pip install ncnn onnx && python -m pip install --no-deps pnnx"
    assert how_to_install("ncnn", "python") == wanted


class Scribe(Engine):
    """Builds a file, and counts how often."""

    version = "1"
    builds = 0

    def build(self, job):
        Scribe.builds += 1
        (job.folder / "built").touch()
        return True


def built(job, monkeypatch, **facts):
    monkeypatch.setitem(serve.ENGINES, "scribe", type("Changed", (Scribe,), facts))
    said = []
    serve._build("scribe", job, said.append)
    return said[0]["compile_seconds"], Scribe.builds


def test_what_was_built_serves_again(tmp_path, monkeypatch):
    job = BenchJob(str(DIGITS), 1, tmp_path, ("image",), ("probabilities",))
    two = BenchJob(str(DIGITS), 2, tmp_path, ("image",), ("probabilities",))
    monkeypatch.setattr(Scribe, "builds", 0)
    seconds, builds = built(job, monkeypatch)
    assert builds == 1
    assert built(job, monkeypatch) == (seconds, 1)
    assert built(two, monkeypatch) == (seconds, 1)
    assert built(two, monkeypatch, build_knows_threads=True)[1] == 2
    assert built(two, monkeypatch, version="2")[1] == 3
    assert built(two, monkeypatch, version="2", build_lasts=False)[1] == 4


def test_what_cannot_be_converted_is_said_in_one_line(monkeypatch):
    def fail(*words):
        raise CannotConvertError("no layer\n  for Loop")

    said = []
    monkeypatch.setattr(serve, "_private_output", lambda: said.append)
    monkeypatch.setattr(serve, "end_with_parent", lambda: None)
    monkeypatch.setattr(serve, "_build", fail)
    monkeypatch.setattr(serve.os, "_exit", lambda status: None)
    task = {"do": "build", "engine": "x", "model": "m", "threads": 1, "folder": "f"}
    task |= {"inputs": [], "outputs": [], "shapes": {}, "kinds": {}}
    monkeypatch.setattr(serve.json, "loads", lambda text: task)
    monkeypatch.setattr(serve.sys, "stdin", type("In", (), {"readline": lambda self: ""})())
    serve.main()
    assert said == [{"error": "cannot convert: no layer for Loop"}]


def test_the_line_of_a_log_that_tells():
    assert telling("begin\nm.mlir:3: error: no op\nfailed in all") == "m.mlir:3: error: no op"
    assert telling("begin\nthe end") == "the end"
    assert telling(" \n") == "no output"


def test_commands_that_fail_or_are_missing(tmp_path):
    with pytest.raises(CannotConvertError, match="ValueError: no"):
        run(sys.executable, "-c", "raise ValueError('no')", folder=tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no command nowhere"):
        run_tool("nowhere", folder=tmp_path)


NCNN_SCRIPT = """
    ex.input("in0", ncnn.Mat(in0.numpy(), batch_index=0).clone())
    _, out0 = ex.extract("out0")
    out.append(torch.from_numpy(out0.numpy(batch_index=0)))
    _, out1 = ex.extract("out1")
    out.append(torch.from_numpy(out1.numpy(batch_index=233)))
"""


def test_what_pnnx_calls_inputs_and_outputs():
    assert ports(NCNN_SCRIPT) == ([("in0", 0)], [("out0", 0), ("out1", 233)])
    with pytest.raises(CannotConvertError, match="does not name"):
        ports("nothing")


def test_layers_that_ncnn_does_not_have():
    lines = ["Input in0 0 1 in0", "pnnx.Expression e 1 1 a b", "aten::where w 1 1 b c"]
    assert foreign_layers("\n".join(lines)) == ["aten::where", "pnnx.Expression"]
    assert foreign_layers(lines[0]) == []


def free_model(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph), tmp_path / "free.onnx")
    shapes, kinds = {"x": (5, 3)}, {"x": "float32"}
    return BenchJob(str(tmp_path / "free.onnx"), 1, tmp_path, ("x",), ("y",), shapes, kinds)


def test_free_dimensions_are_bound_for_those_who_need_it(tmp_path):
    job = free_model(tmp_path)
    for model in (bound_model(job), onnx.load(bound_path(job))):
        assert [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == [5, 3]
    assert job.zeros()["x"].shape == (5, 3)
    whole = BenchJob(str(DIGITS), 1, tmp_path, ("image",), ("probabilities",))
    assert bound_path(whole) == str(DIGITS)


def test_answers_are_json(tmp_path, monkeypatch):
    job = BenchJob(str(DIGITS), 1, tmp_path, ("image",), ("probabilities",))
    built(job, monkeypatch)
    assert set(json.loads((tmp_path / serve.BUILT).read_text())) == {"key", "answer"}
