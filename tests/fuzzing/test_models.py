"""Models are compared with what stands for them, and differences that have a reason are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from fuzzing import models
from fuzzing.corpus import Example
from fuzzing.kind import Setup
from fuzzing.models import Models
from fuzzing.outcome import Verdict, outcome_of
from fuzzing.perturb import perturbed_model
from tests.frontends.models import info, model, node

X = np.array([[1.5, -2.5, 0.25], [3.0, 0.5, -1.0]], np.float32)


def example(nodes: list[onnx.NodeProto], **others) -> bytes:
    data = model(nodes, opset=14, **others).SerializeToString()
    return Example("model", data, {"x": X}).packed()


@pytest.fixture
def kind(tmp_path: Path) -> Models:
    return Models(Setup(tmp_path))


def test_engines_agree_on_a_plain_model(kind: Models) -> None:
    outcome = outcome_of(kind, example([node("Tanh", ["x"], ["y"])]))
    assert outcome.verdict is Verdict.PASSED, outcome.text


def test_other_numbers_are_a_finding(kind: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "run_cpu", lambda model, inputs: [X + 1])
    outcome = outcome_of(kind, example([node("Identity", ["x"], ["y"])]))
    assert outcome.signature == "mismatch cpu and interpreter Identity"


def test_numbers_that_rounding_decides_are_skipped(
    kind: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "run_cpu", lambda model, inputs: [np.floor(inputs["x"] - 1e-6)])
    outcome = outcome_of(kind, example([node("Floor", ["x"], ["y"])]))
    assert outcome.text == "a change in the last bits of inputs or weights changes it"


def test_what_is_made_of_nan_may_differ_from_the_reference(
    kind: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [node("Sqrt", ["x"], ["root"]), node("IsNaN", ["root"], ["y"])]
    wanted = {"outputs": [info("y", (2, 3), onnx.TensorProto.BOOL)]}
    lies = [X >= 0]
    monkeypatch.setattr(models, "run_cpu", lambda model, inputs: lies)
    monkeypatch.setattr(models, "run_interpreter", lambda model, inputs: lies)
    outcome = outcome_of(kind, example(nodes, **wanted))
    assert outcome.text == "a value on the way is NaN or infinite"


def test_half_floats_count_as_single_ones(kind: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    half = onnx.TensorProto.FLOAT16
    nodes = [node("Mul", ["x", "w"], ["m"]), node("Cast", ["m"], ["y"], to=half)]
    data = model(
        nodes,
        opset=14,
        inputs=[info("x", (2, 3), half)],
        outputs=[info("y", (2, 3), half)],
        constants={"w": np.ones(3, np.float16)},
    ).SerializeToString()
    monkeypatch.setattr(models, "run_cpu", lambda model, inputs: [inputs["x"] + inputs["x"]])
    packed = Example("model", data, {"x": X.astype(np.float16)}).packed()
    outcome = outcome_of(kind, packed)
    assert outcome.signature == "mismatch cpu and interpreter Cast Mul"
    assert "np.float32" in outcome.text


def test_a_perturbed_model_computes_nearly_the_same() -> None:
    nodes = [node("Tanh", ["x"], ["t"]), node("ReduceSum", ["t"], ["y"])]
    data = model(nodes, opset=14, outputs=[info("y", (1, 1))]).SerializeToString()
    found = [
        models.run_interpreter(perturbed_model(data, np.random.default_rng(seed)), {"x": X})[0]
        for seed in range(2)
    ]
    want = np.tanh(X).sum()
    assert found[0] != found[1]
    np.testing.assert_allclose(np.ravel(found), [want, want], rtol=1e-4)
