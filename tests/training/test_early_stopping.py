from __future__ import annotations

import pytest

from afterglow.support.errors import UsageError
from afterglow.training.early_stopping import EarlyStopping, Watch
from afterglow.training.history import Epoch


def seen(rule, losses, name="val_loss"):
    watch = Watch(rule)
    for number, loss in enumerate(losses, 1):
        watch.see(Epoch(number, 1, 1.0, 0.1, 1.0, 1, {}, loss, {"accuracy": loss}))
    return watch


def test_it_waits_for_something_better():
    watch = seen(EarlyStopping(patience=2), [3, 2, 2, 1.9, 2])
    assert (watch.epoch, watch.waited, watch.is_over) == (4, 1, False)
    assert seen(EarlyStopping(patience=2), [3, 2, 2, 2.5]).is_over


def test_better_is_more_for_an_accuracy_and_less_for_a_loss():
    assert seen(EarlyStopping(monitor="val_accuracy"), [1, 3, 2]).epoch == 2
    assert seen(EarlyStopping(monitor="val_accuracy", mode="min"), [2, 3, 1]).epoch == 3


def test_a_little_better_is_not_better():
    assert seen(EarlyStopping(min_delta=0.5), [3, 2.6, 2.4]).epoch == 3
    assert seen(EarlyStopping(min_delta=0.5), [3, 2.6, 2.55]).epoch == 1


def test_not_a_number_is_never_better():
    assert seen(EarlyStopping(), [float("nan"), 5, float("nan")]).epoch == 2


def test_a_number_that_nothing_measures():
    with pytest.raises(UsageError) as caught:
        seen(EarlyStopping(monitor="accuracy"), [1])
    assert str(caught.value) == (
        "error: there is no 'accuracy' to watch for early stopping\n"
        "  help: an epoch has loss, val_loss, val_accuracy"
    )


def test_a_negative_difference_is_refused():
    with pytest.raises(UsageError) as caught:
        EarlyStopping(min_delta=-1)
    assert caught.value.what == "EarlyStopping: min_delta must be a number of at least 0, got -1"
