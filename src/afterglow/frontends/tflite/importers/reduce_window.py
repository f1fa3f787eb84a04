"""TFLite's reduction of windows over all axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Op, Value
from afterglow.ops.elementwise import Add, And, Max, Min, Mul, Or
from afterglow.ops.movement import slice_axis
from afterglow.support.errors import ModelError, UnsupportedError

MOST_ELEMENTS = 512
"""Elements of a window along an axis, at most: each is a slice of x."""

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
    """The elements of each window combined, one axis after the other, and with a first value."""
    x, first = n[0], reshaped(n, n[1], ())
    kernel, strides, dilations = (n.known_ints(index) for index in (2, 3, 4))
    name = n.word("reduce_function", "UNSUPPORTED")
    rank = x.type.rank
    if name not in _FUNCTIONS:
        raise UnsupportedError(f"windows cannot be reduced by {name}")
    if not len(kernel) == len(strides) == len(dilations) == rank:
        raise ModelError(f"windows of {kernel} do not fit x: {x.type}")
    if min(*kernel, *strides, *dilations, 1) < 1 or max(kernel, default=1) > MOST_ELEMENTS:
        raise UnsupportedError(f"windows of {kernel}, the limit along an axis is {MOST_ELEMENTS}")
    for axis, (extent, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=True)):
        room = x.type.shape[axis] - (extent - 1) * dilation - 1
        count = max(0, room // stride + 1)
        parts = (slice_axis(x.type, axis, i * dilation, count, stride) for i in range(extent))
        x = reduce(partial(n.emit, _FUNCTIONS[name]()), [n.emit(part, x) for part in parts])
    return n.emit(_FUNCTIONS[name](), first, x)
