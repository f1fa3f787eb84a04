"""Choosing tokens: distributions, limits and seeds."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.support.errors import ModelError
from afterglow.text.sampling import Sampler, Sampling, log_softmax, uniform
from afterglow.types import Array

LOGITS = np.log(np.array([0.1, 0.4, 0.05, 0.25, 0.2], np.float32))


def frequencies(count: int = 4000, **options: float) -> Array:
    sampler = Sampler(Sampling(seed=11, **options), 5, [])
    drawn = [sampler.choose(LOGITS, n) for n in range(count)]
    return np.bincount(drawn, minlength=5) / count


def test_uniform_numbers_are_those_of_splitmix64() -> None:
    # the first outputs for seed 1234567, as published with the generator
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [uniform(1234567, n) for n in range(3)] == [(x >> 11) / 2**53 for x in expected]


def test_temperature_0_takes_the_likeliest_and_the_first_of_equals() -> None:
    assert Sampler(Sampling(), 5, []).choose(LOGITS, 0) == 1
    assert Sampler(Sampling(), 5, []).choose(np.float32([1, 3, 2, 3, 0]), 0) == 1


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"temperature": 1.0}, [0.1, 0.4, 0.05, 0.25, 0.2]),
        ({"temperature": 0.5}, np.array([1, 16, 0.25, 6.25, 4]) / 27.5),
        ({"temperature": 1.0, "top_k": 2}, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]),
        ({"temperature": 1.0, "top_k": 9}, [0.1, 0.4, 0.05, 0.25, 0.2]),
        ({"temperature": 1.0, "top_p": 0.6}, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]),
        ({"temperature": 1.0, "top_p": 1e-9}, [0, 1, 0, 0, 0]),
        ({"temperature": 1.0, "min_p": 0.3}, [0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85]),
        ({"temperature": 1.0, "top_k": 3, "top_p": 0.9, "min_p": 0.55}, [0, 8 / 13, 0, 5 / 13, 0]),
    ],
)
def test_tokens_are_drawn_by_their_probabilities(options: dict, wanted: Array) -> None:
    np.testing.assert_allclose(frequencies(**options), wanted, atol=0.025)


def test_equal_logits_are_cut_by_token_number() -> None:
    sampler = Sampler(Sampling(temperature=1.0, top_k=2, seed=0), 4, [])
    assert {sampler.choose(np.zeros(4, np.float32), n) for n in range(50)} == {0, 1}


def test_the_repetition_penalty_is_for_tokens_of_prompt_and_text() -> None:
    sampler = Sampler(Sampling(repetition_penalty=2.0), 4, [0])
    logits = np.float32([5, 4, 3, -1])
    assert [sampler.choose(logits, n) for n in range(3)] == [1, 2, 0]
    negative = np.float32([-3, -1, -9, -1.5])
    assert Sampler(Sampling(repetition_penalty=2.0), 4, [1]).choose(negative, 0) == 3


def test_masks_forbid_tokens_however_likely() -> None:
    allowed = np.array([True, False, True, False, False])
    assert Sampler(Sampling(), 5, []).choose(LOGITS, 0, allowed) == 0
    sampler = Sampler(Sampling(temperature=9.0, seed=1), 5, [])
    assert {sampler.choose(LOGITS, n, allowed) for n in range(60)} == {0, 2}


def test_huge_logits_and_tiny_temperatures_are_no_problem() -> None:
    sampler = Sampler(Sampling(temperature=1e-9, seed=0), 3, [])
    assert sampler.choose(np.float32([1e30, -1e30, 2e30]), 0) == 2


@pytest.mark.parametrize("wrong", [np.nan, -np.inf])
def test_logits_that_are_no_numbers_are_an_error(wrong: float) -> None:
    with pytest.raises(ModelError, match="logits cannot be compared"):
        Sampler(Sampling(), 3, []).choose(np.full(3, wrong, np.float32), 0)


def test_log_probabilities_sum_to_one() -> None:
    np.testing.assert_allclose(np.exp(log_softmax(LOGITS * 50 + 700)).sum(), 1)
