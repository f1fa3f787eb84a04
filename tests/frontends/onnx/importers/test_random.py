"""ONNX's random ops: their distribution, their seeds, and what changes from run to run."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import afterglow
from afterglow.graph import print_module
from afterglow.types import Array
from tests.frontends.models import body, info, model, node

ZEROS = np.zeros((2, 3), np.float32)
MANY = (100, 100)


def drawn(op_type: str, *inputs: Array, outputs: int = 1, **attributes: Any) -> Any:
    """Run a model of one node."""
    feed = {f"x{index}": array for index, array in enumerate(inputs)}
    names = [f"y{index}" for index in range(outputs)]
    infos = [
        info(name, x.shape, helper.np_dtype_to_tensor_dtype(x.dtype)) for name, x in feed.items()
    ]
    results = [onnx.ValueInfoProto(name=name) for name in names]
    one = model([node(op_type, [*feed], names, **attributes)], inputs=infos, outputs=results)
    return afterglow.compile(one, verify=True)(*inputs)


@pytest.mark.parametrize(
    ("type", "dtype"),
    [
        (TensorProto.FLOAT, np.float32),
        (TensorProto.DOUBLE, np.float64),
        (TensorProto.FLOAT16, np.float16),
    ],
)
def test_uniform_numbers_lie_between_the_bounds(type: int, dtype: Any) -> None:
    x = drawn("RandomUniform", shape=MANY, dtype=type, low=-2.0, high=6.0, seed=1.0)
    assert (x.shape, x.dtype) == (MANY, dtype)
    wide = x.astype(np.float64)
    assert wide.min() >= -2
    assert wide.max() <= 6
    assert abs(wide.mean() - 2) < 0.1
    assert abs(wide.std() - 8 / np.sqrt(12)) < 0.1


@pytest.mark.parametrize("type", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_normal_numbers_have_mean_and_deviation(type: int) -> None:
    x = drawn("RandomNormal", shape=MANY, dtype=type, mean=3.0, scale=2.0)
    assert abs(x.mean() - 3) < 0.1
    assert abs(x.std() - 2) < 0.05
    assert abs(((x - 3) ** 3).mean()) < 1
    assert abs((np.abs(x - 3) < 2).mean() - 0.6827) < 0.02


def test_numbers_like_an_operand() -> None:
    x = np.zeros((4, 5), np.float64)
    assert drawn("RandomUniformLike", x).dtype == np.float64
    assert drawn("RandomNormalLike", x, dtype=TensorProto.FLOAT).dtype == np.float32
    assert drawn("RandomNormalLike", x).shape == (4, 5)


def test_classes_come_up_by_their_probabilities() -> None:
    shares = np.array([[0.5, 0.3, 0.2], [0.05, 0.9, 0.05]])
    got = drawn("Multinomial", np.log(shares).astype(np.float32), sample_size=4000)
    assert (got.shape, got.dtype) == ((2, 4000), np.int32)
    found = np.array([np.bincount(row, minlength=3) for row in got]) / 4000
    np.testing.assert_allclose(found, shares, atol=0.03)


def test_a_class_alone_always_comes_up() -> None:
    one = np.zeros((2, 1), np.float32)
    got = drawn("Multinomial", one, sample_size=5, dtype=TensorProto.INT64)
    np.testing.assert_array_equal(got, np.zeros((2, 5), np.int64))


def test_bernoulli_gives_ones_as_often_as_it_should() -> None:
    got = drawn("Bernoulli", np.full(MANY, 0.3, np.float64), dtype=TensorProto.INT32)
    assert got.dtype == np.int32
    assert abs(got.mean() - 0.3) < 0.02


def dropout_model(ratio: float | None, *, training: bool, **attributes: Any) -> onnx.ModelProto:
    constants = {"ratio": np.array(ratio or 0, np.float32), "training": np.array(training)}
    one = node(
        "Dropout", ["x", "ratio" if ratio is not None else "", "training"], ["y", "m"], **attributes
    )
    outputs = (info("y", MANY), info("m", MANY, TensorProto.BOOL))
    return model([one], inputs=(info("x", MANY),), outputs=outputs, constants=constants)


@pytest.mark.parametrize("ratio", [None, 0.0, 0.25, 1.0])
def test_training_drops_a_share_and_scales_the_rest(ratio: float | None) -> None:
    x = np.random.default_rng(0).uniform(1, 2, MANY).astype(np.float32)
    y, mask = afterglow.compile(dropout_model(ratio, training=True, seed=3))(x)
    share = 0.5 if ratio is None else ratio
    assert abs((1 - mask.mean()) - share) < 0.02
    with np.errstate(divide="ignore", invalid="ignore"):
        want = np.where(mask, x / np.float32(1 - share), 0)
    np.testing.assert_allclose(y, want, 1e-6)


def test_inference_drops_nothing() -> None:
    x = np.ones(MANY, np.float32)
    y, mask = afterglow.compile(dropout_model(0.5, training=False))(x)
    np.testing.assert_array_equal(y, x)
    assert mask.all()


def two(first: dict[str, Any], second: dict[str, Any]) -> onnx.ModelProto:
    nodes = [
        node("RandomUniform", [], [name], shape=(2, 3), **attributes)
        for name, attributes in (("a", first), ("b", second))
    ]
    return model(nodes, inputs=(), outputs=("a", "b"))


def test_nodes_without_a_seed_differ_and_each_run_too() -> None:
    source = two({}, {})
    compiled = afterglow.compile(source)
    runs = [compiled() for _ in range(3)]
    assert len(np.unique(np.array(runs))) == 2 * 3 * 6
    np.testing.assert_array_equal(afterglow.compile(source)(), runs[0])


def test_seeds_decide() -> None:
    a, b = afterglow.compile(two({"seed": 1.5}, {"seed": 1.5}))()
    np.testing.assert_array_equal(a, b)
    a, c = afterglow.compile(two({"seed": 1.5}, {"seed": 1.25}))()
    np.testing.assert_array_equal(a, b)
    assert not np.any(a == c)


@pytest.mark.parametrize("type", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_every_backend_draws_the_same_numbers(type: int) -> None:
    one = node("RandomUniform", [], ["y"], shape=(3, 7), dtype=type)
    source = model([one], inputs=(), outputs=(info("y", (3, 7), type),))
    whole = afterglow.compile(source)
    lowered = afterglow.compile(source, backend="primitives")
    for _ in range(3):
        np.testing.assert_array_equal(lowered(), whole())


def test_iterations_of_a_loop_draw_anew() -> None:
    inner = body(
        [
            node("RandomUniformLike", ["x"], ["r"], seed=2.0),
            node("Identity", ["c"], ["d"]),
        ],
        [info("i", (), TensorProto.INT64), info("c", (), TensorProto.BOOL)],
        ["d", "r"],
    )
    constants = {"times": np.array(4), "yes": np.array(True)}
    source = model(
        [node("Loop", ["times", "yes"], ["y"], body=inner)],
        outputs=(info("y", (4, 2, 3)),),
        constants=constants,
    )
    y = afterglow.compile(source)(ZEROS)
    assert len(np.unique(y)) == y.size


def test_the_number_of_the_run_is_state() -> None:
    text = print_module(afterglow.import_model(two({"seed": 0.0}, {"seed": 1.0})))
    assert "state @run_number : i64[]" in text
    assert "store %add to @run_number" in text
    assert "random_uniform(@run_number)" in text
