from __future__ import annotations

import numpy as np
import onnx
import pytest

from afterglow.report.compare import onnx_runtime
from tests.cli import models
from tests.report.compare.planted import WEIGHTS, network


@pytest.fixture
def paths(tmp_path):
    """A model, and another one with a changed weight."""
    onnx.save(network(), tmp_path / "model.onnx")
    onnx.save(network(w2=WEIGHTS["w2"] * 2), tmp_path / "other.onnx")
    return str(tmp_path / "model.onnx"), str(tmp_path / "other.onnx")


def test_a_model_that_agrees_exits_with_0(command, paths):
    finished = command("compare", paths[0])
    assert finished.status == 0, finished.err
    last = finished.out.splitlines()[-1]
    assert last.startswith("10 tensors: all agree with onnxruntime, tolerance 0.0001 relative")
    assert "softmax" in finished.out.lower()


def test_the_first_tensor_that_differs_is_named(command, paths, tmp_path):
    small = tmp_path / "small.onnx"
    words = ("compare", paths[0], "--ref", paths[1], "--bisect-passes", "--reduce", str(small))
    finished = command(*words)
    assert finished.status == 1
    lines = finished.out.splitlines()
    assert "first difference: tensor 'mixed' of node 'second' (MatMul)" in lines
    assert "reduced to 1 node in 1 trials: second (MatMul)" in lines
    shown = next(line for line in lines if "shows it" in line)
    again = command(*shown.split("afterglow ")[1].split())
    assert again.status == 1
    assert command(*words).status == 1  # its own files are replaced


def test_the_result_as_json(command, paths):
    finished = command("compare", paths[0], "--ref", paths[1], "--json")
    assert finished.status == 1
    found = finished.json
    assert found["agrees"] is False
    assert found["first_difference"]["node"] == "second"
    assert found["first_difference"]["differs_alone"] is True
    assert [tensor["name"] for tensor in found["tensors"]][-1] == "y"
    assert {"max_absolute", "max_relative", "max_ulps", "relative_l2"} <= found["tensors"][0].keys()


def test_only_rows_that_matter_are_shown_of_many(command, tmp_path):
    nodes = [
        onnx.helper.make_node("Abs", [f"t{i}" if i else "x"], [f"t{i + 1}" if i < 39 else "y"])
        for i in range(40)
    ]
    shape = ("x", models.FLOAT, (2,)), ("y", models.FLOAT, (2,))
    path = models.save(tmp_path / "long.onnx", nodes, shape[:1], shape[1:])
    assert "28 more tensors: --all shows them" in command("compare", path).out
    assert len(command("compare", path, "--all").out.splitlines()) == 44


def test_a_script_judges(command, paths, tmp_path):
    script = tmp_path / "judge.py"
    script.write_text("def check(actual, expected):\n    return actual.shape == expected.shape\n")
    finished = command("compare", paths[0], "--ref", paths[1], "--check", str(script))
    assert finished.status == 0
    assert "check of judge.py" in finished.out
    script.write_text("def chek(actual, expected):\n    return True\n")
    command.fails(
        2,
        f"""
        error: {script} defines no function check
          help: write def check(actual, expected): return True if they agree
        """,
        *("compare", paths[0], "--check", str(script)),
    )
    script.write_text("1 / 0\n")
    command.fails(
        2,
        f"""
        error: {script} cannot be run: ZeroDivisionError: division by zero
          in {script}, line 1
        """,
        *("compare", paths[0], "--check", str(script)),
    )


def test_a_compiled_model_is_compared_by_its_outputs(command, paths, tmp_path):
    compiled = str(tmp_path / "model.agc")
    assert command("compile", paths[0], "-o", compiled).status == 0
    assert command("compare", paths[0], "--ref", compiled).status == 0
    assert command("compare", compiled, "--ref", paths[1]).status == 1
    command.fails(
        2,
        """
        error: model.agc is compiled: onnxruntime cannot run it
          help: give the original model, or an .npz file or another model as the reference
        """,
        *("compare", compiled),
    )


def test_without_onnxruntime_the_package_is_named(command, paths, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(onnx_runtime, "import_module", missing)
    command.fails(
        2,
        """
        error: onnxruntime is not installed
          help: pip install onnxruntime, or leave the comparison with it out
        """,
        *("compare", paths[0]),
    )


def test_files_that_are_not_ours_are_not_replaced(command, paths, tmp_path):
    (tmp_path / "small.npz").write_bytes(b"mine")
    finished = command("compare", *paths[:1], "--reduce", str(tmp_path / "small.onnx"))
    assert finished.status == 2
    assert "small.npz already exists" in finished.err


def test_inputs_come_from_the_dump(command, paths, tmp_path):
    x = np.ones((4, 8), np.float32)
    np.savez(tmp_path / "dump.npz", x=x, product=x @ WEIGHTS["w1"])
    finished = command("compare", paths[0], "--ref", str(tmp_path / "dump.npz"), "--json")
    assert finished.status == 0
    assert [tensor["name"] for tensor in finished.json["tensors"]] == ["product"]


def test_the_error_of_a_precision_is_shown_worst_first(command, paths):
    words = ("--precision", "bfloat16", "--ref", "float32", "--worst")
    finished = command("compare", paths[0], *words)
    assert finished.status == 0, finished.err
    assert "all agree with float32, tolerance 0.02 relative L2" in finished.out.splitlines()[-1]
