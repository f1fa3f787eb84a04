from __future__ import annotations

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
