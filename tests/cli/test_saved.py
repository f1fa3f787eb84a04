"""Verbs on compiled models: saved files, and the libraries of bundles."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cli import models

X = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)


@pytest.fixture
def saved(command, tmp_path):
    """A compiled model of the linear one."""
    path = str(tmp_path / "linear.agc")
    assert command("compile", models.linear(tmp_path), "-o", path).status == 0
    return path


@pytest.fixture
def batched(command, tmp_path):
    """A compiled model for two batches."""
    path = str(tmp_path / "batched.agc")
    words = ("--dim", "batch=1,4", "-o", path)
    assert command("compile", models.batched(tmp_path), *words).status == 0
    return path


def test_a_saved_model_runs(command, tmp_path, saved):
    np.save(tmp_path / "x.npy", X)
    words = ("run", saved, "--input", f"x={tmp_path / 'x.npy'}")
    finished = command(*words, "--output-dir", str(tmp_path), "--threads", "1")
    assert finished.status == 0
    assert finished.out.splitlines()[-1].startswith("loaded in ")
    weights = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.maximum(X @ weights, 0))
    assert command(*words, "--json").json["load_seconds"] > 0


def test_extents_choose_a_version(command, batched):
    data = command("run", batched, "--dim", "batch=1,4", "--json").json
    types = [answer["outputs"][0]["type"] for answer in data["bindings"]]
    assert types == ["f32[1, 3]", "f32[4, 3]"]


def test_the_only_version_needs_no_extent(command, tmp_path):
    path = str(tmp_path / "only.agc")
    words = ("--dim", "batch=3,3", "-o", path)
    assert command("compile", models.batched(tmp_path), *words).status == 0
    assert command("run", path, "--json").json["outputs"][0]["type"] == "f32[3, 3]"


def test_a_ranged_model_runs_at_any_extent(command, tmp_path):
    path = str(tmp_path / "ranged.agc")
    words = ("--dim", "batch=1..6", "-o", path)
    assert command("compile", models.batched(tmp_path), *words).status == 0
    assert command("run", path, "--json").json["outputs"][0]["type"] == "f32[6, 3]"
    words = ("--dim", "batch=2", "--json")
    assert command("run", path, *words).json["outputs"][0]["type"] == "f32[2, 3]"
    command.fails(
        2,
        """
        error: dimension 'batch' of input 'a' is 7, out of its bounds 1..6
          help: compile with other bounds: dims={'batch': (FIRST, LAST)} or --dim batch=FIRST..LAST
        """,
        *("run", path, "--dim", "batch=7"),
    )


def test_which_version_must_be_said(command, batched):
    command.fails(
        2,
        """
        error: input 'a: f32[batch, 3]' has dynamic dimensions
          help: choose one of its versions with --dim or --shapes: \
a: f32[1, 3], b: f32[1, 3]; a: f32[4, 3], b: f32[4, 3]
        """,
        *("run", batched),
    )


def test_a_version_that_is_not_in_the_file(command, batched):
    command.fails(
        2,
        f"""
        error: {batched}: the model was not saved for a: f32[2, 3], b: f32[2, 3]
          help: it takes a: f32[1, 3], b: f32[1, 3]; a: f32[4, 3], b: f32[4, 3]; run the source \
