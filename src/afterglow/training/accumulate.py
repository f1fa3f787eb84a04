"""Gradient accumulation: a step learns from parts of its batch, which run one after the other.

Each part adds its gradients, in place, to states that hold their sums; the last one updates the
weights by them. So a large batch takes little more memory than one of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from afterglow.graph import Builder, Function, Value
from afterglow.graph.value import Placeholder
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Equal, Mul, Where, scalar
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32, i64

PART = "part"
SHARE = "share"
MOST_PARTS = 2**20
"""A batch has fewer parts; random numbers of each are others."""


@dataclass(frozen=True)
class Accumulation:
    """What a step knows of the part of a batch that it learns from."""

    part: Placeholder
    """Its number, from 0 on."""
    share: Placeholder
    """The factor of its loss in that of the batch."""
    is_last: bool

    @staticmethod
    def declare(main: Function, *, is_last: bool) -> Accumulation:
        """Add the inputs to a function."""
        part = main.input(PART, TensorType(i64, ()))
        return Accumulation(part, main.input(SHARE, TensorType(f32, ())), is_last)

    def number(self, main: Function, step: Value) -> Value:
        """A number that every part of every step has alone."""
        b = Builder(main, next(main.nodes, None))
        return b.emit(Add(), b.emit(Mul(), step, scalar(b, MOST_PARTS, step)), self.part)

    def sums(self, b: Builder, slopes: Mapping[str, Value]) -> dict[str, tuple[Placeholder, Value]]:
        """Emit gradients of the batch as far as it is known; each with the state that holds it."""
        first = b.emit(Equal(), self.part, scalar(b, 0, self.part))
        found = {}
        for name, slope in slopes.items():
            held = b.function.module.state(f"{name}.gradient", slope.type)
            before = b.emit(Where(), first, scalar(b, 0.0, held), held)
            same = slope.type.dtype is self.share.type.dtype
            share = self.share if same else b.emit(Cast(slope.type.dtype), self.share)
            found[name] = held, b.emit(Add(), before, b.emit(Mul(), slope, share))
        return found


def parts_of(batch: Mapping[str, Array], count: int, *, summed: bool) -> Iterator[dict[str, Array]]:
    """Parts of a batch with about as many samples each, and what a step must know of them.

    If the loss is summed, so are those of parts; otherwise each counts by its samples.
    """
    rows = len(next(iter(batch.values())))
    count = min(count, rows)
    ends = [rows * index // count for index in range(count + 1)]
    for number, (start, end) in enumerate(pairwise(ends)):
        share = 1.0 if summed else (end - start) / rows
        yield {
            **{name: array[start:end] for name, array in batch.items()},
            PART: np.asarray(number, np.int64),
            SHARE: np.asarray(share, np.float32),
        }
