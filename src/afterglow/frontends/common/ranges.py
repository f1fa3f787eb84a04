"""Ranges of numbers, with the operands of ONNX's Range: start, limit and step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.moving import moving_range
from afterglow.frontends.definition.context import NodeContext
from afterglow.graph import Value
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.indexing import Iota
from afterglow.support.errors import ModelError
from afterglow.types import DType
from afterglow.types.dtype import f64, i64
from afterglow.types.extent import is_ranged, larger_extent, undecided

MOST_STORED = 2**17
"""Elements that are stored as a constant; more are computed when the model runs."""


def value_range(n: NodeContext) -> Value:
    """start + i * delta, computed in double precision and rounded once; integers exactly."""
    is_known = all(n.graph.known.elements(value) is not None for value in (n[0], n[1]))
    moving = None if is_known else moving_range(n, n[0], n[1], n.value_if_known(n[2]))
    if moving is not None:
        return moving
    start, limit, delta = n.known_bound(0), n.known_bound(1), n.known_number(2)
    if delta == 0 or not all(map(math.isfinite, (start, limit, delta))):
        raise ModelError(f"a range from {start} to {limit} has no step {delta}")
    return ramp(n, start, delta, range_count(start, limit, delta), n[0].type.dtype)


def ramp(n: NodeContext, start: Any, step: Any, count: int, dtype: DType) -> Value:
    """So many numbers at equal distances."""
    if not is_ranged(count) and not is_ranged(start) and count <= MOST_STORED:
        return n.constant((start + np.arange(count) * step).astype(dtype.numpy))
    wide = f64 if dtype.is_float else i64
    steps = n.emit(Iota((count,), 0, wide))
    if step != 1:
        steps = n.emit(Mul(), steps, n.constant(np.array(step, wide.numpy)))
    if is_ranged(start) or start:
        steps = n.emit(Add(), steps, _first(n, start, wide))
    return as_dtype(n, steps, dtype)


def range_count(start: Any, limit: Any, delta: Any) -> int:
    """The number of elements of a range."""
    if not is_ranged(start) and not is_ranged(limit):
        return int(max(math.ceil((limit - start) / delta), 0))
    numbers = (start, limit, delta)
    if any(number != int(number) for number in numbers if not is_ranged(number)):
        raise undecided(f"the length of a range from {start} to {limit}", start, limit)
    first, last, step = (n if is_ranged(n) else int(n) for n in numbers)
    span = last - first if step > 0 else first - last
    return larger_extent(0, (span + abs(step) - 1) // abs(step))


def _first(n: NodeContext, start: Any, dtype: DType) -> Value:
    if not is_ranged(start):
        return n.constant(np.array(start, dtype.numpy))
    return as_dtype(n, n.integers_of((start,), ()), dtype)
