"""Experimental ops that ONNX took back, but that old models still have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.importers.movement import slice_inputs
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops.activation import Softplus
from afterglow.ops.functions import Sqrt, Tanh
from afterglow.ops.movement import Expand, Slice
from afterglow.ops.reduction import ReduceMean
from afterglow.support.errors import ModelError
from afterglow.types.dtype import f32

_SMALL = 1e-9
"""What the standard adds to a standard deviation before dividing by it."""

onnx_op("DynamicSlice")(slice_inputs)


def _scaled(n: NodeContext, x: Value, factor: float | Sequence[float]) -> Value:
    return n.emit(e.Mul(), x, n.constant(np.array(factor, x.type.dtype.numpy)))


def _shifted(n: NodeContext, x: Value, offset: float | Sequence[float]) -> Value:
    return n.emit(e.Add(), x, n.constant(np.array(offset, x.type.dtype.numpy)))


@onnx_op("Scale")
def scale(n: NodeContext) -> Value:
    """scale * x."""
    return _scaled(n, n[0], n.number("scale", 1.0))


@onnx_op("Affine")
def affine(n: NodeContext) -> Value:
    """alpha * x + beta."""
    return _shifted(n, _scaled(n, n[0], n.number("alpha", 1.0)), n.number("beta", 0.0))


@onnx_op("ScaledTanh")
def scaled_tanh(n: NodeContext) -> Value:
    """alpha * tanh(beta * x)."""
    return _scaled(n, n.emit(Tanh(), _scaled(n, n[0], n.number("beta"))), n.number("alpha"))


@onnx_op("ParametricSoftplus")
def parametric_softplus(n: NodeContext) -> Value:
    """alpha * log(1 + exp(beta * x))."""
    return _scaled(n, n.emit(Softplus(), _scaled(n, n[0], n.number("beta"))), n.number("alpha"))


@onnx_op("ImageScaler")
def image_scaler(n: NodeContext) -> Value:
    """scale * x, plus a bias for each channel, which is axis 1."""
    x = _scaled(n, n[0], n.number("scale", 1.0))
    bias = np.array(n.numbers("bias", ()), x.type.dtype.numpy)
    if not bias.size:
        return x
    return n.emit(e.Add(), x, n.constant(bias.reshape(-1, 1, 1)))


@onnx_op("Crop")
def crop(n: NodeContext) -> Value:
    """Without the borders; or from the top and left borders on, as much as `scale` says."""
    *outer, height, width = n[0].type.shape
    left, top, right, bottom = n.integers("border")
    rows, columns = n.integers("scale", (height - top - bottom, width - left - right))
    if min(left, top, rows, columns) < 0 or top + rows > height or left + columns > width:
        raise ModelError(f"the cropped region is not inside {n[0].type}")
    starts = (*(0 for _ in outer), top, left)
    extents = (*outer, rows, columns)
    return n.emit(Slice(starts, extents, (1,) * len(extents)), n[0])


@onnx_op("ConstantFill")
def constant_fill(n: NodeContext) -> Value:
    """One value, in a shape that the input is, or has, or an attribute gives."""
    number, dtype = n.number("value", 0.0), n.dtype("dtype", f32)
    if dtype.is_integer and not np.isfinite(number):
        raise ModelError(f"{dtype} has no {number}")
    return n.emit(Expand(_shape(n)), n.constant(np.array(number, dtype.numpy)))


@onnx_op("GivenTensorFill")
def given_tensor_fill(n: NodeContext) -> Value:
    """Values that an attribute lists, in a shape as above."""
    return n.constant(np.array(n.numbers("values", ()), np.float32).reshape(_shape(n)))


def _shape(n: NodeContext) -> tuple[int, ...]:
    if n.get(0) is None:
        return n.integers("shape")
    own = n.known_extents(0) if n.integer("input_as_shape", 0) else n[0].type.shape
    return (*own, *n.integers("extra_shape", ()))


@onnx_op("MeanVarianceNormalization")
def mean_variance_normalization(n: NodeContext) -> Value:
    """Over batch and space, or before version 9 over all axes; perhaps of the mean alone."""
    x = n[0]
    across = n.opset < 9 and n.integer("across_channels", 0)
    axes = tuple(range(x.type.rank)) if across else n.integers("axes", (0, 2, 3))
    centred = n.emit(e.Sub(), x, n.emit(ReduceMean(axes, keepdims=True), x))
    if not n.integer("normalize_variance", 1):
        return centred
    squares = n.emit(e.Mul(), centred, centred)
    deviation = n.emit(Sqrt(), n.emit(ReduceMean(axes, keepdims=True), squares))
    return n.emit(e.Div(), centred, _shifted(n, deviation, _SMALL))
