"""Caffe2's normalizations."""

from __future__ import annotations

from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op
from afterglow.frontends.common.normalization import inverse_root, layer_norm_with_statistics
from afterglow.graph import Value
from afterglow.ops.elementwise import Abs, Add, Div, Max, Mul, scalar
from afterglow.ops.functions import Reciprocal, Sqrt
from afterglow.ops.movement import Reshape
from afterglow.ops.normalization import LRN, BatchNorm, GroupNorm, LayerNorm, RMSNorm
from afterglow.ops.reduction import ReduceSum

_LEAST_NORM = 1e-12


@caffe2_op("SpatialBN")
def batch_norm(n: Caffe2Node) -> Value:
    """By the mean and the variance of the training, which come as operands."""
    if not n.flag("is_test"):
        raise n.fail(
            "it normalizes by the batch, as in training", help="export the net with is_test = 1"
        )
    operands = (n[index] for index in range(5))
    return n.emit(BatchNorm(n.number("epsilon", 1e-5), n.channel_axis), *operands)


@caffe2_op("InstanceNorm")
def instance_norm(n: Caffe2Node) -> Value:
    """As many groups as channels."""
    x = n[0]
    channels = x.type.shape[n.channel_axis] if x.type.rank > 1 else 0
    return n.emit(GroupNorm(channels, n.number("epsilon", 1e-5), n.channel_axis), x, n[1], n[2])


@caffe2_op("GroupNorm")
def group_norm(n: Caffe2Node) -> Value:
    """32 groups by default."""
    op = GroupNorm(n.integer("group", 32), n.number("epsilon", 1e-5), n.channel_axis)
    return n.emit(op, n[0], n[1], n[2])


@caffe2_op("LRN")
def lrn(n: Caffe2Node) -> Value:
    """Over channels that lie beside each other."""
    return n.emit(
        LRN(
            n.integer("size"),
            n.number("alpha"),
            n.number("beta"),
            n.number("bias", 1.0),
            n.channel_axis,
        ),
        n[0],
    )


@caffe2_op("LayerNorm")
def layer_norm(n: Caffe2Node) -> Value | tuple[Value, ...]:
    """Over the axes from one on; mean and standard deviation are further results."""
    x = n[0]
    op = LayerNorm(n.axis(x), n.number("epsilon", 1e-5))
    shape = x.type.shape[op.axis :]
    scale, bias = (None if p is None else n.emit(Reshape(shape), p) for p in (n.get(1), n.get(2)))
    if not n.wants(1):
        return n.emit(op, x, scale, bias)
    y, mean, inverse = layer_norm_with_statistics(n, x, op, (scale, bias), x.type.dtype)
    measured = Reshape((*x.type.shape[: op.axis], 1))
    deviation = n.emit(Reciprocal(), inverse)
    return y, n.emit(measured, mean), n.emit(measured, deviation)


@caffe2_op("RMSNorm")
def rms_norm(n: Caffe2Node) -> tuple[Value, ...]:
    """x by the root of the mean of its squares, times gamma, plus beta; and the inverse root."""
    x, epsilon = n[0], n.number("eps", 0.0)
    axis = n.axis(x)
    y = n.emit(Add(), n.emit(RMSNorm(axis, epsilon), x, n[1]), n[2])
    if not n.wants(1):
        return (y,)
    inverse = inverse_root(n, x, tuple(range(axis, x.type.rank)), epsilon)
    return y, n.emit(Reshape(x.type.shape[:axis]), inverse)


@caffe2_op("Normalize", "NormalizeL1")
def normalize(n: Caffe2Node) -> Value:
    """x by its length along an axis."""
    x = n[0]
    axes = (n.axis(x, default=-1),)
    if n.proto.op_type == "NormalizeL1":
        length = n.emit(ReduceSum(axes), n.emit(Abs(), x))
    else:
        length = n.emit(Sqrt(), n.emit(ReduceSum(axes), n.emit(Mul(), x, x)))
    return n.emit(Div(), x, n.emit(Max(), length, scalar(n.builder, _LEAST_NORM, x)))
