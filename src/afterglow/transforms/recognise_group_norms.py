"""Recognise group normalization that is written with reshapes, with its scale and bias."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.movement import Reshape
from afterglow.ops.normalization import GroupNorm, LayerNorm
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.patterns import orders
from afterglow.transforms.matching.values import has_one_use
from afterglow.types import Array


@rewrite(Reshape)
def gather_group_norm(node: Node, b: Builder) -> Value | None:
    """reshape(instance_norm(reshape(x, [n, groups, …])), shape of x)  ->  group_norm(x)."""
    match node:
        case Node(
            Reshape(shape),
            [
                Value(
                    Node(
                        GroupNorm(groups, epsilon, 1),
                        [
                            Value(Node(Reshape(), [Value() as x])) as grouped,
                            Constant(scale),
                            Constant(bias),
                        ],
                    )
                ) as normed
            ],
        ) if groups == grouped.type.shape[1] and _splits_channels(x, grouped, shape):
            count = x.type.shape[1] // groups
            if not has_one_use(normed):
                return None
            op = GroupNorm(groups, epsilon, 1)
            return _emit(b, op, x, scale.repeat(count), bias.repeat(count))
    return None


@rewrite(Reshape)
def gather_group_norm_of_rows(node: Node, b: Builder) -> Value | None:
    """reshape(layer_norm(reshape(x, [n, groups, …]), axes 2 …), shape of x)  ->  group_norm(x)."""
    match node:
        case Node(
            Reshape(shape),
            [
                Value(
                    Node(
                        LayerNorm(axis, epsilon),
                        [Value(Node(Reshape(), [Value() as x])) as grouped],
                    )
                ) as normed
            ],
        ) if axis % grouped.type.rank == 2 and _splits_channels(x, grouped, shape):
            channels, dtype = x.type.shape[1], x.type.dtype.numpy
            if not has_one_use(normed):
                return None
            ones, zeros = np.ones(channels, dtype), np.zeros(channels, dtype)
            return _emit(b, GroupNorm(grouped.type.shape[1], epsilon, 1), x, ones, zeros)
    return None


def _splits_channels(x: Value, grouped: Value, shape: tuple[int, ...]) -> bool:
    """Whether `grouped` is x with its channels, on axis 1, in groups, and `shape` that of x."""
    samples, groups, *rest = grouped.type.shape
    same = x.type.shape == shape and len(shape) > 2 and len(rest) > 0
    return same and shape[0] == samples and groups > 0 and shape[1] % groups == 0


def _emit(b: Builder, op: GroupNorm, x: Value, scale: Array, bias: Array) -> Value:
    parameters = b.constant(scale, f"{b.name}.scale"), b.constant(bias, f"{b.name}.bias")
    return b.emit(op, x, *parameters)


@rewrite(Mul, Add)
def absorb_channel_parameter(node: Node, b: Builder) -> Value | None:
    """group_norm(x, s, c) * w  ->  group_norm(x, s w, c w);  … + w  ->  group_norm(x, s, c + w)."""
    for normed, parameter in orders(node):
        match normed, parameter:
            case (
                Value(
                    Node(GroupNorm() as op, [Value() as x, Constant() as scale, Constant() as bias])
                ),
                Constant(w),
            ) if has_one_use(normed) and normed.type == node.result.type:
                vector = _along_channels(w, op.axis % x.type.rank, x)
                if vector is None:
                    return None
                if isinstance(node.op, Add):
                    return b.emit(op, x, scale, b.constant(bias.data + vector, f"{b.name}.bias"))
                with np.errstate(all="ignore"):
                    scaled = scale.data * vector, bias.data * vector
                return _emit(b, op, x, *scaled) if np.isfinite(scaled).all() else None
    return None


def _along_channels(w: Array, axis: int, x: Value) -> Array | None:
    """The numbers of a constant that differs along the channel axis alone."""
    shape = (1,) * (x.type.rank - w.ndim) + w.shape
    channels = x.type.shape[axis]
    if any(extent != 1 for i, extent in enumerate(shape) if i != axis):
        return None
    return np.broadcast_to(w.reshape(-1), (channels,)) if w.size in (1, channels) else None


RECOGNISE_GROUP_NORMS = RewritePass(
    "recognise-group-norms",
    (gather_group_norm, gather_group_norm_of_rows, absorb_channel_parameter),
)
