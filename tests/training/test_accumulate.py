"""A batch that is learnt from in parts teaches the same as a whole one."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow import nn
from afterglow.instr import Copy
from afterglow.support.errors import UsageError
from afterglow.training.accumulate import PART, SHARE, parts_of
from afterglow.types import Array


def trainer(
    accumulate: int,
    *,
    dropout: float = 0.0,
    reduction: str = "mean",
    backend: str = "interpreter",
) -> ag.Trainer:
    layers = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 3))
    return ag.Trainer(
        layers.module({"x": (None, 6)}, seed=1),
        ag.optim.CrossEntropy(reduction=reduction),
        ag.optim.SGD(lr=0.1, momentum=0.9),
        backend=backend,
        threads=1,
        accumulate=accumulate,
    )


def data() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((12, 6)).astype(np.float32), rng.integers(0, 3, 12)


def test_parts_have_all_samples_and_shares_by_their_number() -> None:
    parts = [*parts_of({"x": np.arange(7)}, 3, summed=False)]
    assert [part["x"].tolist() for part in parts] == [[0, 1], [2, 3], [4, 5, 6]]
    assert [int(part[PART]) for part in parts] == [0, 1, 2]
    assert np.allclose([part[SHARE] for part in parts], [2 / 7, 2 / 7, 3 / 7])
    assert len([*parts_of({"x": np.arange(2)}, 3, summed=True)]) == 2


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_parts_of_a_batch_teach_the_same_as_the_whole(reduction: str) -> None:
    whole, parts = (trainer(count, reduction=reduction) for count in (1, 5))
    for _ in range(2):
        assert np.isclose(whole.step(*data()), parts.step(*data()), rtol=1e-6)
    assert parts.steps == 2
    for name, weight in whole.parameters.items():
        np.testing.assert_allclose(parts.parameters[name], weight, rtol=1e-5, atol=1e-6)


def test_gradients_are_added_in_place() -> None:
    made = trainer(3, backend="cpu")
    made.step(*data())
    programs = [function.program for function in made._programs._compiled.values()]
    assert len(programs) == 2
    assert not any(isinstance(step, Copy) for program in programs for step in program.body)


def test_each_part_drops_other_elements() -> None:
    made = trainer(2, dropout=0.5)
    x, labels = (np.concatenate([array[:6], array[:6]]) for array in data())
    assert made.step(x, labels) != trainer(1, dropout=0.5).step(x[:6], labels[:6])


def test_a_batch_has_at_least_one_part() -> None:
    with pytest.raises(UsageError) as error:
        trainer(0)
    assert str(error.value) == "error: accumulate must be a number of parts from 1 on, got 0"
