"""TFLite's reduction of windows over all axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Op, Value
from afterglow.ops.elementwise import Add, And, Max, Min, Mul, Or
from afterglow.ops.movement import Slice
from afterglow.support.errors import ModelError, UnsupportedError

MOST_ELEMENTS = 4096
"""Elements of a window, at most: each is a slice of x."""

_FUNCTIONS: dict[str, Callable[[], Op]] = {
    "ADD": Add,
    "MUL": Mul,
    "MINIMUM": Min,
    "MAXIMUM": Max,
    "ALL": And,
    "ANY": Or,
}


@tflite_op("REDUCE_WINDOW")
def reduce_window(n: TfliteNode) -> Value:
    """The elements of each window combined, and with a first value."""
    x, first = n[0], reshaped(n, n[1], ())
    kernel, strides, dilations = (n.known_ints(index) for index in (2, 3, 4))
    name = n.word("reduce_function", "UNSUPPORTED")
    rank = x.type.rank
    if name not in _FUNCTIONS:
        raise UnsupportedError(f"windows cannot be reduced by {name}")
    if not len(kernel) == len(strides) == len(dilations) == rank:
        raise ModelError(f"windows of {kernel} do not fit x: {x.type}")
    if min(*kernel, *strides, *dilations, 1) < 1 or math.prod(kernel) > MOST_ELEMENTS:
        raise UnsupportedError(f"windows of {kernel}, at most {MOST_ELEMENTS:,} elements can be")
    rows = zip(x.type.shape, kernel, strides, dilations, strict=True)
    counts = tuple(max(0, (e - (k - 1) * d - 1) // s + 1) for e, k, s, d in rows)
    result = first
    for places in product(*(range(each) for each in kernel)):
        starts = tuple(place * d for place, d in zip(places, dilations, strict=True))
        result = n.emit(_FUNCTIONS[name](), result, n.emit(Slice(starts, counts, strides), x))
    return result
