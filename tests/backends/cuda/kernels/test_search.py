"""Where the extreme elements of lines are."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow.backends.cuda.kernels.search  # noqa: F401  declares the kernels
from afterglow.ops.elementwise import Add, Neg
from afterglow.ops.search import ArgMax, ArgMin
from tests.backends.cuda.kernels.jobs import Made, check, compiled


def _made(op, array, order=None):
    made = Made()
    made.add(op, made.given(array, order=order), anchor=True)
    return made


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", [ArgMax, ArgMin])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 21), 1), ((5, 7, 6), 1), ((1, 40_001), 1), ((3, 3000, 2), 1), ((9,), 0)],
)
def test_ties_are_told_apart_by_their_place(kind, last, shape, axis):
    values = np.random.default_rng(0).integers(-3, 4, shape)
    for dtype in ("f4", "f2", "i1"):
        check(_made(kind(axis, False, last), values.astype(dtype)))


@pytest.mark.parametrize("kind", [ArgMax, ArgMin])
def test_nan_is_beyond_all_and_zeros_are_equal(kind):
    lines = [
        [1, np.nan, np.inf, np.nan],
        [-0.0, 0.0, -0.0, 0.0],
        [0.0, -0.0, 0.0, -0.0],
        [-np.inf, -np.inf, -np.inf, -np.inf],
        [np.nan, np.nan, np.nan, np.nan],
    ]
    for last in (False, True):
        for dtype in ("f4", "f8"):
            check(_made(kind(1, True, last), np.array(lines, dtype)))


@pytest.mark.parametrize("dtype", ["u1", "i4", "u4", "i8"])
def test_the_least_and_the_largest_integer_are_found(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    lines = np.array([[low] * 5, [high] * 5, [low, high, low, high, low]], dtype)
    for kind in (ArgMax, ArgMin):
        for last in (False, True):
            check(_made(kind(1, True, last), lines))


def test_steps_around_it_are_done_in_the_same_kernel():
    x = np.random.default_rng(0).standard_normal((6, 50)).astype("f4")
    made = Made()
    turned = made.add(Neg(), made.given(x))
    found = made.add(ArgMax(1), turned, anchor=True)
    made.add(Add(), found, made.given(np.arange(6)[:, None]))
    check(made)


def test_lines_that_lie_apart_are_read_by_their_columns():
    x = np.random.default_rng(0).standard_normal((50, 70)).astype("f4")
    source = check(_made(ArgMin(1), x, order=(1, 0)))
    assert compiled(source)


def test_the_compiler_takes_long_lines():
    source = check(_made(ArgMax(-1), np.arange(20_000, dtype="f4")[None]))
    assert compiled(source)
