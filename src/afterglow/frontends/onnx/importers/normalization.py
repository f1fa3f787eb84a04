"""ONNX's normalizations; their channels are axis 1."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.normalization import layer_norm_with_statistics
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops import normalization as norm
from afterglow.ops.channels import ChannelMoments
from afterglow.ops.elementwise import Abs, Add, Div, Equal, Mul, Sub, Where, scalar
from afterglow.ops.functions import Sqrt
from afterglow.ops.movement import Expand, Reshape
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.rules import normal_axis
from afterglow.types import dtype as d

Results = Sequence[Value | None]


@onnx_op("BatchNormalization")
def batch_norm_per_element(n: NodeContext) -> Value:
    """Before version 9, `spatial` = 0 asks for statistics of each element of a sample."""
    if n.integer("spatial", 1):
        return _batch_norm(n, n[3], n[4])
    x, scale, bias, mean, variance = (n[i] for i in range(5))
    epsilon = scalar(n.builder, n.number("epsilon", 1e-5), x)
    root = n.emit(Sqrt(), n.emit(Add(), variance, epsilon))
    y = n.emit(Mul(), n.emit(Div(), n.emit(Sub(), x, mean), root), scale)
    return n.emit(Add(), y, bias)


@onnx_op("BatchNormalization", since=9)
def batch_norm(n: NodeContext) -> Value:
    """Inference; outputs that only training has are refused."""
    if any(n.wants(i) for i in range(1, 5)):
        raise n.fail("outputs for training are not supported before version 14")
    return _batch_norm(n, n[3], n[4])


@onnx_op("BatchNormalization", since=14)
def batch_norm_or_training(n: NodeContext) -> Results:
    """In training mode the statistics are those of the batch, and running ones are updated."""
    if not n.integer("training_mode", 0):
        return (_batch_norm(n, n[3], n[4]),)
    x = as_dtype(n, n[0], n[3].type.dtype)
    mean, variance = n.builder.emit_all(ChannelMoments(1 if x.type.rank > 1 else 0), x)
    running = (_blended(n, old, new) for old, new in ((n[3], mean), (n[4], variance)))
    return (_batch_norm(n, mean, variance), *running)


def _blended(n: NodeContext, old: Value, new: Value) -> Value:
    """Old and new statistics, in proportion of the momentum."""
    momentum = n.number("momentum", 0.9)
    kept = n.emit(Mul(), old, scalar(n.builder, momentum, old))
    return n.emit(Add(), kept, n.emit(Mul(), new, scalar(n.builder, 1 - momentum, new)))


def _batch_norm(n: NodeContext, mean: Value, variance: Value) -> Value:
    """In the widest element type of all operands."""
    operands = [n[0], n[1], n[2], mean, variance]
    dtype = max((v.type.dtype for v in operands), key=lambda t: t.bits)
    wide = [as_dtype(n, v, dtype) for v in operands]
    axis = 1 if n[0].type.rank > 1 else 0
    momentum = round(1 - n.number("momentum", 0.9), 6)  # that of a batch, not of those before it
    y = n.emit(norm.BatchNorm(n.number("epsilon", 1e-5), axis, momentum), *wide)
    return as_dtype(n, y, n[0].type.dtype)


@onnx_op("InstanceNormalization")
def instance_norm(n: NodeContext) -> Value:
    """As many groups as channels."""
    channels = n[0].type.shape[1] if n[0].type.rank > 1 else 0
    return n.emit(norm.GroupNorm(channels, n.number("epsilon", 1e-5), 1), n[0], n[1], n[2])


@onnx_op("GroupNormalization", since=18)
def group_norm_18(n: NodeContext) -> Value:
    """Scale and bias are those of a group: repeat them for its channels."""
    groups, channels = n.integer("num_groups"), n[0].type.shape[normal_axis(1, n[0].type)]
    each = (groups, norm.group_width(channels, groups))
    scale, bias = (
        n.emit(Reshape((channels,)), n.emit(Expand(each), n.emit(Reshape((groups, 1)), n[i])))
        for i in (1, 2)
    )
    return n.emit(norm.GroupNorm(groups, n.number("epsilon", 1e-5), 1), n[0], scale, bias)


@onnx_op("GroupNormalization", since=21)
def group_norm(n: NodeContext) -> Value:
    """Scale and bias are those of a channel."""
    op = norm.GroupNorm(n.integer("num_groups"), n.number("epsilon", 1e-5), 1)
    return n.emit(op, n[0], n[1], n[2])


@onnx_op("LayerNormalization")
def layer_norm(n: NodeContext) -> Results:
    """From primitive ops if the mean or the deviation is wanted too."""
    axis, epsilon = n.integer("axis", -1), n.number("epsilon", 1e-5)
    if not (n.wants(1) or n.wants(2)):
        return (n.emit(norm.LayerNorm(axis, epsilon), n[0], n[1], n.get(2)),)
    affine, wide = (n[1], n.get(2)), n.dtype("stash_type", d.f32)
    return layer_norm_with_statistics(n, n[0], norm.LayerNorm(axis, epsilon), affine, wide)


@onnx_op("RMSNormalization")
def rms_norm(n: NodeContext) -> Value:
    """Inputs: x and a scale."""
    return rms_normalize(n, n[0], n[1])


def rms_normalize(n: NodeContext, x: Value, scale: Value) -> Value:
    """The scale may be of another type than x; the result is of the scale's."""
    wide = max((x.type.dtype, scale.type.dtype), key=lambda dtype: dtype.bits)
    op = norm.RMSNorm(n.integer("axis", -1), n.number("epsilon", 1e-5))
    y = n.emit(op, as_dtype(n, x, wide), as_dtype(n, scale, wide))
    return as_dtype(n, y, scale.type.dtype)


@onnx_op("LRN")
def lrn(n: NodeContext) -> Value:
    """Across channels; a window that is wider than all of them sees what one of their size does."""
    size, alpha = n.integer("size"), n.number("alpha", 1e-4)
    widest = max(1, 2 * n[0].type.shape[normal_axis(1, n[0].type)] - 1)
    if size > widest:
        size, alpha = widest, alpha * widest / size
    op = norm.LRN(size, alpha, n.number("beta", 0.75), n.number("bias", 1.0), axis=1)
    return n.emit(op, n[0])


@onnx_op("LpNormalization")
def lp_norm(n: NodeContext) -> Value:
    """x / |x|, and 0 where |x| is 0."""
    x, axes = n[0], (normal_axis(n.integer("axis", -1), n[0].type),)
    if n.integer("p", 2) == 1:
        length = n.emit(ReduceSum(axes, True), n.emit(Abs(), x))
    else:
        length = n.emit(Sqrt(), n.emit(ReduceSum(axes, True), n.emit(Mul(), x, x)))
    zero = scalar(n.builder, 0, x)
    return n.emit(Where(), n.emit(Equal(), length, zero), zero, n.emit(Div(), x, length))
