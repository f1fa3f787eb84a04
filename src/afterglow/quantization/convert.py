"""Conversion of a function from floats to integers, by the parameters of its storage points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from afterglow.graph import Builder, Constant, Function, Node, Value
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.passes import Pass
from afterglow.quantization.points import find_points
from afterglow.types import Array, DType, Quantization

MOST_BIAS = 2**30
"""Biases are below it: the sum of products must have room beside them in 32 bits."""


class WeightQuantizer(Protocol):
    """Chooses integers for the weight of an anchor, which reads a value of a storage point."""

    def __call__(self, anchor: Node, weight: Array, axis: int) -> tuple[Array, Array]:
        """Signed bytes, and the scale of each index along the axis of the results."""


class Convert(Pass):
    """Every storage point with parameters is stored as integers, which its readers dequantize.

    Weights of anchors become bytes with a scale for each column of the result, biases integers of
    32 bits. The function then reads as one that was quantized elsewhere: later passes make
    products of integers of products of dequantized values.
    """

    name = "convert"

    def __init__(
        self,
        parameters: Mapping[str, Quantization],
        dtype: DType,
        weights: WeightQuantizer,
        keep: Callable[[Node], bool] = lambda node: False,
    ) -> None:
        self.parameters = parameters
        """By the name of the point; a point without stays in floats."""
        self.dtype = dtype
        self.weights = weights
        self.keep = keep

    def run(self, function: Function) -> bool:
        """See the class."""
        if function is not function.module.main:
            return False
        points = find_points(function, self.keep)
        for value, readers in points.readers.items():
            source = points.parameters_from(value)
            if source.name in self.parameters:
                self._convert(function, value, readers, self.parameters[source.name])
        return bool(points.readers)

    def _convert(
        self,
        function: Function,
        value: Value,
        readers: list[tuple[Node, int]],
        parameters: Quantization,
    ) -> None:
        first = next(iter(function.nodes)) if value.producer is None else value.producer.after
        b = Builder(function, first, name=f"{value.name}.quantized", origin=_origin(value))
        scale = b.constant(np.array(parameters.scales[0], np.float32), f"{value.name}.scale")
        zero = b.constant(np.array(parameters.offsets[0], self.dtype.numpy), f"{value.name}.zero")
        axis = max(0, value.type.rank - 1)
        stored = b.emit(QuantizeLinear(axis, self.dtype), value, scale, zero)
        for node, index in readers:
            reader = Builder(function, node, name=f"{value.name}.real", origin=node.origin)
            real = reader.emit(DequantizeLinear(axis), stored, scale, zero)
            node.set_operand(index, real)
            if isinstance(node.op, (Conv, MatMul)):
                self._convert_weight(function, node, parameters.scales[0])

    def _convert_weight(self, function: Function, anchor: Node, input_scale: float) -> None:
        """Store the weight of an anchor as bytes, and its bias as integers of the sums' scale."""
        weight = anchor.operands[1]
        assert isinstance(weight, Constant)
        axis = _column_axis(anchor)
        bias = _bias_of(anchor)
        stored, scales = self.weights(anchor, weight.data, axis)
        b = Builder(function, anchor, name=weight.name, origin=anchor.origin)
        anchor.set_operand(1, _dequantized(b, stored, scales, axis, weight.name))
        if bias is not None:
            node, index, data = bias
            sums = np.float32(input_scale) * scales
            integers = np.rint(data.astype(np.float64) / sums)
            if np.abs(integers).max(initial=0) < MOST_BIAS:
                b = Builder(function, node, name=f"{anchor.name}.bias", origin=node.origin)
                real = _dequantized(b, integers.astype(np.int32), sums, 0, f"{anchor.name}.bias")
                node.set_operand(index, real)


def _dequantized(b: Builder, stored: Array, scales: Array, axis: int, name: str) -> Value:
    data = b.constant(stored, f"{name}.stored")
    scale = b.constant(scales.astype(np.float32), f"{name}.scale")
    return b.emit(DequantizeLinear(axis), data, scale)


def _column_axis(anchor: Node) -> int:
    """The axis of the weight that runs along the columns of the result."""
    op = anchor.op
    return int(isinstance(op, MatMul) and not op.transpose_rhs)


def _bias_of(anchor: Node) -> tuple[Node, int, Array] | None:
    """A constant with a number for each column that is added: where it is read, and its data."""
    match anchor:
        case Node(Conv(), [_, _, Constant(data)]):
            return anchor, 2, data
    match anchor.result.users:
        case [Node(Add(), [Value() as x, Constant(data)]) as add] if x is anchor.result:
            columns = anchor.result.type.shape[-1:]
            return (add, 1, data) if data.shape == columns else None
    return None


def _origin(value: Value) -> str:
    return "" if value.producer is None else value.producer.origin
