from __future__ import annotations

import json

import numpy as np
import pytest

from afterglow.cli import run
from afterglow.cli.arrays import write_arrays
from afterglow.report.agreement import relative_error
from afterglow.report.compare import onnx_runtime, sides
from tests.cli import models

X = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)
Y = np.maximum(X @ (np.arange(12, dtype=np.float32).reshape(3, 4) - 5), 0)


@pytest.fixture
def x_file(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, X)
    return str(path)


def test_outputs_are_shown(command, tmp_path, x_file):
    finished = command("run", models.linear(tmp_path), "--input", f"x={x_file}")
    assert finished.status == 0
    heading, _, row, _, times = finished.out.splitlines()
    assert heading.split() == ["output", "type", "min", "max", "mean", "first", "values"]
    assert row.split() == ["y", "f32[2,", "4]", "2", "20", "9.5", "2", "8", "14", "20", "…"]
    assert times.startswith("compiled in ")


def test_outputs_as_json(command, tmp_path, x_file):
    finished = command("run", models.linear(tmp_path), "--input", f"x={x_file}", "--json")
    assert finished.json["outputs"] == [
        {
            "name": "y",
            "type": "f32[2, 4]",
            "min": 2.0,
            "max": 20.0,
            "mean": 9.5,
            "first": [2.0, 8.0, 14.0, 20.0],
        }
    ]
    assert finished.json["run_seconds"] > 0
    assert finished.json["compile_seconds"] > 0


@pytest.mark.parametrize("backend", ["interpreter", "primitives"])
@pytest.mark.parametrize("more", [(), ("--no-optimize",), ("--verify-each",)])
def test_outputs_are_written(command, tmp_path, x_file, backend, more):
    folder = tmp_path / "new" / "folder"
    words = ("run", models.linear(tmp_path), "--input", f"x={x_file}", "--backend", backend)
    assert command(*words, "--output-dir", str(folder), *more).status == 0
    np.testing.assert_allclose(np.load(folder / "y.npy"), Y)


@pytest.mark.parametrize("more", [(), ("--compare", "onnxruntime")])
def test_a_sequence_is_shown_tensor_by_tensor(command, tmp_path, x_file, more):
    finished = command("run", models.parts(tmp_path), "--input", f"x={x_file}", "--json", *more)
    assert finished.status == 0
    shown = [(output["name"], output["type"]) for output in finished.json["outputs"]]
    assert shown == [(f"y[{index}]", "f32[2, 1]") for index in range(3)]


def test_maps_are_shown_as_rows():
    rows = [{"a": 0.25, "b": 0.75}, {"a": 1.0, "b": 0.0}]
    ((name, array),) = sides.tensors_of("y", rows)
    assert name == "y"
    np.testing.assert_array_equal(array, [[0.25, 0.75], [1, 0]])


def test_inputs_of_one_archive(command, tmp_path):
    np.savez(tmp_path / "inputs.npz", a=X, b=X)
    words = ("run", models.batched(tmp_path), "--input", str(tmp_path / "inputs.npz"))
    assert command(*words, "--output-dir", str(tmp_path)).status == 0
    np.testing.assert_array_equal(np.load(tmp_path / "total.npy"), 2 * X)


def test_a_file_binds_the_dimensions_of_random_inputs(command, tmp_path, x_file):
    finished = command("run", models.batched(tmp_path), "--input", f"a={x_file}", "--json")
    assert finished.json["outputs"][0]["type"] == "f32[2, 3]"


def test_random_inputs_follow_the_seed(command, tmp_path):
    def first(*words):
        return command("run", path, "--json", *words).json["outputs"][0]["first"]

    path = models.linear(tmp_path)
    assert first("--seed", "1") == first("--seed", "1", "--input", "x=random")
    assert first("--seed", "1") != first("--seed", "2")


def test_random_integers_are_small(command, tmp_path):
    finished = command("run", models.lookup(tmp_path), "--json")
    assert finished.status == 0
    assert 0 <= finished.json["outputs"][0]["max"] < 8


def test_values_that_decide_shapes_come_from_the_input(command, tmp_path):
    np.save(tmp_path / "shape.npy", np.array([2, 3]))
    words = ("run", models.shaped(tmp_path), "--json")
    for option in ("--input", "--value"):
        finished = command(*words, option, f"shape={tmp_path / 'shape.npy'}")
        assert finished.json["outputs"][0]["type"] == "f32[2, 3]"


def test_dimensions_that_stay_free(command, tmp_path):
    command.fails(
        2,
        """
        error: input 'a: f32[batch, 3]' has dynamic dimensions
          help: bind them, for example --dim batch=1 or --shapes a:1x3
        """,
        "run",
        models.batched(tmp_path),
    )


def test_an_input_of_another_element_type(command, tmp_path):
    np.save(tmp_path / "x.npy", X.astype(np.float64))
    command.fails(
        2,
        """
        error: input 'x' has element type float32, but the file has float64
          help: convert it: numpy.save(file, array.astype('float32'))
        """,
        *("run", models.linear(tmp_path), "--input", f"x={tmp_path / 'x.npy'}"),
    )


def test_an_input_of_another_shape(command, tmp_path):
    np.save(tmp_path / "x.npy", X[:, :2])
    command.fails(
        2,
        "error: input 'x': f32[2, 3] cannot have the shape (2, 2)",
        *("run", models.linear(tmp_path), "--input", f"x={tmp_path / 'x.npy'}"),
    )


@pytest.mark.parametrize("file", ["random", "x.npy"])
def test_an_input_that_the_model_does_not_have(command, tmp_path, x_file, file):
    given = x_file if file == "x.npy" else file
    command.fails(
        2,
        """
        error: the model has no input 'z'
          help: it has x
        """,
        *("run", models.linear(tmp_path), "--input", f"z={given}"),
    )


