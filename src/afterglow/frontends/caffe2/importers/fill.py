"""Caffe2's operators that fill a blob without data of the file."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op
from afterglow.graph import Value
from afterglow.ops.fill import Fill
from afterglow.support.errors import ModelError
from afterglow.types import dtype as d


def _shape(n: Caffe2Node) -> tuple[int, ...]:
    """As given, or that of the operand, or its elements; extra extents come behind."""
    extra = n.integers("extra_shape", ())
    if not len(n):
        return (*n.integers("shape", ()), *extra)
    if n.flag("input_as_shape"):
        return (*n.known_extents(0), *extra)
    return (*n[0].type.shape, *extra)


@caffe2_op("ConstantFill")
def constant_fill(n: Caffe2Node) -> Value:
    """A number for all elements, of f32 unless told otherwise."""
    shape, dtype = _shape(n), n.dtype("dtype", d.f32)
    if any(extent < 0 for extent in shape):
        raise ModelError(f"a blob cannot have the shape {shape}")
    if dtype is d.string:
        raise n.fail("texts are not supported")
    return n.emit(Fill(shape, n.number("value", 0.0), dtype))


@caffe2_op("Range")
def numbers(n: Caffe2Node) -> Value:
    """From start to stop in steps; one operand is where it stops."""
    bounds = [n.known_number(index) for index in range(len(n))]
    if not 1 <= len(bounds) <= 3 or (len(bounds) == 3 and not bounds[2]):
        raise ModelError(f"there is no range of {bounds}")
    return n.constant(np.arange(*bounds).astype(n[0].type.dtype.numpy))


@caffe2_op("LengthsRangeFill")
def lengths_range(n: Caffe2Node) -> Value:
    """0, 1, 2 … for each length, one after the other."""
    parts = [np.arange(length, dtype=np.int32) for length in n.known_ints(0)]
    return n.constant(np.concatenate([np.zeros(0, np.int32), *parts]))
