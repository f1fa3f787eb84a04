"""Each op of TFLite, against LiteRT's own kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from afterglow.frontends.definition.binding import Binding
from afterglow.frontends.definition.importer import ModelImporter
from afterglow.frontends.tflite import importers  # noqa: F401  fills the table
from afterglow.frontends.tflite.reader import read_file
from afterglow.frontends.tflite.translate import translate_file
from afterglow.graph.evaluate import run_function
from tests.frontends.tflite.build import Array, run_litert
from tests.frontends.tflite.cases import Case, all_cases, const, floats, truths

STABLEHLO: dict[str, Callable[..., Array]] = {
    "ABS": np.abs,
    "COSINE": np.cos,
    "EXPONENTIAL": np.exp,
    "FLOOR": np.floor,
    "LOG": np.log,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "NEGATE": np.negative,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "TANH": np.tanh,
    "ADD": np.add,
    "DIVIDE": np.divide,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "MULTIPLY": np.multiply,
    "POWER": np.power,
    "SUBTRACT": np.subtract,
}


@pytest.mark.parametrize("name", STABLEHLO)
def test_ops_of_stablehlo_are_those_of_numpy(name: str) -> None:
    function = STABLEHLO[name]
    count = 2 if isinstance(function, np.ufunc) and function.nin == 2 else 1
    feeds = [floats(3, 4, low=0.5) for _ in range(count)]
    (found,) = _run(Case(f"STABLEHLO_{name}", feeds))
    np.testing.assert_allclose(found, function(*feeds), 1e-5, 1e-5)


def test_movements_of_stablehlo_are_those_of_numpy() -> None:
    x, y, other = floats(2, 3), truths(2, 3), floats(2, 3)
    axes = {"permutation": np.array([1, 0])}
    (found,) = _run(Case("STABLEHLO_TRANSPOSE", [x], "StablehloTransposeOptions", axes))
    np.testing.assert_array_equal(found, x.T)
    axis = {"dimension": 1}
    (found,) = _run(Case("STABLEHLO_CONCATENATE", [x, x], "StablehloConcatenateOptions", axis))
    np.testing.assert_array_equal(found, np.concatenate([x, x], axis=1))
    places = {"start_indices": [0, 1], "limit_indices": [2, 3], "strides": [1, 2]}
    bounds = {name: np.array(numbers) for name, numbers in places.items()}
    (found,) = _run(Case("STABLEHLO_SLICE", [x], "StablehloSliceOptions", bounds))
    np.testing.assert_array_equal(found, x[:, 1:3:2])
    (found,) = _run(Case("STABLEHLO_SELECT", [y, x, other]))
    np.testing.assert_array_equal(found, np.where(y, x, other))
    (found,) = _run(Case("STABLEHLO_AND", [y, y[::-1].copy()], outputs=["bool"]))
    np.testing.assert_array_equal(found, y & y[::-1])
    (found,) = _run(Case("STABLEHLO_OR", [y, y[::-1].copy()], outputs=["bool"]))
    np.testing.assert_array_equal(found, y | y[::-1])


def test_random_numbers_have_the_distributions_that_they_should() -> None:
    shape = const([4000], "int32")
    (uniform,) = _run(Case("RANDOM_UNIFORM", [shape], "RandomOptions", {"seed": 1}))
    assert 0 <= uniform.min() < 0.01 < 0.99 < uniform.max() < 1
    (normal,) = _run(Case("RANDOM_STANDARD_NORMAL", [shape], "RandomOptions", {"seed": 1}))
    assert abs(normal.mean()) < 0.1
    assert abs(normal.std() - 1) < 0.1
    logits = np.log(np.array([[0.1, 0.6, 0.3]], np.float32))
    count = const(4000, "int32")
    drawn = Case("MULTINOMIAL", [logits, count], "RandomOptions", {"seed": 1}, ["int32"])
    shares = np.bincount(_run(drawn)[0].reshape(-1)) / 4000
    np.testing.assert_allclose(shares, [0.1, 0.6, 0.3], atol=0.05)


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_an_op_computes_what_litert_does(case: Case) -> None:
    expected = run_litert(case.file(), *[case.feeds()] * case.runs)
    for ours, theirs in zip(_run(case), expected, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, case.tolerance, case.tolerance)


def _run(case: Case) -> tuple[Array, ...]:
    """What our ops compute by their definitions, after the last run."""
    data, feeds = case.file(), case.feeds()
    model = translate_file(read_file(memoryview(data)))
    module, _ = ModelImporter(model, Binding()).run()
    states = {name: np.zeros(s.type.shape, s.type.dtype.numpy) for name, s in module.states.items()}
    for _ in range(case.runs):
        found = run_function(module.main, feeds, states)
    return found
