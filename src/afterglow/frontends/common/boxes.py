"""Choosing among boxes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from afterglow.types import Array


def choose_boxes(
    boxes: Array, scores: Array, most: int, overlap: float, least: float
) -> Iterator[int]:
    """At most `most` boxes scored above `least`, best first, none like a better one."""
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > least]
    for _ in range(most):
        if not len(order):
            return
        best, order = order[0], order[1:]
        yield int(best)
        order = order[_overlap(boxes[best], boxes[order]) <= overlap]


def _overlap(box: Array, others: Array) -> Array:
    """The area that `box` shares with each other box, as a part of what both cover together."""
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    shared = np.maximum(0, high - low).prod(axis=1)
    total = (box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(axis=1) - shared
    return np.where(shared > 0, shared / np.where(total > 0, total, 1), 0)
