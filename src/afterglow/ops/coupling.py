"""Probabilities of classes from those of every pair of them."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Op, op
from afterglow.ops.rules import require, require_float, require_rank
from afterglow.types import Array, TensorType


@op("pairwise_coupling")
class PairwiseCoupling(Op):
    """For each row, the probabilities of k classes that best fit given pairwise probabilities.

    `pairs[n, i, j]` is the probability of class i if the class of row n is i or j. This is the
    second method of Wu, Lin and Weng (2004) as libsvm has it: its iteration ends once the error is
    below 0.005 / k, so the result depends on these very steps.
    """

    host = True

    def infer(self, pairs: TensorType) -> TensorType:
        """A probability for each row and class."""
        require_float(pairs=pairs)
        require_rank(3, pairs=pairs)
        square = pairs.shape[1] == pairs.shape[2] > 0
        require(square, f"pairs must have a row and a column for each class, got {pairs}")
        return pairs.with_shape(pairs.shape[:2])

    def evaluate(self, pairs: Array) -> Array:
        """All rows at once; those that have settled stay as they are."""
        rows, classes, _ = pairs.shape
        if classes == 1:
            return np.ones((rows, 1), pairs.dtype)
        off_diagonal = pairs * (1 - np.eye(classes, dtype=pairs.dtype))
        form = -np.swapaxes(off_diagonal, 1, 2) * off_diagonal
        form += np.eye(classes, dtype=pairs.dtype) * (off_diagonal**2).sum(1)[:, np.newaxis]
        found = np.full((rows, classes), 1 / classes, pairs.dtype)
        for _ in range(max(100, classes)):
            product = np.einsum("nij,nj->ni", form, found)
            error = np.abs(product - (found * product).sum(1, keepdims=True)).max(1)
            active = error >= 0.005 / classes
            if not active.any():
                break
            found[active] = _improved(found[active], product[active], form[active])
        return found


def _improved(found: Array, product: Array, form: Array) -> Array:
    """Correct each class in turn; `product` is form @ found all along."""
    value = (found * product).sum(1)
    for index in range(found.shape[1]):
        step = (value - product[:, index]) / form[:, index, index]
        found[:, index] += step
        gain = step * (step * form[:, index, index] + 2 * product[:, index])
        value = (value + gain) / (1 + step) ** 2
        scale = (1 + step)[:, np.newaxis]
        product = (product + step[:, np.newaxis] * form[:, index]) / scale
        found /= scale
    return found
