"""Runs of a model that are bound to arrays of the host."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow
from afterglow.support.errors import UsageError
from tests.frontends.models import INT64, info, model, node

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def sums(rows, **options):
    made = model(
        [node("Add", ["x", "w"], ["a"]), node("Mul", ["x", "w"], ["m"])],
        inputs=[info("x", [rows, 3])],
        outputs=[info("a", [rows, 3]), info("m", [rows, 3])],
        constants={"w": np.full(3, 2, np.float32)},
    )
    return afterglow.compile(made, **options)


def test_a_bound_run_reads_what_arrays_hold_by_then() -> None:
    x = X.copy()
    run = sums(4).bind(x)
    a, m = run()
    x += 1
    assert run() is run.outputs
    assert run.outputs[0] is a
    assert a.tolist() == (X + 3).tolist()
    assert m.tolist() == ((X + 1) * 2).tolist()


def test_a_model_with_dynamic_dimensions_is_bound_for_the_shapes_of_the_arrays() -> None:
    run = sums("rows", dims={"rows": (1, 8)}).bind(x=X[:2])
    assert run()[0].tolist() == (X[:2] + 2).tolist()


def test_outputs_are_tensors_of_the_library_of_the_inputs() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(12.0).reshape(4, 3)
    run = sums(4).bind(x)
    x.mul_(2)
    a, _ = run()
    assert isinstance(a, torch.Tensor)
    assert a.tolist() == (2 * X + 2).tolist()


def test_outputs_whose_shapes_only_a_run_knows_cannot_be_bound() -> None:
    made = model(
        [node("NonZero", ["x"], ["y"])],
        inputs=[info("x", [4, 3])],
        outputs=[info("y", [2, "count"], INT64)],
    )
    with pytest.raises(UsageError, match="cannot be bound to arrays"):
        afterglow.compile(made).bind(X)


def test_wrong_arrays_are_refused_when_they_are_bound() -> None:
    with pytest.raises(UsageError, match="does not take an array of shape"):
        sums(4).bind(X[:2])
