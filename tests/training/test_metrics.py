from __future__ import annotations

import numpy as np
import pytest

from afterglow.support.errors import UsageError
from afterglow.training.metrics import Means, Metric, metrics_of

LOGITS = np.float32([[3, 1, 2], [0, 5, 1], [1, 2, 4], [9, 8, 7]])
LABELS = np.array([0, 1, 1, 2])


def measured(metric, outputs, targets):
    means = Means([Metric.of(metric)])
    means.add(0.0, len(targets), outputs, targets)
    (value,) = means.values.values()
    return value


@pytest.mark.parametrize(("name", "share"), [("accuracy", 0.5), ("top2", 0.75), ("top_3", 1.0)])
def test_classes_are_counted_that_are_right(name, share):
    assert measured(name, LOGITS, LABELS) == share
    assert measured(name, LOGITS, np.eye(3, dtype=np.float32)[LABELS]) == share


def test_classes_may_be_along_the_second_axis_and_labels_below_zero_are_ignored():
    images = LOGITS.reshape(2, 2, 3).transpose(0, 2, 1)
    assert measured("accuracy", images, np.array([[0, -100], [1, 2]])) == 1 / 3


def test_perplexity_is_the_exponential_of_the_mean_over_all_batches():
    odds = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
    means = Means(metrics_of("perplexity"))
    for rows in (slice(0, 3), slice(3, 4)):
        means.add(0.0, 1, LOGITS[rows], LABELS[rows])
    wanted = np.exp(-np.log(odds[np.arange(4), LABELS]).mean())
    assert means.values["perplexity"] == pytest.approx(wanted, rel=1e-6)


def test_errors_of_numbers():
    found, wanted = np.float32([[1, 2], [3, 4]]), np.float32([[1, 0], [3, 0]])
    assert measured("mse", found, wanted) == 5
    assert measured("rmse", found, wanted) == np.sqrt(5)
    assert measured("mae", found, wanted) == 1.5
    assert measured("binary_accuracy", found - 3, wanted) == 0.25


def test_batches_count_by_their_size():
    def largest(outputs, targets):
        return outputs.max()

    means = Means(metrics_of([largest, "mae"]))
    means.add(1.0, 3, np.float32([1, 2, 3]), np.zeros(3, np.float32))
    means.add(3.0, 1, np.float32([7]), np.zeros(1, np.float32))
    assert (means.loss, means.samples) == (1.5, 4)
    assert means.values == {"largest": 4.0, "mae": 3.25}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "acuracy",
            "error: there is no metric 'acuracy'\n  help: the names are accuracy, "
            "binary_accuracy, perplexity, mse, rmse, mae and topK, such as top5",
        ),
        (
            ["mse", "mse"],
            "error: a metric cannot be called 'mse': something else is called so\n"
            "  help: give a function of another name, or a Metric",
        ),
    ],
)
def test_metrics_that_do_not_exist(given, message):
    with pytest.raises(UsageError) as caught:
        metrics_of(given)
    assert str(caught.value) == message


def test_labels_of_another_shape():
    with pytest.raises(UsageError) as caught:
        measured("accuracy", LOGITS, np.zeros((4, 2), np.int64))
    assert caught.value.what == (
        "accuracy needs a score for each class and the number of the right one, "
        "got outputs (4, 3) and targets (4, 2)"
    )


def test_a_function_that_gives_no_number():
    def name_of(outputs, targets):
        return "cat"

    with pytest.raises(UsageError) as caught:
        measured(name_of, LOGITS, np.zeros(4, np.int64))
    assert caught.value.what == "metric 'name_of' must return a number, got 'cat'"
