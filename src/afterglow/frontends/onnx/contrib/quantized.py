"""The com.microsoft domain: ops on quantized numbers."""

from __future__ import annotations

from afterglow.frontends.common.layout import to_channels_first, to_channels_last
from afterglow.frontends.common.linear import multiply
from afterglow.frontends.common.quantization import dequantize, quantize
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.contrib.fused import MICROSOFT, embed_layer_norm, plus
from afterglow.frontends.onnx.importers.convolution import qlinear_conv
from afterglow.frontends.onnx.importers.linear import above_zero_point
from afterglow.frontends.onnx.importers.quantization import (
    dequantize_linear,
    dynamic_quantize,
    quantize_linear,
    rescale,
)
from afterglow.frontends.onnx.importers.windows import read_windows
from afterglow.frontends.onnx.registry import Results, onnx_op
from afterglow.graph import Op, Value
from afterglow.ops.activation import LeakyRelu, Sigmoid
from afterglow.ops.elementwise import Add, Mul, Where, scalar
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat
from afterglow.ops.pooling import AvgPool
from afterglow.ops.reduction import ReduceMean
from afterglow.ops.softmax import Softmax
from afterglow.types import DType

onnx_op("QuantizeLinear", domain=MICROSOFT)(quantize_linear)
onnx_op("DequantizeLinear", domain=MICROSOFT)(dequantize_linear)

_BINARY: dict[str, type[Op]] = {"QLinearAdd": Add, "QLinearMul": Mul}


def _real(n: NodeContext, first: int) -> Value:
    """Inputs `first` to `first` + 2, quantized numbers with scale and zero point, as real ones."""
    return dequantize(n, n[first], n[first + 1], n.get(first + 2))


def _stored(n: NodeContext, y: Value, first: int, dtype: DType) -> Value:
    """`y` by the scale that is input `first` and the zero point that follows it."""
    return quantize(n, y, n[first], n.get(first + 1), dtype=dtype)


@onnx_op(*_BINARY, domain=MICROSOFT)
def qlinear_binary(n: NodeContext) -> Value:
    """Dequantize, apply the op, quantize."""
    y = n.emit(_BINARY[n.proto.op_type](), _real(n, 0), _real(n, 3))
    return _stored(n, y, 6, n[0].type.dtype)


@onnx_op("QLinearSigmoid", domain=MICROSOFT)
def qlinear_sigmoid(n: NodeContext) -> Value:
    """Dequantize, apply the op, quantize."""
    return _stored(n, n.emit(Sigmoid(), _real(n, 0)), 3, n[0].type.dtype)


@onnx_op("QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_leaky_relu(n: NodeContext) -> Value:
    """Dequantize, apply the op, quantize."""
    op = LeakyRelu(n.number("alpha", 0.01))
    return _stored(n, n.emit(op, _real(n, 0)), 3, n[0].type.dtype)


@onnx_op("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(n: NodeContext) -> Value:
    """Dequantize, softmax along one axis, quantize."""
    x, axis = n[0], n.integer("axis", -1)
    if n.integer("opset") < 13 and axis not in (-1, x.type.rank - 1):
        raise n.fail("a softmax over several axes is not supported")
    return _stored(n, n.emit(Softmax(axis), _real(n, 0)), 3, x.type.dtype)


@onnx_op("QLinearAveragePool", domain=MICROSOFT)
def qlinear_average_pool(n: NodeContext) -> Value:
    """Dequantize, apply the op, quantize."""
    last = bool(n.integer("channels_last", 0))
    x = _real(n, 0) if last else to_channels_last(n, _real(n, 0))
    w = read_windows(n, n.integers("kernel_shape"), x.type.shape[1:-1])
    counted = bool(n.integer("count_include_pad", 0))
    y = n.emit(AvgPool(w.kernel, w.strides, w.pads, w.dilations, w.ceil_mode, counted), x)
    return _stored(n, y if last else to_channels_first(n, y), 3, n[0].type.dtype)


@onnx_op("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_average_pool(n: NodeContext) -> Value:
    """Dequantize, apply the op, quantize."""
    first = 1 if n.integer("channels_last", 0) else 2
    axes = tuple(range(first, first + n[0].type.rank - 2))
    return _stored(n, n.emit(ReduceMean(axes), _real(n, 0)), 3, n[0].type.dtype)


@onnx_op("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(n: NodeContext) -> Value:
    """Inputs: scale and zero point of the result, then tensor, scale, zero point of each part."""
    parts = [_real(n, first) for first in range(2, len(n), 3)]
    return _stored(n, n.emit(Concat(n.integer("axis")), *parts), 0, n[2].type.dtype)


@onnx_op("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(n: NodeContext) -> Value:
    """Inputs: float a; quantized b with scale and zero point; a bias."""
    a, scale, zero = dynamic_quantize(n, n[0])
    total = multiply(
        n, above_zero_point(n, a, zero, axis=-2), above_zero_point(n, n[1], n.get(3), axis=-1)
    )
    return plus(n, rescale(n, total, (scale, n[2])), n.get(4))


@onnx_op("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(n: NodeContext) -> Value:
    """Inputs: quantized a and b, their scales, their zero points, a bias."""
    lhs = above_zero_point(n, n[0], n.get(4), axis=-2)
    rhs = above_zero_point(n, n[1], n.get(5), axis=-1)
    return plus(n, rescale(n, multiply(n, lhs, rhs), (n[2], n[3])), n.get(6))


@onnx_op("QGemm", domain=MICROSOFT)
def qgemm(n: NodeContext) -> Value:
    """Inputs: a and b with scale and zero point each, integer c, scale and zero point of y."""
    columns = -2 if n.integer("transB", 0) else -1
    lhs = above_zero_point(n, n[0], n[2], axis=-2)
    rhs = above_zero_point(n, n[3], n.get(5), axis=columns)
    op = MatMul(bool(n.integer("transA", 0)), bool(n.integer("transB", 0)))
    total = plus(n, n.emit(op, lhs, rhs), n.get(6))
    y, alpha = rescale(n, total, (n[1], n[4])), n.number("alpha", 1.0)
    y = y if alpha == 1 else n.emit(Mul(), y, scalar(n.builder, alpha, y))
    return y if n.get(7) is None else _stored(n, y, 7, n[0].type.dtype)


@onnx_op("QLinearConv", domain=MICROSOFT)
def qlinear_conv_any_layout(n: NodeContext) -> Results:
    """As in the ONNX standard, with channels first or last."""
    if not n.integer("channels_last", 0):
        return qlinear_conv(n)
    y = qlinear_conv(n.with_operands(to_channels_first(n, n[0]), *n.operands[1:]))
    assert isinstance(y, Value)
    return to_channels_last(n, y)


@onnx_op("QLinearWhere", domain=MICROSOFT)
def qlinear_where(n: NodeContext) -> Value:
    """Inputs: a condition; x and y with scale and zero point each; those of the result."""
    return _stored(n, n.emit(Where(), n[0], _real(n, 1), _real(n, 4)), 7, n[1].type.dtype)


@onnx_op("QEmbedLayerNormalization", domain=MICROSOFT)
def quantized_embed_layer_norm(n: NodeContext) -> Results:
    """Inputs: token ids, segment ids, five quantized tables, mask, their scales and zero points."""
    tables = [
        dequantize(n, n[2 + i], n[8 + i], n.get(13 + i)) if n.get(2 + i) is not None else None
        for i in range(5)
    ]
    return embed_layer_norm(n.with_operands(n[0], n.get(1), *tables, n.get(7)))
