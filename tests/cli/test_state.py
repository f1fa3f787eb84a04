"""`--state past.*=present.*`: inputs that are kept between runs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cli import models

PAST = ("--dim", "past=0..9", "--state", "past.*=present.*")


def run_once(command, path, *words):
    """The outputs of a run, by name, with what JSON says of each."""
    data = command("run", path, *PAST, "--json", *words).json
    return {output["name"]: output for output in data["outputs"]}


def test_a_run_begins_with_the_state_that_inputs_give(command, tmp_path):
    np.save(tmp_path / "past.npy", np.float32([[1, 5, 2], [3, 4, 9]]))
    np.save(tmp_path / "row.npy", np.float32([[6, 0, 7]]))
    np.save(tmp_path / "weight.npy", np.ones((3, 1), np.float32))
    given = [
        word
        for name, file in {"past.rows": "past", "row": "row", "weight": "weight"}.items()
        for word in ("--input", f"{name}={tmp_path / file}.npy")
    ]
    outputs = run_once(command, models.highest(tmp_path), *given, "--repeat", "3")
    assert outputs.keys() == {"highest"}
    assert outputs["highest"]["first"] == [6, 5, 9]


def test_what_no_input_tells_of_the_state_is_the_largest(command, tmp_path):
    path = models.highest(tmp_path)
    outputs = run_once(command, path, "--compare", "onnxruntime")
    assert outputs["highest"]["relative_error"] == 0


def test_a_model_with_state_is_timed(command, tmp_path):
    words = ("--vs", "onnxruntime", "--seconds", "0.05", "--json")
    data = command("bench", models.highest(tmp_path), *PAST, *words).json
    ours, peer = data["engines"]
    assert ours["problem"] is peer["problem"] is None
    assert ours["relative_error"] == 0


def test_a_model_with_state_is_profiled(command, tmp_path):
    path = models.highest(tmp_path)
    steps = command("profile", path, *PAST, "--repeat", "2", "--json").json["steps"]
    assert any("f32[10, 3]" in step["operands"] for step in steps)


@pytest.mark.parametrize("verb", ["compile", "run", "bench", "profile"])
def test_state_is_kept_by_every_command_that_runs_a_model(command, tmp_path, verb):
    words = (models.highest(tmp_path), "--dim", "past=1,2", "--state", "past.*=present.*")
    finished = command(verb, *words)
    assert finished.status == 2
    assert "a model that keeps state must be one program for all shapes" in finished.err