model with others and save it again
        """,
        *("run", batched, "--dim", "batch=2"),
    )


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--exact"),
        ("run", "--backend", "cpu"),
        ("bench", "--target", "host"),
        ("profile", "--max-arena", "1MiB"),
        ("profile", "--no-optimize"),
    ],
)
def test_options_that_come_too_late(command, saved, words):
    option = words[1]
    command.fails(
        2,
        f"""
        error: {option} has no effect on {saved}: it is already compiled
          help: give it when the model is compiled: afterglow compile MODEL -o linear.agc \
{option} …
        """,
        *(*words, saved),
    )


@pytest.mark.parametrize(("verb", "option"), [("run", "--compare"), ("bench", "--vs")])
def test_there_is_nothing_to_compare_with(command, saved, verb, option):
    command.fails(
        2,
        f"""
        error: {saved} is compiled: no other engine can run it for comparison
          help: give the original model, or omit {option}
        """,
        *(verb, saved, option, "onnxruntime"),
    )


@pytest.mark.parametrize("verb", ["check", "compile", "dump", "explain"])
def test_there_is_no_graph_to_look_at(command, saved, verb):
    command.fails(
        2,
        f"""
        error: {saved} is a compiled model: it contains code, not a graph
          help: give the original model; run, bench and profile accept compiled ones
        """,
        *(verb, saved),
    )


def test_a_saved_model_is_timed(command, saved):
    data = command("bench", saved, "--seconds", "0.02", "--json").json
    (ours,) = data["engines"]
    assert data["flops"] is None
    assert ours["problem"] is None
    assert ours["min_seconds"] > 0
    assert ours["compile_seconds"] is None


def test_steps_of_a_saved_model_are_timed(command, saved):
    data = command("profile", saved, "--repeat", "2", "--json").json
    (step,) = data["steps"]
    assert "matmul" in step["kernel"]
    assert step["origins"] == ["first", "second"]
    assert step["seconds"] > 0
    shown = command("profile", saved, "--repeat", "2").out
    assert "GFLOP/s" not in shown
    assert shown.splitlines()[-1].endswith(" in 1 steps")


def test_a_saved_model_is_profiled_on_one_thread(command, saved):
    command.fails(
        2,
        """
        error: a compiled model is profiled on one thread
          help: leave --threads out
        """,
        *("profile", saved, "--threads", "2"),
    )


def test_steps_that_the_host_runs_are_timed(command, tmp_path):
    path = str(tmp_path / "texts.agc")
    assert command("compile", models.texts(tmp_path), "-o", path).status == 0
    steps = command("profile", path, "--repeat", "2", "--json").json["steps"]
    assert {step["on_host"] for step in steps} == {True, False}


def test_a_library_runs_and_is_profiled(command, tmp_path):
    folder = tmp_path / "out"
    made = command(
        *("compile", models.batched(tmp_path), "-o", str(folder), "--shared"),
        *("--dim", "batch=1,4"),
    )
    if "there is no linker" in made.err:
        pytest.skip("no linker is here")
    library = str(folder / "libbatched.so")
    assert command("run", library, "--dim", "batch=4").status == 0
    steps = command("profile", library, "--dim", "batch=4", "--json").json["steps"]
    assert ["add" in step["kernel"] for step in steps] == [True]


def test_data_decide_what_comes_behind(command, tmp_path):
    path = str(tmp_path / "places.agc")
    finished = command("compile", models.places(tmp_path), "-o", path)
    assert finished.status == 0
    assert finished.out.splitlines()[-1] == (
        f"compiled up to NonZero (where): later shapes depend on data, written to {path}"
    )
    np.save(tmp_path / "x.npy", X)
    words = ("run", path, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", str(tmp_path))
    assert command(*words).status == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), 2 * np.array(np.nonzero(X > 0)))


@pytest.mark.parametrize("file", ["places.onnx", "places.agc"])
def test_what_data_decide_is_no_single_program(command, tmp_path, file):
    path = models.places(tmp_path)
    assert command("compile", path, "-o", str(tmp_path / "places.agc")).status == 0
    command.fails(
        2,
        """
        error: the model has data-dependent shapes: only a single program can be profiled
          help: time it with afterglow bench
        """,
        *("profile", str(tmp_path / file)),
    )


def test_data_decide_what_a_bundle_cannot_compile(command, tmp_path):
    command.fails(
        3,
        """
        error: the model has data-dependent shapes, which a bundle cannot compile at run time
            NonZero (where)
          help: save it as FILE.agc, or export a model that ends before these nodes
        """,
        *("compile", models.places(tmp_path), "-o", str(tmp_path / "out")),
    )


def test_values_that_decide_must_be_given(command, tmp_path):
    command.fails(
        3,
        """
        error: shapes in the model depend on the value of input 'shape'
          help: give them: --value shape=FILE.npy; afterglow run takes them from --input
        """,
        *("compile", models.shaped(tmp_path), "-o", str(tmp_path / "shaped.agc")),
    )


def test_code_for_another_machine_becomes_a_bundle(command, tmp_path):
    command.fails(
        2,
        """
        error: the code for aarch64 does not run here: it needs the architecture aarch64
          help: export a bundle for the other machine: export_bundle(folder, \
target='aarch64'), or afterglow compile MODEL -o FOLDER --target aarch64
        """,
        *("compile", models.linear(tmp_path), "--target", "aarch64"),
        *("-o", str(tmp_path / "linear.agc")),
    )


def test_a_file_that_is_damaged(command, tmp_path, saved):
    path = tmp_path / "damaged.agc"
    path.write_bytes((tmp_path / "linear.agc").read_bytes()[:1000])
    finished = command("run", str(path))
    assert finished.status == 2
    assert f"error: {path}: the file is truncated" in finished.err


@pytest.mark.parametrize("verb", ["run", "bench", "profile"])
def test_an_input_of_another_shape(command, tmp_path, saved, verb):
    np.save(tmp_path / "x.npy", X[:, :2])
    command.fails(
        2,
        "error: input 'x: f32[2, 3]' does not take an array of shape (2, 2)",
        *(verb, saved, "--input", f"x={tmp_path / 'x.npy'}"),
    )
