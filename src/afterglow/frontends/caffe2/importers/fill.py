"""Caffe2's operators that fill a blob without data of the file."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op
from afterglow.frontends.common.ranges import value_range
from afterglow.graph import Value
from afterglow.ops.fill import Fill
from afterglow.support.errors import ModelError
from afterglow.types import TensorType
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
    if not 1 <= len(n) <= 3:
        raise ModelError(f"it takes from 1 to 3 inputs, it has {len(n)}")
    dtype = n[0].type.dtype.numpy
    start = n.constant(np.zeros((), dtype)) if len(n) == 1 else n[0]
    step = n[2] if len(n) == 3 else n.constant(np.ones((), dtype))
    return value_range(n.with_operands(start, n[min(1, len(n) - 1)], step))


@caffe2_op("LengthsRangeFill")
def lengths_range(n: Caffe2Node) -> Value:
    """0, 1, 2 … for each length, one after the other."""
    lengths = n.known_ints(0)
    n.check_size(TensorType(d.i32, (sum(max(0, length) for length in lengths),)))
    parts = [np.arange(length, dtype=np.int32) for length in lengths]
    return n.constant(np.concatenate([np.zeros(0, np.int32), *parts]))
