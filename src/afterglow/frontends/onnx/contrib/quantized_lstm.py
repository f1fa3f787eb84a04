"""The com.microsoft domain: LSTM layers whose products are those of bytes."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.linear import multiply
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.contrib.fused import MICROSOFT, plus
from afterglow.frontends.onnx.importers.linear import above_zero_point
from afterglow.frontends.onnx.importers.quantization import dynamic_quantize, rescale
from afterglow.frontends.onnx.importers.recurrent import LSTM_ACTIVATIONS, Layer, lstm
from afterglow.frontends.onnx.registry import Results, onnx_op
from afterglow.graph import Value
from afterglow.ops.elementwise import Mul, Sub
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.quantized_lstm import QuantizedLSTM
from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

WEIGHT, RECURRENCE = 1, 2
LENGTHS, INITIAL_H, INITIAL_C, PEEPHOLES = 4, 5, 6, 7
SCALES = {WEIGHT: 8, RECURRENCE: 10}
"""Where the scales of weights come, each followed by its zero points."""


@onnx_op("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(n: NodeContext) -> Results:
    """Products of bytes: the inputs have one range, and the state of each sequence its own.

    Weights that are not constant, or met by peepholes or coupled gates, are dequantized.
    """
    layer = Layer(n, LSTM_ACTIVATIONS)
    found = _Recurrence.of(n)
    if found is None or n.get(PEEPHOLES) is not None or n.integer("input_forget", 0):
        w, r = (_gates_first(n, index) for index in (WEIGHT, RECURRENCE))
        return lstm(n.with_operands(n[0], w, r, *n.operands[3:8]))
    x = dynamic_quantize(n, n[0])
    return layer.joined(
        _direction(n, layer, x, recurrence, i) for i, recurrence in enumerate(found)
    )


def _direction(
    n: NodeContext,
    layer: Layer,
    x: tuple[Value, Value, Value],
    recurrence: _Recurrence,
    index: int,
) -> tuple[Value, ...]:
    """Run one direction, given the quantized inputs with their scale and zero point."""
    stored, scale, zero = x
    scales, zeros = _by_direction(n, WEIGHT)
    own = None if zeros is None else layer.part(zeros, index)
    weight, factors = layer.part(n[WEIGHT], index), layer.part(scales, index)
    assert weight is not None
    assert factors is not None
    lhs = above_zero_point(n, stored, zero, axis=-2)
    sums = multiply(n, lhs, above_zero_point(n, weight, own, axis=-1))
    gates = plus(n, rescale(n, sums, (scale, factors)), layer.bias(index))
    op = QuantizedLSTM(**layer.attributes(index), recurrence_zero_point=recurrence.zero_point)
    return n.emit_all(
        op,
        gates,
        n.constant(recurrence.stored, f"{n.proto.name}.recurrence"),
        n.constant(recurrence.scales, f"{n.proto.name}.recurrence_scale"),
        n.get(LENGTHS),
        layer.state(INITIAL_H, index),
        layer.state(INITIAL_C, index),
    )


@dataclass(frozen=True)
class _Recurrence:
    """The recurrent weights of a direction as signed bytes, [gates, states]."""

    stored: Array
    zero_point: int
    scales: Array

    @staticmethod
    def of(n: NodeContext) -> list[_Recurrence] | None:
        """Those of all directions; None if they are not constant, or do not fit."""
        scales, zeros = _by_direction(n, RECURRENCE)
        known = [n.value_if_known(part) for part in (n[RECURRENCE], scales)]
        points = np.zeros((1, 1)) if zeros is None else n.value_if_known(zeros)
        weight, factors = known
        if weight is None or factors is None or points is None:
            return None
        above = weight.astype(np.int32) - points.astype(np.int32)[:, None]
        found = [_Recurrence._signed(*part) for part in zip(above, factors, strict=True)]
        fitting = [part for part in found if part is not None]
        return fitting if len(fitting) == len(found) else None

    @staticmethod
    def _signed(above: Array, factors: Array) -> _Recurrence | None:
        """Weights less their zero points, [states, gates]: with one zero point they may fit."""
        least, most = int(above.min(initial=0)), int(above.max(initial=0))
        point = 0 if least >= -128 and most <= 127 else -128 - least
        if point + most > 127 or not -128 <= point <= 127:
            return None
        scales = np.broadcast_to(factors, above.shape[1:]).astype(np.float32)
        stored = np.ascontiguousarray((above + point).T.astype(np.int8))
        return _Recurrence(stored, point, np.ascontiguousarray(scales))


def _by_direction(n: NodeContext, index: int) -> tuple[Value, Value | None]:
    """The scales and the zero points of a weight, [directions, 1 or gates]."""
    zero = n.get(SCALES[index] + 1)
    return _shaped(n, index, n[SCALES[index]]), None if zero is None else _shaped(n, index, zero)


def _shaped(n: NodeContext, index: int, value: Value) -> Value:
    directions, _, gates = n.extents(n[index], 3)
    if value.type.size not in (directions, directions * gates):
        raise ModelError(f"scales {value.type} do not fit the weights {n[index].type}")
    return n.emit(Reshape((directions, value.type.size // max(1, directions))), value)


def _gates_first(n: NodeContext, index: int) -> Value:
    """Weights [directions, inputs, gates] as real numbers [directions, gates, inputs]."""
    weight, (scale, zero) = n[index], _by_direction(n, index)
    shape = (scale.type.shape[0], 1, scale.type.shape[1])
    wide = as_dtype(n, weight, scale.type.dtype)
    if zero is not None:
        point = n.emit(Reshape((zero.type.shape[0], 1, zero.type.shape[1])), zero)
        wide = n.emit(Sub(), wide, as_dtype(n, point, scale.type.dtype))
    real = n.emit(Mul(), wide, n.emit(Reshape(shape), scale))
    return n.emit(Transpose((0, 2, 1)), real)
