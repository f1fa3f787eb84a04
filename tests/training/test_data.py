from __future__ import annotations

import numpy as np
import pytest

from afterglow.support.errors import UsageError
from afterglow.training.data import Field, Fields, batches_of, split_off

FIELDS = Fields(
    (Field("x", np.dtype("f4"), (2,)),), (Field("label", np.dtype("i8"), (), "target"),)
)
X = np.arange(14, dtype=np.float32).reshape(7, 2)
Y = np.arange(7)


def batches(data, batch=3, **options):
    defaults = {"shuffle": True, "seed": 0, "drop_last": False}
    return batches_of(data, FIELDS, batch, **{**defaults, **options})


def test_arrays_are_shuffled_anew_for_each_epoch_and_the_same_each_time():
    made = batches((X, Y))
    epochs = [[batch["label"].tolist() for batch in made.epoch(number)] for number in (1, 2, 1)]
    assert [len(labels) for labels in epochs[0]] == [3, 3, 1]
    assert sorted(np.concatenate(epochs[0])) == [*range(7)]
    assert epochs[0] == epochs[2] != epochs[1]
    first = next(made.epoch(1))
    assert (first["x"][:, 0] == 2 * first["label"]).all()


def test_an_epoch_goes_on_in_its_middle():
    made = batches((X, Y))
    whole = [batch["label"].tolist() for batch in made.epoch(3)]
    assert [batch["label"].tolist() for batch in made.epoch(3, skip=1)] == whole[1:]


def test_samples_that_fill_no_batch_are_dropped_on_request():
    made = batches((X, Y), drop_last=True, shuffle=False)
    assert [batch["label"].tolist() for batch in made.epoch(1)] == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(UsageError, match="7 samples do not fill a batch of 8"):
        batches((X, Y), 8, drop_last=True)


def test_batches_come_from_lists_and_functions():
    pairs = [(X[:3], Y[:3]), {"x": X[3:], "label": Y[3:]}]
    for source in (pairs, lambda: iter(pairs), lambda number: pairs[:number]):
        labels = [batch["label"].tolist() for batch in batches(source).epoch(2)]
        assert labels == [[0, 1, 2], [3, 4, 5, 6]]
    assert len([*batches(lambda number: pairs[:number]).epoch(1)]) == 1
    assert batches(pairs).steps == 2


def test_floats_and_integers_are_converted_to_those_of_the_model():
    made = next(batches((X.astype(np.float64), Y.astype(np.uint8))).epoch(1))
    assert made["x"].dtype == np.float32
    assert made["label"].dtype == np.int64


def test_an_iterator_serves_one_epoch():
    made = batches(iter([(X, Y)]))
    assert len([*made.epoch(1)]) == 1
    with pytest.raises(UsageError) as caught:
        next(made.epoch(2))
    assert str(caught.value) == (
        "error: the data is an iterator, which has been read: it serves one epoch\n"
        "  help: give a list of batches, or a function that returns an iterator"
    )


def test_a_share_of_samples_is_left_for_validation():
    rest, held = split_off((X, Y), FIELDS, 0.3, seed=0)
    assert (len(rest["x"]), len(held["x"])) == (5, 2)
    assert sorted([*rest["label"], *held["label"]]) == [*range(7)]
    assert (held["x"][:, 0] == 2 * held["label"]).all()
    with pytest.raises(UsageError) as caught:
        split_off((X, Y), FIELDS, 1.0, seed=0)
    assert caught.value.what == "a share of 1 of 7 samples leaves nothing on one side"
    with pytest.raises(UsageError) as caught:
        split_off([(X, Y)], FIELDS, 0.3, seed=0)
    assert caught.value.what == "only of arrays can a share of 0.3 be left for validation"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            (X[:, :1], Y),
            "input 'x' must be float32[rows, 2], got shape (7, 1)",
        ),
        (
            (X.astype(np.uint8), Y),
            "input 'x' must be float32[rows, 2], got elements of uint8",
        ),
        (
            (X, Y.astype(np.float32)),
            "target 'label' must be int64[rows], got elements of float32",
        ),
        ((X[:3], Y), "the arrays have different numbers of samples: 'x' has 3, 'label' has 7"),
        ((X[:0], Y[:0]), "the arrays have no samples"),
        ((X, Y, Y), "the data must be a pair of inputs and targets, got 3 of them"),
        (((X, X), Y), "input 'x' must be float32[rows, 2], got shape (2, 7, 2)"),
        ({"x": X}, "the arrays lack 'label'"),
        ({"x": X, "label": Y, "y": Y}, "the model knows no 'y', which is among the arrays"),
        (X, "cannot learn from an array (7, 2)"),
        (
            [X],
            "batch 1 of epoch 1 must be a pair of inputs and targets, got an array (7, 2)",
        ),
        (
            [(X, Y), (X[:, :1], Y)],
            "input 'x' of batch 2 of epoch 1 must be float32[rows, 2], got shape (7, 1)",
        ),
        (
            ([[1, 2], [3]], Y),
            "input 'x' must be float32[rows, 2], got rows of different shapes",
        ),
        (lambda: None, "the function of the data must return batches, got a NoneType"),
    ],
)
def test_data_that_does_not_fit_the_model(data, message):
    with pytest.raises(UsageError) as caught:
        [*batches(data).epoch(1)]
    assert caught.value.what == message
