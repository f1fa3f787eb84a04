"""Probabilities of classes from those of pairs."""

from __future__ import annotations

import numpy as np

from afterglow.ops.coupling import PairwiseCoupling


def test_consistent_pairs_give_back_the_probabilities_that_they_came_from() -> None:
    classes = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.34, 0.33, 0.33]])
    pairs = classes[:, :, np.newaxis] / (classes[:, :, np.newaxis] + classes[:, np.newaxis])
    np.testing.assert_allclose(PairwiseCoupling().evaluate(pairs), classes, atol=0.01)


def test_rows_do_not_depend_on_each_other() -> None:
    pairs = np.random.default_rng(2).uniform(0.05, 0.95, (6, 4, 4))
    pairs = np.where(np.triu(np.ones((4, 4))) > 0, pairs, 1 - np.swapaxes(pairs, 1, 2))
    together = PairwiseCoupling().evaluate(pairs)
    alone = [PairwiseCoupling().evaluate(pairs[i : i + 1])[0] for i in range(6)]
    np.testing.assert_allclose(together, alone, 1e-12)
    np.testing.assert_allclose(together.sum(1), 1)
