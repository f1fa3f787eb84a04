"""Normalization, and softmax and its kin."""

from __future__ import annotations

from afterglow.exporters.onnx.layouts import Layout, plain
from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports
from afterglow.graph import Node
from afterglow.ops import normalization as norm
from afterglow.ops import softmax as soft


@exports(soft.Softmax, soft.LogSoftmax, soft.Hardmax)
def along_axis(n: NodeWriter) -> str:
    """By the same name."""
    return n.emit(type(n.op).__name__, *n.operands, axis=n.op.axis)


def _scales_trailing_axes(node: Node) -> bool:
    """Whether scale and bias have exactly the axes that are normalized, as ONNX wants them."""
    op, x = node.op, node.given[0].type
    assert isinstance(op, norm.TrailingNorm)
    trailing = x.shape[op.axis % x.rank :]
    return len(node.given) > 1 and all(v.type.shape == trailing for v in node.given[1:])


@exports(
    norm.LayerNorm,
    layout=lambda node: plain(node.result.type.rank),
    accepts=_scales_trailing_axes,
)
def layer_norm(n: NodeWriter) -> str:
    """Over the axes from one on."""
    vectors = (n.operand(i, plain(n.type(i).rank)) if n.value(i) else "" for i in (1, 2))
    return n.emit(
        "LayerNormalization", n.operand(0), *vectors, axis=n.op.axis, epsilon=n.op.epsilon
    )


def _channels_second(node: Node) -> Layout:
    """The layout in which the op's own axis is the second."""
    rank, axis = node.result.type.rank, vars(node.op)["axis"] % node.result.type.rank
    if axis == 1:
        return plain(rank)
    return (0, axis, *(i for i in range(1, rank) if i != axis))


def _has_samples_first(node: Node) -> bool:
    return node.result.type.rank > 1 and vars(node.op)["axis"] % node.result.type.rank > 0


@exports(norm.BatchNorm, layout=_channels_second, accepts=_has_samples_first)
def batch_norm(n: NodeWriter) -> str:
    """With the statistics of training."""
    kept = 1 - n.op.momentum
    return n.emit("BatchNormalization", *n.operands, epsilon=n.op.epsilon, momentum=kept)


@exports(norm.GroupNorm, layout=_channels_second)
def group_norm(n: NodeWriter) -> str:
    """A scale for each channel."""
    return n.emit("GroupNormalization", *n.operands, num_groups=n.op.groups, epsilon=n.op.epsilon)


def _is_of_images(node: Node) -> bool:
    """Four axes, and a middle among the channels: what other engines take."""
    op = node.op
    odd = isinstance(op, norm.LRN) and op.size % 2 == 1
    return odd and node.result.type.rank == 4 and _has_samples_first(node)


@exports(norm.LRN, layout=_channels_second, accepts=_is_of_images)
def lrn(n: NodeWriter) -> str:
    """Across channels."""
    op = n.op
    return n.emit("LRN", n.operand(0), size=op.size, alpha=op.alpha, beta=op.beta, bias=op.bias)
