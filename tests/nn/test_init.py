"""Initial values of parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest

from afterglow.nn import init
from afterglow.support.errors import UsageError

SHAPE = (64, 32, 3, 3)
FAN_IN, FAN_OUT = 32 * 9, 64 * 9
UNIFORM = [0.06410189718008041, 0.28153201937675476, 0.04799041152000427]
NORMAL = [0.4948800802230835, 2.1734864711761475, 0.36209604144096375]


def drawn(initialiser: init.Initialiser, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return initialiser(init.generator(0, "w"), shape)


def test_the_same_seed_and_name_give_the_same_numbers_everywhere() -> None:
    uniform = init.uniform(-1, 1)(init.generator(7, "0.weight"), (3,))
    normal = init.normal()(init.generator(7, "0.weight"), (3,))
    assert uniform.tolist() == np.array(UNIFORM, np.float32).tolist()
    assert normal.tolist() == np.array(NORMAL, np.float32).tolist()


def test_other_names_and_seeds_give_other_numbers() -> None:
    first, *others = (
        init.uniform()(init.generator(seed, name), (8,))
        for seed, name in ((0, "a"), (0, "b"), (1, "a"))
    )
    assert all((first != other).all() for other in others)


def test_constants_fill() -> None:
    assert drawn(init.constant(2.5), (2, 3)).tolist() == [[2.5] * 3] * 2
    assert (drawn(init.zeros) == 0).all()
    assert (drawn(init.ones) == 1).all()


@pytest.mark.parametrize(
    ("initialiser", "deviation"),
    [
        (init.uniform(-1, 1), 1 / math.sqrt(3)),
        (init.normal(0, 2), 2.0),
        (init.truncated_normal(), 0.8796),
        (init.xavier_uniform(gain=2), 2 * math.sqrt(2 / (FAN_IN + FAN_OUT))),
        (init.xavier_normal(), math.sqrt(2 / (FAN_IN + FAN_OUT))),
        (init.kaiming_uniform(a=math.sqrt(5)), math.sqrt(1 / 3 / FAN_IN)),
        (init.kaiming_normal(mode="fan_out", nonlinearity="relu"), math.sqrt(2 / FAN_OUT)),
    ],
    ids=["uniform", "normal", "truncated", "xavier", "xavier-n", "kaiming", "kaiming-n"],
)
def test_the_deviation_is_the_stated_one(initialiser: init.Initialiser, deviation: float) -> None:
    numbers = drawn(initialiser)
    assert numbers.dtype == np.float32
    assert numbers.std() == pytest.approx(deviation, rel=0.03)
    assert abs(numbers.mean()) < 0.02 * deviation


def test_normal_numbers_have_the_share_of_large_ones_that_they_should() -> None:
    numbers = np.abs(drawn(init.normal(), (200_000,)))
    for limit, share in ((1, 0.31731), (2, 0.04550), (3, 0.00270)):
        assert (numbers > limit).mean() == pytest.approx(share, abs=0.003)


def test_truncated_numbers_are_within_their_bounds() -> None:
    numbers = drawn(init.truncated_normal(1, 2, 0, 1.5), (1000,))
    assert 0 <= numbers.min() <= 0.01
    assert 1.49 <= numbers.max() <= 1.5


@pytest.mark.parametrize("shape", [(4, 9), (9, 4)])
def test_an_orthogonal_matrix_is_one(shape: tuple[int, int]) -> None:
    matrix = drawn(init.orthogonal(2.0), shape).astype(np.float64)
    product = matrix @ matrix.T if shape[0] < shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(4), atol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: drawn(init.xavier_normal(), (3,)), "of shape (3,) has no fan in and fan out"),
        (lambda: init.kaiming_normal(mode="in"), "no mode 'in'"),
        (lambda: init.kaiming_uniform(nonlinearity="gelu"), "no gain is known of 'gelu'"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        make()  # type: ignore[operator]
    assert message in raised.value.what
