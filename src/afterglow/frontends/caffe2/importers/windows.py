"""Caffe2's arguments of sliding windows, which it spells in several ways."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.frontends.caffe2.registry import Caffe2Node
from afterglow.ops.windows import Windows
from afterglow.support.errors import ModelError

_NOTSET, _VALID, _SAME, _CAFFE = range(4)
_SIDES = ("t", "l", "b", "r")


def sizes(n: Caffe2Node, name: str, rank: int, default: int | None) -> tuple[int, ...]:
    """A number for each spatial axis: `kernels`, `kernel`, or `kernel_h` and `kernel_w`."""
    if n.has(f"{name}s"):
        return n.counted(f"{name}s", rank)
    if n.has(name):
        return (n.integer(name),) * rank
    if rank == 2 and n.has(f"{name}_h"):
        return n.integer(f"{name}_h"), n.integer(f"{name}_w")
    if default is None:
        raise ModelError(f"attribute {name!r} is missing")
    return (default,) * rank


def given_pads(n: Caffe2Node, rank: int) -> tuple[int, ...]:
    """Padding as it is written: begins, then ends."""
    if rank == 2 and any(n.has(f"pad_{side}") for side in _SIDES):
        return tuple(n.integer(f"pad_{side}", 0) for side in _SIDES)
    if n.has("pads"):
        return n.counted("pads", 2 * rank)
    return (n.integer("pad", 0),) * (2 * rank)


def read_windows(n: Caffe2Node, kernel: Sequence[int], extents: Sequence[int]) -> Windows:
    """The windows of an operator over spatial axes of these extents, all padding explicit."""
    rank = len(extents)
    if len(kernel) != rank:
        raise ModelError(f"windows of {tuple(kernel)} do not fit x: {n[0].type}")
    strides, dilations = sizes(n, "stride", rank, 1), sizes(n, "dilation", rank, 1)
    windows = Windows(tuple(kernel), strides, given_pads(n, rank), dilations)
    if min((*strides, *dilations, *kernel), default=1) < 1:
        raise ModelError("kernels, strides and dilations must be 1 or more")
    rows = [*zip(extents, strides, windows.reach, windows.begins, strict=True)]
    match n.integer("legacy_pad", _NOTSET):
        case 0:
            return windows
        case 1:
            pads = [(0, 0) for _ in rows]
        case 2:
            pads = [_same(extent, stride, reach) for extent, stride, reach, _ in rows]
        case 3:
            pads = [_caffe(*row) for row in rows]
        case other:
            raise ModelError(f"attribute 'legacy_pad' must be from 0 to 3, it is {other}")
    begins, ends = zip(*pads, strict=True)
    return Windows(windows.kernel, strides, (*begins, *ends), dilations)


def _same(extent: int, stride: int, reach: int) -> tuple[int, int]:
    """So much that there is a window for each stride; an odd one goes behind."""
    total = max(0, (-(-extent // stride) - 1) * stride + reach - extent)
    return total // 2, total - total // 2


def _caffe(extent: int, stride: int, reach: int, begin: int) -> tuple[int, int]:
    """As Caffe pools: the last window may reach beyond the padding, but starts inside the image."""
    room = extent + 2 * begin - reach
    count, plain = -(-room // stride) + 1, room // stride + 1
    if begin > 0 and (count - 1) * stride >= extent + begin:
        count -= 1
    return begin, begin + stride * (count - plain)