def test_an_input_file_that_is_not_there(command, tmp_path):
    command.fails(
        2,
        "error: cannot read absent.npy: no such file or directory",
        *("run", models.linear(tmp_path), "--input", "x=absent.npy"),
    )


def test_an_input_file_that_holds_no_array(command, tmp_path):
    path = tmp_path / "x.npy"
    path.write_text("numbers")
    command.fails(
        2,
        f"""
        error: cannot read {path}: not a NumPy file
          help: numpy.save and numpy.savez write them
        """,
        *("run", models.linear(tmp_path), "--input", f"x={path}"),
    )


def test_an_array_without_a_name(command, tmp_path, x_file):
    command.fails(
        2,
        f"""
        error: {x_file} holds one array without a name
          help: write --input NAME={x_file}
        """,
        *("run", models.linear(tmp_path), "--input", x_file),
    )


def test_outputs_agree_with_onnxruntime(command, tmp_path):
    pytest.importorskip("onnxruntime")
    path = models.linear(tmp_path)
    finished = command("run", path, "--compare", "onnxruntime")
    assert finished.status == 0
    assert finished.out.splitlines()[-1] == "agrees with onnxruntime, tolerance 0.0001"
    assert command("run", path, "--compare", "onnxruntime", "--json").json["agrees"]


def test_outputs_that_differ_are_a_no(command, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "onnxruntime_outputs", lambda path, feed: [Y + 1])
    path = models.linear(tmp_path)
    finished = command("run", path, "--compare", "onnxruntime")
    assert finished.status == 1
    assert finished.out.splitlines()[-1] == "differs from onnxruntime, tolerance 0.0001"
    assert not command("run", path, "--compare", "onnxruntime", "--json").json["agrees"]


def test_without_onnxruntime_there_is_nothing_to_compare_with(command, tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(onnx_runtime, "import_module", missing)
    command.fails(
        2,
        """
        error: onnxruntime is not installed
          help: pip install onnxruntime, or leave the comparison with it out
        """,
        *("run", models.linear(tmp_path), "--compare", "onnxruntime"),
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.2),
        ([np.nan, 1.0], [np.nan, 1.0], 0.0),
        ([np.inf, 1.0], [np.inf, 2.0], 0.5),
        ([np.nan], [1.0], np.inf),
        ([0.25], [0.0], 0.25),
        ([], [], 0.0),
        ([1], [1.0], np.inf),
        ([True], [False], np.inf),
        (["a"], ["a"], 0.0),
        ([1j], [2j], 0.5),
    ],
)
def test_relative_error(ours, theirs, expected):
    assert relative_error(np.array(ours), np.array(theirs)) == pytest.approx(expected)


@pytest.mark.parametrize(("text", "name"), [("x", "x"), ("", "NAME")])
def test_an_input_without_a_file(command, tmp_path, text, name):
    command.fails(
        2,
        f"""
        error: --input {text or "''"} does not name a file
          help: write --input {name}=FILE.npy, or FILE.npz for all of them
        """,
        *("run", models.linear(tmp_path), "--input", text),
    )


def test_outputs_whose_names_become_one_file_name_are_both_written(tmp_path):
    arrays = {"a/b": np.zeros(1), "a_b": np.ones(1)}
    paths = write_arrays(tmp_path, arrays)
    assert [float(np.load(path)[0]) for path in paths] == [0, 1]


def test_an_index_out_of_range_is_an_error_unless_unchecked(command, tmp_path):
    path = models.look_up(tmp_path)
    np.save(tmp_path / "i.npy", np.array([0, 9]))
    words = ("run", path, "--input", f"i={tmp_path}/i.npy", "--input", "x=random")
    command.fails(
        1,
        """
        error: gather: indices must be from -3 to 2, got 9
          in node 'look'
          help: compile with unchecked=True to use the nearest valid index instead
        """,
        *words,
    )
    assert command(*words, "--unchecked").status == 0


def spans(path):
    """The events of a trace that have a duration, with the names of their rows."""
    events = json.loads(path.read_text())["traceEvents"]
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M"}
    return [
        (rows[e["pid"], 0], rows[e["pid"], e["tid"]], e["name"], e["cat"])
        for e in events
        if e["ph"] == "X"
    ]


def test_a_trace_shows_the_run_and_its_steps(command, tmp_path):
    path, source = tmp_path / "t.json", models.linear(tmp_path)
    assert command("run", source, "--trace", str(path)).status == 0
    whole, there, *steps = spans(path)
    assert whole == ("host", "caller", "run", "run")
    assert there == ("cpu", "stream 0", "run", "compute")
    assert steps
    assert {step[:2] for step in steps} == {("cpu", "steps, one after the other")}
    assert command("run", source, "--trace", str(path), "--backend", "interpreter").status == 0
    assert spans(path) == [whole, ("interpreter", "stream 0", "run", "compute")]


def test_a_trace_of_a_saved_model_shows_its_steps(command, tmp_path):
    saved, path = tmp_path / "m.agc", tmp_path / "t.json"
    assert command("compile", models.linear(tmp_path), "-o", str(saved)).status == 0
    assert command("run", str(saved), "--trace", str(path)).status == 0
    assert len(spans(path)) >= 3


def test_a_trace_overwrites_no_other_file(command, tmp_path):
    path = tmp_path / "t.json"
    path.write_text("{}")
    finished = command("run", models.linear(tmp_path), "--trace", str(path))
    assert finished.status == 2
    assert "t.json already exists and is not a trace written by Afterglow" in finished.err
    assert command("run", models.linear(tmp_path), "--trace", str(path), "--force").status == 0
