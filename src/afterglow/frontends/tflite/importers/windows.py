"""TFLite's options of sliding windows: paddings SAME and VALID, strides and dilations."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.frontends.tflite.node import TfliteNode
from afterglow.ops.windows import Windows
from afterglow.support.errors import ModelError

AXES = ("d", "h", "w")
"""The names of spatial axes in options: depth, height, width."""


def read_windows(n: TfliteNode, kernel: Sequence[int], extents: Sequence[int]) -> Windows:
    """The windows of a node over spatial axes of these extents, every pad made explicit."""
    names = AXES[3 - len(kernel) :]
    strides = tuple(n.count(f"stride_{name}") for name in names)
    dilations = tuple(n.count(f"dilation_{name}_factor", 1) for name in names)
    if min(*strides, *dilations) < 1:
        raise ModelError(f"strides {strides} and dilations {dilations} must be at least 1")
    pads = (0,) * (2 * len(kernel))
    windows = Windows(tuple(kernel), strides, pads, dilations)
    if n.word("padding", "SAME") == "VALID":
        return windows
    return Windows(windows.kernel, strides, same_pads(windows, extents), dilations)


def same_pads(windows: Windows, extents: Sequence[int]) -> tuple[int, ...]:
    """Pads with which there is a window for each stride; an odd one goes behind."""
    totals = [
        max(0, (-(-extent // stride) - 1) * stride + reach - extent)
        for extent, stride, reach in zip(extents, windows.strides, windows.reach, strict=True)
    ]
    halves = tuple(total // 2 for total in totals)
    return halves + tuple(total - half for total, half in zip(totals, halves, strict=True))
