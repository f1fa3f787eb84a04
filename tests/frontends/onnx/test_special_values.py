"""NaN and infinity where the standard leaves open what they do, as docs/accuracy.md says."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow
from afterglow.types import Array
from tests.frontends.models import info, model, node

NAN, INF = np.nan, np.inf
ROW = np.array([1, NAN, 3, 2, NAN, 0], np.float32)
IMAGE = np.array([1, NAN, 3, 4, 5, 6, 2, 8, NAN], np.float32).reshape(1, 1, 3, 3)
POOLED = [[NAN, NAN], [8, NAN]]


def run(backend: str, op_type: str, *inputs: Array, outputs: int = 1, **attributes: object):
    """The outputs of one node; inputs after the first are constants."""
    first, *others = inputs
    names = [f"c{index}" for index in range(len(others))]
    results = [f"y{index}" for index in range(outputs)]
    proto = model(
        [node(op_type, ["x", *names], results, **attributes)],
        opset=18,
        inputs=[info("x", first.shape)],
        outputs=[info(name, None, 0) for name in results],
        constants=dict(zip(names, others, strict=True)),
    )
    made = afterglow.compile(proto, cache=False, backend=backend)
    return [result.tolist() for result in made.run(None, {"x": first})]


@pytest.fixture(params=["cpu", "interpreter"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize(("op_type", "index"), [("ArgMax", 1), ("ArgMin", 1)])
def test_nan_is_where_an_extreme_is_found(backend: str, op_type: str, index: int) -> None:
    assert run(backend, op_type, ROW, axis=0, keepdims=0) == [index]
    assert run(backend, op_type, ROW, axis=0, keepdims=0, select_last_index=1) == [4]


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
def test_nan_is_the_extreme_of_what_it_is_among(backend: str, op_type: str) -> None:
    np.testing.assert_array_equal(run(backend, op_type, ROW, keepdims=0), [NAN])
    np.testing.assert_array_equal(
        run(backend, op_type[6:], ROW, ROW[:1]), [[1, NAN, *EXTREME[op_type]]]
    )


EXTREME = {"ReduceMax": [3, 2, NAN, 1], "ReduceMin": [1, 1, NAN, 0]}


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_window_with_nan_is_nan(backend: str, outputs: int) -> None:
    found = run(backend, "MaxPool", IMAGE, outputs=outputs, kernel_shape=[2, 2])
    np.testing.assert_array_equal(found[0], [[POOLED]])
    assert found[1:] == [[[[[1, 1], [7, 8]]]]][: outputs - 1]


def test_nan_counts_as_the_largest_of_a_choice(backend: str) -> None:
    count = np.array([3])
    values, indices = run(backend, "TopK", ROW, count, outputs=2)
    np.testing.assert_array_equal(values, [NAN, NAN, 3])
    assert indices == [1, 4, 2]
    assert run(backend, "TopK", ROW, count, outputs=2, largest=0) == [[0, 1, 2], [5, 0, 3]]


def test_infinity_passes_through_interpolation(backend: str) -> None:
    x = np.array([1, INF, 3], np.float32).reshape(1, 1, 3)
    found = run(backend, "Resize", x, np.zeros(0, np.float32), np.float32([1, 1, 2]), mode="linear")
    assert found == [[[[1, INF, INF, INF, INF, 3]]]]


def test_what_a_condition_says_beyond_the_axis_counts_for_nothing(backend: str) -> None:
    condition = np.array([False, True, True, True])
    assert run(backend, "Compress", np.float32([[1, 2], [3, 4]]), condition, axis=1) == [[[2], [4]]]
    flat = np.array([False, True, False, True, True, True])
    assert run(backend, "Compress", np.float32([[1, 2], [3, 4]]), flat) == [[2, 4]]
