"""Caffe2's int8 operators: real numbers as bytes, whose scale and zero point are known.

Each is the operator of the same name on what its operands stand for, quantized again by its own
scale and zero point; the optimiser makes integer arithmetic of that. What operands stand for comes
as attributes that the translation adds: `scales.0` and `zero_points.0` for the first one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from afterglow.frontends.caffe2.importers import (
    activation,
    convolution,
    elementwise,
    image,
    linear,
    movement,
    pooling,
)
from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op
from afterglow.frontends.common.quantization import dequantize, quantize
from afterglow.frontends.definition.dialect import Results
from afterglow.graph import Value
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Sub
from afterglow.support.errors import ModelError
from afterglow.types import dtype as d

_FLOAT: dict[str, Callable[[Caffe2Node], Results]] = {
    "Int8Conv": convolution.conv,
    "Int8ConvRelu": convolution.conv_relu,
    "Int8ConvTranspose": convolution.conv_transpose,
    "Int8FC": linear.dense,
    "Int8FCRelu": linear.dense_relu,
    "Int8Relu": activation.plain,
    "Int8Sigmoid": activation.plain,
    "Int8LeakyRelu": activation.leaky_relu,
    "Int8Softmax": activation.softmax,
    "Int8Add": elementwise.variadic,
    "Int8Sum": elementwise.variadic,
    "Int8AveragePool": pooling.average_pool,
    "Int8MaxPool": pooling.max_pool,
    "Int8Flatten": movement.flatten,
    "Int8Reshape": movement.reshape,
    "Int8Transpose": movement.transpose,
    "Int8Slice": movement.slice_op,
    "Int8Concat": movement.concat,
    "Int8ChannelShuffle": movement.channel_shuffle,
    "Int8ResizeNearest": image.resize_nearest,
}
"""Each with the importer of what it does to real numbers."""
_RECTIFIED = {
    "Int8AddRelu": elementwise.variadic,
    "Int8SumRelu": elementwise.variadic,
    "Int8AveragePoolRelu": pooling.average_pool,
    "Int8MaxPoolRelu": pooling.max_pool,
}
"""The same, with what follows them."""


def _real(n: Caffe2Node, index: int) -> Value | None:
    """What an operand stands for: itself, if it is no integer."""
    value = n.get(index)
    if value is None or not value.type.dtype.is_integer or value.type.dtype is d.i64:
        return value
    scales, zeros = n.numbers(f"scales.{index}", ()), n.integers(f"zero_points.{index}", ())
    if not scales:
        raise ModelError(f"there is no scale for input {index}, {n.proto.input[index]!r}")
    limits = np.iinfo(value.type.dtype.numpy)
    if not all(limits.min <= zero <= limits.max for zero in zeros):
        raise ModelError(f"the zero points of input {index} are {zeros}, it is {value.type}")
    zero_points: Value | None = n.constant(np.array(_one(zeros), value.type.dtype.numpy))
    if value.type.dtype is d.i32:
        value = n.emit(Sub(), value, zero_points) if any(zeros) else value
        zero_points = None
    scale = n.constant(np.array(_one(scales), np.float32))
    return dequantize(n, value, scale, zero_points, axis=0)


def _one(numbers: tuple[float, ...]) -> float | tuple[float, ...]:
    return numbers[0] if len(numbers) == 1 else numbers


def _quantized(n: Caffe2Node, x: Value) -> Value:
    """Bytes for real numbers, by the operator's own scale, or that of its first operand."""
    scales, zeros = n.numbers("scales.0", ()), n.integers("zero_points.0", ())
    scale = n.number("Y_scale", scales[0] if scales else 0.0)
    zero = n.integer("Y_zero_point", zeros[0] if zeros else 0)
    if not scale > 0 or not 0 <= zero <= 255:
        raise ModelError(f"a scale of {scale} and a zero point of {zero} cannot be")
    parts = np.array(scale, np.float32), np.array(zero, np.uint8)
    return quantize(n, x, *(n.constant(part) for part in parts))


def _with_real_operands(n: Caffe2Node) -> Caffe2Node:
    real = n.with_operands(*(_real(n, index) for index in range(len(n))))
    assert isinstance(real, Caffe2Node)
    return real


def _first_of(results: Results) -> Value:
    value = results if isinstance(results, Value) else results[0]  # type: ignore[index]  # a tuple
    assert isinstance(value, Value)
    return value


@caffe2_op(*_FLOAT)
def on_real_numbers(n: Caffe2Node) -> Value:
    """What the operator without Int8 does."""
    return _quantized(n, _first_of(_FLOAT[n.proto.op_type](_with_real_operands(n))))


@caffe2_op(*_RECTIFIED)
def rectified(n: Caffe2Node) -> Value:
    """The same, rectified."""
    result = _first_of(_RECTIFIED[n.proto.op_type](_with_real_operands(n)))
    return _quantized(n, n.emit(Relu(), result))


@caffe2_op("Int8Quantize")
def int8_quantize(n: Caffe2Node) -> Value:
    """Bytes for real numbers."""
    return _quantized(n, n[0])


@caffe2_op("Int8Dequantize")
def int8_dequantize(n: Caffe2Node) -> Value:
    """The real numbers that bytes stand for."""
    return _real(n, 0) or n[0]
