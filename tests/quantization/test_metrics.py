"""How far outputs are from others, by several metrics."""

from __future__ import annotations

import math

import numpy as np
import pytest

from afterglow.quantization.metrics import (
    METRICS,
    accuracy,
    cosine,
    decibels,
    divergence,
    find_metric,
    max_error,
    noise_ratio,
    perplexity,
    top1,
)
from afterglow.support.errors import UsageError
from afterglow.types import Array


def of(*rows: list[float]) -> list[list[Array]]:
    """The only output of some samples."""
    return [[np.array([row], np.float32)] for row in rows]


def test_the_same_outputs_lose_nothing() -> None:
    outputs = of([1, 2], [3, -4])
    assert [loss(outputs, outputs) for loss in METRICS.values()] == pytest.approx([0, 0, 0, 0])


def test_similarity_is_a_mean_over_samples() -> None:
    assert cosine(of([1, 0], [1, 0]), of([0, 1], [2, 0])) == 0.5


def test_the_output_that_is_least_similar_counts() -> None:
    one = [np.array([1.0, 0.0]), np.array([1.0, 0.0])]
    other = [np.array([1.0, 0.0]), np.array([0.0, 1.0])]
    assert cosine([one], [other]) == 0


def test_single_numbers_are_compared_over_all_samples() -> None:
    assert cosine(of([1], [0]), of([0], [1])) == 0
    assert cosine(of([3], [4]), of([6], [8])) == 1


def test_errors_are_parts_of_the_largest_number() -> None:
    assert max_error(of([1, 2], [3, -4]), of([1, 2.5], [3, -3])) == 0.25


def test_agreement_counts_rows() -> None:
    assert top1(of([1, 2], [3, -4]), of([1, 2.5], [3, 4])) == 0.5
    assert accuracy(of([1, 2], [3, -4]), np.array([1, 1])) == 0.5


def test_distributions_diverge_whether_they_are_given_or_their_logarithms() -> None:
    one, other = [0.5, 0.5, 0.0], [0.25, 0.75, 0.0]
    expected = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert divergence(of(one), of(other)) == pytest.approx(expected)
    logits = [[math.log(max(p, 1e-12)) + 7 for p in row] for row in (one, other)]
    assert divergence(of(logits[0]), of(logits[1])) == pytest.approx(expected)
    assert divergence(of(one), of(one)) == 0
    assert divergence(of([1, 2]), of([1, 2, 3])) == math.inf


def test_perplexity_is_what_is_left_open() -> None:
    assert perplexity(of([0.25, 0.75], [0.5, 0.5]), np.array([0, 1])) == pytest.approx(8**0.5)
    assert perplexity(of([3.0, 3.0, 3.0]), np.array([[2]])) == pytest.approx(3)
    with pytest.raises(UsageError, match="there are 1 labels for 2 rows of the output"):
        perplexity(of([1, 2], [3, -4]), np.array([1]))


def test_other_shapes_and_what_is_not_finite_are_as_far_as_can_be() -> None:
    pair = of([1, 2]), of([1, 2, 3])
    assert (cosine(*pair), max_error(*pair), top1(*pair)) == (0, math.inf, 0)
    assert noise_ratio(pair[0][0], pair[1][0]) == 1
    strange = of([1, math.nan])
    assert (cosine(strange, strange), max_error(strange, strange)) == (1, 0)
    assert max_error(of([1, 2]), strange) == math.inf
    assert cosine(of([0, 0]), of([0, 0])) == 1


def test_integers_among_the_outputs_are_left_out() -> None:
    one, other = [np.array([1]), np.array([1.0])], [np.array([2]), np.array([1.0])]
    assert [loss([one], [other]) for loss in METRICS.values()] == [0, 0, 0, 0]


def test_noise_is_relative_and_in_decibels() -> None:
    assert noise_ratio([np.array([3.0, 4.0])], [np.array([3.0, 4.5])]) == 0.01
    assert decibels(0.01) == pytest.approx(20)
    assert decibels(0) == math.inf


def test_wrong_metrics_and_labels_are_explained() -> None:
    assert find_metric(max_error) is max_error
    with pytest.raises(UsageError, match="no metric 'mse'") as caught:
        find_metric("mse")
    assert caught.value.help.startswith("there are cosine, max_error, top1, divergence; or give a")
    with pytest.raises(UsageError, match="there are 1 labels for 2 rows of the output"):
        accuracy(of([1, 2], [3, -4]), np.array([1]))
