"""Gradients where a careless rule divides by zero, or multiplies zero by infinity."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Builder, Function, Op, run_function
from afterglow.ops import activation as a
from afterglow.ops.elementwise import Abs, Max
from afterglow.ops.functions import Asinh, Cosh, Tanh
from afterglow.ops.indexing import ScatterReduction
from afterglow.ops.linear import Det
from afterglow.ops.normalization import LRN
from afterglow.ops.power import Pow
from afterglow.ops.reduction import CumProd, ReduceMax, ReduceProd
from afterglow.ops.scatter import ScatterElements
from afterglow.ops.softmax import LogSoftmax, Softmax
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32
from tests.autodiff.differences import assert_gradients, with_gradients

HUGE = np.array([-1000.0, -100.0, 100.0, 1000.0], np.float32)
RISES = np.array([0, 0, 1, 1], np.float32)


def slopes(op: Op, *inputs: Array) -> list[Array]:
    """The gradients of the sum of the results, by each input."""
    f = Function("main")
    operands = [f.input(f"x{i}", TensorType.of(x)) for i, x in enumerate(inputs)]
    f.output("y", Builder(f).emit(op, *operands))
    (weight,) = with_gradients(f)
    return [grad / weight for grad in run_function(f, inputs)]


@pytest.mark.parametrize(
    ("op", "want"),
    [
        (a.Sigmoid(), 0 * HUGE),
        (a.Softplus(), RISES),
        (a.Elu(alpha=2.0), RISES),
        (a.Selu(), 1.050701 * RISES),
        (a.Celu(alpha=0.5), RISES),
        (a.Swish(), RISES),
        (a.Gelu(), RISES),
        (a.Gelu(approximate=True), RISES),
        (a.Mish(), RISES),
        (a.HardSwish(), RISES),
        (Tanh(), 0 * HUGE),
        (Asinh(), 1 / np.abs(HUGE)),
    ],
    ids=str,
)
def test_far_from_zero(op: Op, want: Array) -> None:
    np.testing.assert_allclose(slopes(op, HUGE)[0], want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("op", [Softmax(), LogSoftmax()], ids=str)
def test_far_apart(op: Op) -> None:
    assert np.isfinite(slopes(op, HUGE)[0]).all()


@pytest.mark.parametrize(
    ("op", "want"),
    [
        *((a.Softplus(), 0.5), (a.Softsign(), 1.0), (Asinh(), 1.0), (Cosh(), 0.0)),
        *((a.Relu(), 0.0), (Abs(), 0.0), (LRN(3), 1.0)),
    ],
    ids=str,
)
def test_at_zero(op: Op, want: float) -> None:
    np.testing.assert_allclose(slopes(op, np.zeros(1, np.float32))[0], want, rtol=1e-6)


def test_powers_of_zero_and_of_negative_numbers() -> None:
    base = np.array([0, 0, 0, -3], np.float32)
    exponent = np.array([0, 1, 2, 2], np.float32)
    by_base, by_exponent = slopes(Pow(), base, exponent)
    np.testing.assert_allclose(by_base, [0, 1, 0, -6])
    np.testing.assert_array_equal(by_exponent[:3], 0)


def test_equal_elements_share_the_gradient_of_their_maximum() -> None:
    ones = np.ones(4, np.float32)
    np.testing.assert_allclose(slopes(ReduceMax((0,)), ones)[0], 0.25)
    for share in slopes(Max(), ones, ones):
        np.testing.assert_allclose(share, 0.5)


def with_zeros(*shape: int) -> Array:
    x = np.random.default_rng(2).uniform(0.5, 2, shape)
    x[0, 1] = x[-1, 0] = x[-1, 2] = 0
    return x


@pytest.mark.parametrize(
    "op", [ReduceProd((1,)), ReduceProd((0, 1)), CumProd(1), CumProd(0, exclusive=True)], ids=str
)
def test_products_with_zeros_among_their_factors(op: Op) -> None:
    f = Function("main")
    x = with_zeros(3, 4)
    f.output("y", Builder(f).emit(op, f.input("x", TensorType.of(x))))
    assert_gradients(f, [x], order=2)


def test_determinants_of_singular_matrices() -> None:
    f = Function("main")
    rng = np.random.default_rng(4)
    singular = rng.uniform(-1, 1, (3, 3))
    singular[1] = singular[0] * 2
    x = np.stack([np.zeros((3, 3)), np.diag([0.0, 2, 3]), singular])
    f.output("y", Builder(f).emit(Det(), f.input("x", TensorType.of(x))))
    assert_gradients(f, [x], order=2)


def test_only_the_update_that_stays_has_a_gradient() -> None:
    data = np.arange(4, dtype=np.float32)
    indices = np.array([2, 0, 2, -2])
    updates = np.array([5, 6, 7, 8], np.float32)
    f = Function("main")
    operands = [f.input(f"x{i}", TensorType.of(x)) for i, x in enumerate((data, indices, updates))]
    f.output("y", Builder(f).emit(ScatterElements(0), *operands))
    (weight,) = with_gradients(f)
    assert weight.dtype == f32.numpy
    old, new = run_function(f, [data, indices, updates])
    np.testing.assert_array_equal(old, weight * [0, 1, 0, 1])
    np.testing.assert_array_equal(new, [0, weight[0], 0, weight[2]])


def test_a_scatter_of_factors_of_which_some_are_zero() -> None:
    data, indices = np.array([2.0, 0.0, 3.0]), np.array([0, 0, 1, 2, 2, 2])
    updates = np.array([0.0, 5.0, 4.0, 0.0, 0.0, 7.0])
    f = Function("main")
    operands = [f.input(f"x{i}", TensorType.of(x)) for i, x in enumerate((data, indices, updates))]
    f.output("y", Builder(f).emit(ScatterElements(0, ScatterReduction.MUL), *operands))
    assert_gradients(f, [data, indices, updates])
