"""ATen's normalizations; their channels are axis 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.normalization import inverse_root, layer_norm_with_statistics
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops import normalization as norm
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.channels import ChannelMoments
from afterglow.ops.elementwise import Add, Div, Mul, scalar
from afterglow.ops.fill import Fill
from afterglow.ops.functions import Reciprocal, Sqrt
from afterglow.ops.movement import Reshape
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.rules import normal_axis
from afterglow.support.errors import ModelError
from afterglow.types.dtype import f32

Results = Sequence[Value | None]


def _channels(n: TorchNode) -> int:
    x = n.value("input").type
    return x.shape[normal_axis(1, x, "input")]


def _wide(n: TorchNode, x: Value) -> Value:
    """In the precision in which sums are taken."""
    return as_dtype(n, x, f32) if x.type.dtype.is_narrow_float else x


def _parameter(n: TorchNode, name: str, default: float, like: Value) -> Value:
    """A number for each channel, in the element type of another value."""
    given = n.optional(name)
    if given is None:
        return n.emit(Fill((_channels(n),), default, like.type.dtype))
    return as_dtype(n, given, like.type.dtype)


def _normalized(n: TorchNode, x: Value, mean: Value, variance: Value) -> Value:
    """By these statistics, in the widest element type of all operands."""
    dtype = max((v.type.dtype for v in (x, mean)), key=lambda each: each.bits)
    wide = as_dtype(n, x, dtype)
    scale, bias = _parameter(n, "weight", 1.0, wide), _parameter(n, "bias", 0.0, wide)
    op = norm.BatchNorm(float(n.scalar("eps")), 1, float(n.argument("momentum") or 0.0))
    statistics = (as_dtype(n, mean, dtype), as_dtype(n, variance, dtype))
    return as_dtype(n, n.emit(op, wide, scale, bias, *statistics), x.type.dtype)


def _by_running(n: TorchNode) -> Value:
    mean, variance = n.value("running_mean"), n.value("running_var")
    return _normalized(n, n.value("input"), mean, variance)


@aten("batch_norm.default")
def batch_norm(n: TorchNode) -> Value:
    """By the running statistics; in training by those of the batch, if there are none to keep."""
    if not n.flag("training"):
        return _by_running(n)
    if n.optional("running_mean") is not None:
        raise n.fail(
            "running statistics that change are not supported in this form",
            help="export the model in inference mode: module.eval()",
        )
    return _by_batch(n)[0]


@aten("_native_batch_norm_legit_no_training.default", "_batch_norm_no_update.default")
def batch_norm_without_training(n: TorchNode) -> Results:
    """Further results are empty."""
    return (_by_running(n), *_nothing(n))


def _nothing(n: TorchNode) -> list[Value | None]:
    """Empty results behind the first one, where they are read."""
    behind = range(1, len(n.proto.output))
    return [n.emit(Fill((0,), 0.0, n.result_type(i))) if n.is_read(i) else None for i in behind]


@aten(
    "_native_batch_norm_legit.default",
    "_native_batch_norm_legit.no_stats",
    "native_batch_norm.default",
)
def native_batch_norm(n: TorchNode) -> Results:
    """The result, and the mean and inverse deviation of the batch in training."""
    return _by_batch(n)[:3] if n.flag("training") else batch_norm_without_training(n)


@aten("_native_batch_norm_legit_functional.default")
def functional_batch_norm(n: TorchNode) -> Results:
    """The same, then the running statistics afterwards."""
    old = n.value("running_mean"), n.value("running_var")
    if not n.flag("training"):
        return (*batch_norm_without_training(n)[:3], *old)
    y, mean, inverse, variance = _by_batch(n)
    x, momentum = n.value("input"), float(n.scalar("momentum"))
    count = x.type.size // _channels(n)
    t = Arithmetic(n.builder, variance)
    unbiased = t.mul(variance, t.div(t.value(count), t.value(count - 1)))
    running = (
        as_dtype(n, t.blend(as_dtype(n, before, mean.type.dtype), now, momentum), before.type.dtype)
        for before, now in zip(old, (mean, unbiased), strict=True)
    )
    return (y, mean, inverse, *running)


def _by_batch(n: TorchNode) -> tuple[Value, Value, Value, Value]:
    """The result, mean, inverse deviation and variance."""
    x = n.value("input")
    mean, variance = n.emit_all(ChannelMoments(1), _wide(n, x))
    epsilon = scalar(n.builder, float(n.scalar("eps")), variance)
    inverse = n.emit(Reciprocal(), n.emit(Sqrt(), n.emit(Add(), variance, epsilon)))
    return _normalized(n, x, mean, variance), mean, inverse, variance


@aten("instance_norm.default")
def instance_norm(n: TorchNode) -> Value:
    """As many groups as channels; or by running statistics."""
    if not n.flag("use_input_stats"):
        return _by_running(n)
    if n.optional("running_mean") is not None:
        raise n.fail(
            "running statistics that change are not supported",
            help="export the model in inference mode: module.eval()",
        )
    return _grouped(n, _channels(n))


@aten("group_norm.default")
def group_norm(n: TorchNode) -> Value:
    """Each sample and group of channels on its own."""
    return _grouped(n, n.size("num_groups"))


def _grouped(n: TorchNode, groups: int) -> Value:
    x = n.value("input")
    scale, bias = _parameter(n, "weight", 1.0, x), _parameter(n, "bias", 0.0, x)
    return n.emit(norm.GroupNorm(groups, float(n.scalar("eps")), 1), x, scale, bias)


@aten("native_group_norm.default")
def native_group_norm(n: TorchNode) -> Results:
    """The result, and the mean and inverse deviation of each group."""
    y, groups = _grouped(n, n.size("group")), n.size("group")
    if not (n.is_read(1) or n.is_read(2)):
        return (y,)
    x = n.value("input")
    batch = x.type.shape[0]
    rows = n.emit(Reshape((batch, groups, math.prod(x.type.shape[1:]) // groups)), _wide(n, x))
    op = norm.LayerNorm(2, float(n.scalar("eps")))
    _, mean, inverse = layer_norm_with_statistics(n, rows, op, (None, None), rows.type.dtype)
    flat = Reshape((batch, groups))
    dtypes = (n.result_type(1), n.result_type(2))
    found = (n.emit(flat, mean), n.emit(flat, inverse))
    return (y, *(as_dtype(n, v, dtype) for v, dtype in zip(found, dtypes, strict=True)))


def _trailing(n: TorchNode) -> int:
    """The first axis that is normalized."""
    x, shape = n.value("input"), n.sizes("normalized_shape")
    if len(shape) > x.type.rank or x.type.shape[x.type.rank - len(shape) :] != shape:
        raise ModelError(f"{x.type} does not end with the shape {list(shape)}")
    return -len(shape)


def _affine(n: TorchNode, dtype_of: Value) -> tuple[Value | None, Value | None]:
    given = n.optional("weight"), n.optional("bias")
    scale, bias = (None if v is None else as_dtype(n, v, dtype_of.type.dtype) for v in given)
    return scale, bias


@aten("layer_norm.default")
def layer_norm(n: TorchNode) -> Value:
    """Over the last axes."""
    x = n.value("input")
    return n.emit(norm.LayerNorm(_trailing(n), float(n.scalar("eps"))), x, *_affine(n, x))


@aten("native_layer_norm.default")
def native_layer_norm(n: TorchNode) -> Results:
    """The result, and mean and inverse deviation if something reads them."""
    if not (n.is_read(1) or n.is_read(2)):
        return (layer_norm(n),)
    x = n.value("input")
    op = norm.LayerNorm(_trailing(n), float(n.scalar("eps")))
    wide = _wide(n, x).type.dtype
    return layer_norm_with_statistics(n, x, op, _affine(n, x), wide)


@aten("rms_norm.default")
def rms_norm(n: TorchNode) -> Value:
    """Over the last axes; epsilon is that of the element type unless it is given."""
    x = n.value("input")
    return n.emit(norm.RMSNorm(_trailing(n), _epsilon(n, x)), x, _affine(n, x)[0])


def _epsilon(n: TorchNode, x: Value) -> float:
    given = n.argument("eps")
    return float(np.finfo(x.type.dtype.numpy).eps) if given is None else float(given)


@aten("_fused_rms_norm.default")
def fused_rms_norm(n: TorchNode) -> Results:
    """The result, and the inverse root of the mean square if something reads it."""
    y = rms_norm(n)
    if not n.is_read(1):
        return (y,)
    x = n.value("input")
    axes = tuple(range(x.type.rank + _trailing(n), x.type.rank))
    return (y, inverse_root(n, _wide(n, x), axes, _epsilon(n, x)))


@aten("_weight_norm.default", "_weight_norm_interface.default")
def weight_norm(n: TorchNode) -> Results:
    """v g / |v|, where the length is taken for each index of an axis, or for all."""
    v, g = n.value("v"), n.value("g")
    dim, rank = n.size("dim"), v.type.rank
    axis = None if dim == -1 else normal_axis(dim, v.type)
    axes = tuple(each for each in range(rank) if each != axis)
    length = n.emit(Sqrt(), n.emit(ReduceSum(axes, True), n.emit(Mul(), v, v)))
    y = n.emit(Mul(), v, n.emit(Div(), g, length))
    return (y, length) if n.proto.op_type.startswith("_weight_norm_interface") else (y,)
