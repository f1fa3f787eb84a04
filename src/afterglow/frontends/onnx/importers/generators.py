"""ONNX's ops that make tensors from attributes and known inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from afterglow.frontends.common.movement import integer_constant
from afterglow.frontends.common.ranges import MOST_STORED, value_range
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.limits import check_table
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Equal
from afterglow.ops.indexing import Iota
from afterglow.ops.movement import Expand
from afterglow.support.errors import ModelError
from afterglow.types.dtype import f32, i64

_PLAIN_CONSTANTS: dict[str, np.dtype[Any]] = {
    "value_float": np.dtype(np.float32),
    "value_floats": np.dtype(np.float32),
    "value_int": np.dtype(np.int64),
    "value_ints": np.dtype(np.int64),
    "value_string": np.dtype(np.object_),
    "value_strings": np.dtype(np.object_),
}

_PLAIN_READERS: dict[str, Callable[[NodeContext, str], object]] = {
    "value_float": NodeContext.number,
    "value_floats": NodeContext.numbers,
    "value_int": NodeContext.integer,
    "value_ints": NodeContext.integers,
    "value_string": NodeContext.text,
    "value_strings": NodeContext.texts,
}


@onnx_op("Constant")
def constant(n: NodeContext) -> Value:
    """A tensor, a sparse tensor, or numbers and strings as they are."""
    if n.has("value"):
        return n.constant(n.tensor("value"))
    if n.has("sparse_value"):
        return n.constant(n.sparse_tensor("sparse_value"))
    for name, dtype in _PLAIN_CONSTANTS.items():
        if n.has(name):
            return n.constant(np.array(_PLAIN_READERS[name](n, name), dtype))
    raise n.fail("a Constant must have a value")


@onnx_op("ConstantOfShape")
def constant_of_shape(n: NodeContext) -> Value:
    """One value, expanded."""
    value = n.tensor("value") if n.has("value") else np.zeros(1, np.float32)
    if value.size != 1:
        raise ModelError(f"attribute 'value' must hold one element, it holds {value.size}")
    shape = n.known_extents(0)
    if any(extent < 0 for extent in shape):
        raise ModelError(f"a shape has no negative extents, got {shape}")
    return n.emit(Expand(shape), n.constant(value.reshape(())))


@onnx_op("EyeLike")
def eye_like(n: NodeContext) -> Value:
    """Ones on a diagonal."""
    rows, columns = n.extents(n[0], 2)
    dtype, offset = n.dtype("dtype", n[0].type.dtype), n.integer("k", 0)
    if not n[0].type.is_ranged and rows * columns <= MOST_STORED:
        return n.constant(np.eye(rows, columns, offset).astype(dtype.numpy))
    downwards, across = n.emit(Iota((rows, 1), 0, i64)), n.emit(Iota((1, columns), 1, i64))
    diagonal = n.emit(Add(), downwards, integer_constant(n, offset))
    return n.emit(Cast(dtype), n.emit(Equal(), diagonal, across))


onnx_op("Range")(value_range)


@onnx_op("HannWindow")
def hann_window(n: NodeContext) -> Value:
    """A raised cosine."""
    return _window(n, 0.5, 0.5, 0.0)


@onnx_op("HammingWindow")
def hamming_window(n: NodeContext) -> Value:
    """A raised cosine on a pedestal."""
    return _window(n, 25 / 46, 21 / 46, 0.0)


@onnx_op("BlackmanWindow")
def blackman_window(n: NodeContext) -> Value:
    """Two raised cosines."""
    return _window(n, 0.42, 0.5, 0.08)


def _window(n: NodeContext, mean: float, first: float, second: float) -> Value:
    """mean - first cos(t) + second cos(2 t), over one turn: whole, or up to the last sample."""
    size = n.known_int(0)
    check_table(size)
    span = size if n.integer("periodic", 1) else size - 1
    turn = 2 * np.pi * np.arange(size) / span
    window = mean - first * np.cos(turn) + second * np.cos(2 * turn)
    return n.constant(window.astype(n.dtype("output_datatype", f32).numpy))


@onnx_op("MelWeightMatrix")
def mel_weight_matrix(n: NodeContext) -> Value:
    """Triangles that are equally wide on the mel scale, one a column, over the spectrum's bins."""
    bands, length, rate = (n.known_int(i) for i in range(3))
    check_table((bands + 2) * (length // 2 + 1))
    low, high = (2595 * np.log10(1 + n.known_number(i) / 700) for i in (3, 4))
    mels = low + np.arange(bands + 2) * (high - low) / (bands + 2)
    hertz = 700 * (10 ** (mels / 2595) - 1)
    edges = ((length + 1) * hertz // rate).astype(np.int64)
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    bins = np.arange(length // 2 + 1)[:, np.newaxis]
    rising = np.where(centre > left, (bins - left) / np.maximum(centre - left, 1), bins == centre)
    falling = (right - bins) / np.maximum(right - centre, 1)
    weights = np.where((bins >= left) & (bins <= centre), rising, 0.0)
    weights = np.where((bins >= centre) & (bins < right), falling, weights)
    return n.constant(weights.astype(n.dtype("output_datatype", f32).numpy))
