from __future__ import annotations

import json

import onnx
import pytest
from onnx.helper import make_graph, make_model, make_node, make_tensor_value_info

from tests.cli.test_explain import DIGITS


def test_the_slowest_come_first(command):
    data = command("profile", str(DIGITS), "--repeat", "2", "--json").json
    seconds = [step["seconds"] for step in data["steps"]]
    assert seconds == sorted(seconds, reverse=True)
    assert data["seconds"] == pytest.approx(sum(seconds))
    assert sum(step["share"] for step in data["steps"]) == pytest.approx(1)
    assert all(step["gflops"] > 0 for step in data["steps"] if "conv" in step["kernel"])


def test_the_same_as_a_table(command):
    finished = command("profile", str(DIGITS), "--repeat", "2", "--top", "3")
    assert finished.status == 0
    assert "GFLOP/s" in finished.out
    assert "faster ones are not shown" in finished.out


def test_only_machine_code_is_profiled(command):
    command.fails(
        2,
        """
        error: backend 'interpreter' has no profiler
          help: leave --backend out
        """,
        *("profile", str(DIGITS), "--backend", "interpreter"),
    )


def test_a_model_that_counts_its_runs_is_profiled(command, tmp_path):
    drawn = make_node("RandomUniform", [], ["drawn"], shape=[4])
    output = make_tensor_value_info("drawn", 1, [4])
    opsets = [onnx.helper.make_opsetid("", 17)]
    model = make_model(make_graph([drawn], "g", [], [output]), opset_imports=opsets)
    onnx.save(model, tmp_path / "drawn.onnx")
    assert command("profile", str(tmp_path / "drawn.onnx"), "--repeat", "2").status == 0


def test_the_sum_and_the_run_are_compared(command):
    data = command("profile", str(DIGITS), "--repeat", "2", "--json").json
    assert data["between_seconds"] == pytest.approx(data["run_seconds"] - data["seconds"])
    shown = command("profile", str(DIGITS), "--repeat", "2").out.splitlines()
    assert "of it is in kernels" in shown[-1]


def test_time_by_the_nodes_of_the_model(command):
    data = command("profile", str(DIGITS), "--repeat", "2", "--by", "node", "--json").json
    groups = {tuple(each["nodes"]): each for each in data["nodes"]}
    assert ("conv1", "norm1", "relu1") in groups
    assert ("conv1",) not in groups  # its padding counts for the fused kernel
    assert sum(each["seconds"] for each in data["nodes"]) == pytest.approx(data["seconds"])
    assert "conv1 + norm1 + relu1" in command("profile", str(DIGITS), "--by", "node").out


def test_a_trace_has_a_row_for_each_thread(command, tmp_path):
    path = tmp_path / "trace.json"
    command("profile", str(DIGITS), "--repeat", "2", "--threads", "2", "--trace", str(path))
    events = json.loads(path.read_text())["traceEvents"]
    rows = {each["args"]["name"] for each in events if each["name"] == "thread_name"}
    assert "thread 0" in rows
    spans = [each for each in events if each["ph"] == "X" and each["cat"] == "kernel"]
    names = {node.name for node in onnx.load(DIGITS).graph.node}
    for span in spans:
        assert {"pid", "tid", "ts", "dur"} <= {*span}
        assert span["ts"] >= 0
        assert span["dur"] >= 0
        assert {*span["args"]["nodes"]} <= names
        assert span["args"]["kernel"]
    assert any(span["args"]["plan"] for span in spans)


def test_a_compiled_model_has_no_trace_of_threads(command, tmp_path):
    compiled = tmp_path / "digits.agc"
    command("compile", str(DIGITS), "-o", str(compiled))
    finished = command("profile", str(compiled), "--trace", str(tmp_path / "t.json"))
    assert finished.status == 2
    assert "--trace has no effect" in finished.err
