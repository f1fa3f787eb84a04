"""TFLite's recurrent layers of quantized integers."""

from __future__ import annotations

from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.tflite.importers.quantized.scaling import (
    rescaled,
    scale_of,
    zero_point_of,
)
from afterglow.frontends.tflite.importers.recurrent import svdf_steps, svdf_sums
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import quantized_op
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Mul
from afterglow.ops.quantized import QuantizedMatMul
from afterglow.types.dtype import i16, i32


@quantized_op("SVDF")
def svdf(n: TfliteNode) -> tuple[Value, Value]:
    """Steps are kept with 16 bits; a rectifier is what the bounds of bytes are."""
    x, features, times, state = (scale_of(n.quantization(index)) for index in (0, 1, 2, 4))
    result = n.result_quantization()
    op = QuantizedMatMul(False, True, zero_point_of(n.quantization(0)))
    newest = rescaled(n, n.emit(op, n[0], n[1]), float(x * features / state), 0, i16)
    kept = svdf_steps(n, newest)
    products = n.emit(Mul(), n.emit(Cast(i32), kept), n.emit(Cast(i32), n[2]))
    ratio = float(state * times / scale_of(result))
    y = rescaled(n, svdf_sums(n, products), ratio, zero_point_of(result), n.result_type())
    return y, reshaped(n, kept, n[4].type.shape)
