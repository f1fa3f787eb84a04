"""Pools: ONNX has channels second."""

from __future__ import annotations

from typing import Any

from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports, images
from afterglow.graph import Node
from afterglow.ops.pooling import AvgPool, LpPool, MaxPool
from afterglow.ops.windows import Windows
from afterglow.types.extent import is_ranged, undecided


@exports(MaxPool, layout=images)
def max_pool(n: NodeWriter) -> str:
    """The largest of each window."""
    return n.emit("MaxPool", n.operand(0), **_attributes(n))


def _counts_nothing_beyond(node: Node) -> bool:
    """Whether padding that is added for the last windows is not counted."""
    op = node.op
    return isinstance(op, AvgPool) and not (op.ceil_mode and op.count_include_pad)


@exports(AvgPool, layout=images, accepts=_counts_nothing_beyond)
def average_pool(n: NodeWriter) -> str:
    """The mean of each window."""
    counts = int(n.op.count_include_pad)
    return n.emit("AveragePool", n.operand(0), **_attributes(n), count_include_pad=counts)


@exports(LpPool, layout=images)
def lp_pool(n: NodeWriter) -> str:
    """A norm of each window."""
    return n.emit("LpPool", n.operand(0), **_attributes(n), p=n.op.p)


def _attributes(n: NodeWriter) -> dict[str, Any]:
    return {
        "kernel_shape": n.op.kernel,
        "strides": n.op.strides,
        "pads": _pads(n),
        "dilations": n.op.dilations if any(d > 1 for d in n.op.dilations) else None,
    }


def _pads(n: NodeWriter) -> tuple[int, ...]:
    """As many at the end as the last windows see: versions of ONNX count windows differently."""
    windows: Windows = n.op.windows
    if not windows.ceil_mode:
        return windows.pads
    ends = windows.needed_ends(n.type(0).shape[1:-1])
    if any(map(is_ranged, ends)):
        raise undecided(f"how far the last windows of {n.op.mnemonic} reach", *ends)
    return (*windows.begins, *ends)
