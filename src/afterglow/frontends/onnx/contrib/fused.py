"""The com.microsoft domain: fused ops that ONNX Runtime's exporters write."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.importers.convolution import convolve
from afterglow.frontends.onnx.importers.normalization import rms_normalize
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Op, Value
from afterglow.ops import activation as a
from afterglow.ops.elementwise import Add, Mul, scalar
from afterglow.ops.functions import Tanh
from afterglow.ops.indexing import Gather, Iota
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Expand
from afterglow.ops.normalization import LayerNorm, RMSNorm
from afterglow.ops.reduction import ReduceSum
from afterglow.types import dtype as d

MICROSOFT = "com.microsoft"

_FUSED: dict[str, Callable[..., Op]] = {
    "Relu": a.Relu,
    "Tanh": Tanh,
    "Sigmoid": a.Sigmoid,
    "LeakyRelu": a.LeakyRelu,
    "Clip": a.Clip,
    "HardSigmoid": a.HardSigmoid,
    "HardSwish": a.HardSwish,
    "Elu": a.Elu,
    "Softplus": a.Softplus,
}


@onnx_op("Gelu", domain=MICROSOFT)
def gelu(n: NodeContext) -> Value:
    """GELU, defined with the error function."""
    return n.emit(a.Gelu(), n[0])


@onnx_op("BiasGelu", domain=MICROSOFT)
def bias_gelu(n: NodeContext) -> Value:
    """GELU of x + bias."""
    return n.emit(a.Gelu(), n.emit(Add(), n[0], n[1]))


@onnx_op("FastGelu", domain=MICROSOFT)
def fast_gelu(n: NodeContext) -> Value:
    """GELU approximated with tanh, of x plus an optional bias."""
    return n.emit(a.Gelu(approximate=True), plus(n, n[0], n.get(1)))


@onnx_op("QuickGelu", domain=MICROSOFT)
def quick_gelu(n: NodeContext) -> Value:
    """x sigmoid(alpha x)."""
    return n.emit(a.Swish(n.number("alpha", 1.702)), n[0])


def plus(n: NodeContext, x: Value, bias: Value | None) -> Value:
    """x, plus the bias if there is one."""
    return x if bias is None else n.emit(Add(), x, bias)


@onnx_op("SimplifiedLayerNormalization")
@onnx_op("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_norm(n: NodeContext) -> Value:
    """RMS normalization; also accepted in ONNX's own domain, where some models put it."""
    if n.wants(1):
        raise n.fail("the inverse deviation is an output for training")
    return rms_normalize(n, n[0], n[1])


@onnx_op("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(n: NodeContext) -> Sequence[Value | None]:
    """Layer normalization of x + skip + bias; inputs: x, skip, scale, shift, bias."""
    total = _skip_sum(n, n.get(4))
    op = LayerNorm(-1, n.number("epsilon", 1e-12))
    return n.emit(op, total, n[2], n.get(3)), None, None, total


@onnx_op("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_norm(n: NodeContext) -> Sequence[Value | None]:
    """RMS normalization of x + skip + bias; inputs: x, skip, scale, bias."""
    total = _skip_sum(n, n.get(3))
    return n.emit(RMSNorm(-1, n.number("epsilon", 1e-12)), total, n[2]), None, None, total


def _skip_sum(n: NodeContext, bias: Value | None) -> Value:
    if n.wants(1) or n.wants(2):
        raise n.fail("mean and inverse deviation are outputs for training")
    return plus(n, n.emit(Add(), n[0], n[1]), bias)


@onnx_op("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_norm(n: NodeContext) -> Sequence[Value | None]:
    """Inputs: token ids, segment ids, three embedding tables, scale, shift, mask, position ids."""
    words, segments, mask = n[0], n.get(1), n.get(7)
    batch, length = words.type.shape
    positions = n.get(8) or n.emit(Iota((length,), 0, d.i32))
    total = n.emit(Add(), n.emit(Gather(0), n[2], words), n.emit(Gather(0), n[3], positions))
    if segments is not None:
        total = n.emit(Add(), total, n.emit(Gather(0), n[4], segments))
    y = n.emit(LayerNorm(-1, n.number("epsilon", 1e-12)), total, n[5], n[6])
    if mask is None:
        return y, n.emit(Expand((batch,)), n.constant(np.zeros((), np.int32))), total
    return y, n.emit(ReduceSum((1,), False), as_dtype(n, mask, d.i32)), total


@onnx_op("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(n: NodeContext) -> Value:
    """alpha a b, where a and b may be transposed."""
    if n.integer("transBatchA", 0) or n.integer("transBatchB", 0):
        raise n.fail("transposed batch axes are not supported")
    return _product(n)


@onnx_op("FusedGemm", domain=MICROSOFT)
def fused_gemm(n: NodeContext) -> Value:
    """An activation applied to alpha a b + beta c."""
    y, added = _product(n), n.get(2)
    if added is not None:
        y = n.emit(Add(), y, _scaled(n, n.number("beta", 1.0), added))
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    return _activated(n, y, [n.number(name) for name in names if n.has(name)])


def _product(n: NodeContext) -> Value:
    transposes = bool(n.integer("transA", 0)), bool(n.integer("transB", 0))
    return _scaled(n, n.number("alpha", 1.0), n.emit(MatMul(*transposes), n[0], n[1]))


def _scaled(n: NodeContext, factor: float, x: Value) -> Value:
    return x if factor == 1 else n.emit(Mul(), x, scalar(n.builder, factor, x))


@onnx_op("FusedConv", domain=MICROSOFT)
def fused_conv(n: NodeContext) -> Value:
    """An activation applied to a convolution plus an optional fourth input."""
    y = plus(n, convolve(n, n[0], n[1], n.get(2)), n.get(3))
    return _activated(n, y, n.attribute("activation_params", ()))


def _activated(n: NodeContext, x: Value, parameters: Sequence[float]) -> Value:
    name = n.text("activation", "")
    if not name:
        return x
    if name not in _FUSED:
        raise n.fail(f"activation {name!r} is unknown")
    return n.emit(_FUSED[name](*parameters), x)
