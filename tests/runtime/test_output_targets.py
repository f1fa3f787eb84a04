"""Outputs that are written into arrays of the caller's."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow
from afterglow.support.errors import UsageError
from tests.frontends.models import INT64, info, model, node

torch = pytest.importorskip("torch")

X = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(scope="module")
def compiled():
    made = model(
        [node("Mul", ["x", "w"], ["a"]), node("Exp", ["a"], ["y"])],
        inputs=[info("x", ["batch", 3])],
        outputs=[info("a", ["batch", 3]), info("y", ["batch", 3])],
        constants={"w": np.full(3, 2, np.float32)},
    )
    return afterglow.compile(made, dims={"batch": (1, 4)})


def test_given_arrays_are_the_outputs(compiled) -> None:
    a, y = np.zeros_like(X), np.zeros_like(X)
    results = compiled.run_into([a, y], X)
    assert results[0] is a
    assert results[1] is y
    assert a.tolist() == (X * 2).tolist()
    assert y.tolist() == compiled(X)[1].tolist()


def test_some_outputs_by_name(compiled) -> None:
    y = np.zeros((2, 3), np.float32)
    a, same = compiled.run_into({"y": y}, x=X[:2])
    assert same is y
    assert a.tolist() == (X[:2] * 2).tolist()


def test_an_output_may_overwrite_an_input(compiled) -> None:
    x = X.copy()
    compiled.run_into({"a": x}, x)
    assert x.tolist() == (X * 2).tolist()


def test_tensors_of_pytorch_are_written_in_their_memory(compiled) -> None:
    a = torch.zeros(4, 3)
    result, _ = compiled.run_into({"a": a}, torch.from_numpy(X))
    assert result.data_ptr() == a.data_ptr()
    assert a.tolist() == (X * 2).tolist()


def test_a_model_that_is_partitioned_for_the_host_copies() -> None:
    made = model(
        [node("Relu", ["x"], ["r"]), node("NonZero", ["r"], ["y"])],
        inputs=[info("x", [4, 3])],
        outputs=[info("y", [2, "n"], INT64)],
    )
    y = np.zeros((2, 11), np.int64)
    assert afterglow.compile(made).run_into(y, X) is y
    assert y.tolist() == np.stack(np.nonzero(X)).tolist()


FROZEN = np.zeros((4, 3), np.float32)
FROZEN.flags.writeable = False
BOTH = np.zeros((4, 3), np.float32)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"a": np.zeros((4, 3))}, "output 'a' cannot be written to an array of float64, not of"),
        ({"a": np.zeros((3, 3), "f4")}, "'a' cannot be written to an array of shape (3, 3): it"),
        ({"a": np.zeros((4, 6), "f4")[:, ::2]}, "an array whose elements do not lie in order"),
        ({"a": FROZEN}, "output 'a' cannot be written to an array that cannot be written"),
        ({"a": "text"}, "output 'a' cannot be written to a str, not an array"),
        ({"q": X.copy()}, "the model has no output 'q'"),
        ([X.copy()], "the model gives 2 outputs, got 1 arrays to write them to"),
        ([BOTH, BOTH], "outputs 'a' and 'y' are to be written to the same memory"),
    ],
)
def test_arrays_that_do_not_fit(compiled, outputs, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        compiled.run_into(outputs, X)
    assert message in str(caught.value)
