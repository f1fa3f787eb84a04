"""ONNX's attributes of sliding windows: strides, dilations, pads and auto_pad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from afterglow.frontends.definition.context import NodeContext
from afterglow.ops.windows import Windows
from afterglow.support.errors import ModelError


def given_windows(n: NodeContext, kernel: Sequence[int]) -> Windows:
    """The windows of a node by its attributes, but for `auto_pad`."""
    rank = len(kernel)
    strides, dilations = n.counted("strides", rank, 1), n.counted("dilations", rank, 1)
    pads = n.counted("pads", 2 * rank, 0)
    return Windows(tuple(kernel), strides, pads, dilations, bool(n.integer("ceil_mode", 0)))


def read_windows(n: NodeContext, kernel: Sequence[int], extents: Sequence[int]) -> Windows:
    """The windows of a node over spatial axes of these extents, every pad made explicit."""
    windows = given_windows(n, kernel)
    auto_pad = n.text("auto_pad", "NOTSET")
    if auto_pad in ("NOTSET", ""):
        return windows
    if len(extents) != len(kernel) or 0 in windows.strides:
        raise ModelError(f"windows of {tuple(kernel)} do not fit x: {n[0].type}")
    totals = [
        max(0, (-(-extent // stride) - 1) * stride + reach - extent)
        for extent, stride, reach in zip(extents, windows.strides, windows.reach, strict=True)
    ]
    return replace(windows, pads=split_pads(n, auto_pad, totals))


def split_pads(n: NodeContext, auto_pad: str, totals: Sequence[int]) -> tuple[int, ...]:
    """Begins, then ends; an odd one goes behind for SAME_UPPER and in front for SAME_LOWER."""
    halves = tuple(total // 2 for total in totals)
    others = tuple(total - half for total, half in zip(totals, halves, strict=True))
    match auto_pad:
        case "VALID":
            return (0,) * (2 * len(totals))
        case "SAME_UPPER":
            return halves + others
        case "SAME_LOWER":
            return others + halves
    raise n.fail(f"auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got {auto_pad!r}")
