"""Windows that slide over the spatial axes of x [N, spatial…, C]: how many there are, and where."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from afterglow.graph import Cut, Halo, Op
from afterglow.ops.rules import require
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types.extent import is_ranged, larger_extent, largest, smaller_extent

MOST_GROWTH = 4
"""Padding dominates if x would grow by more than this factor, or the results be as much less."""
FREE_ELEMENTS = 1 << 20
"""Padded tensors up to this size are never too large."""


@dataclass(frozen=True)
class Windows:
    """Geometry of a convolution or a pooling: one entry per spatial axis; pads, begins then ends.

    With `ceil_mode` the last window may reach beyond the padding, but must start before it.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    ceil_mode: bool = False

    @property
    def begins(self) -> tuple[int, ...]:
        """Padding in front of each axis."""
        return self.pads[: len(self.kernel)]

    @property
    def ends(self) -> tuple[int, ...]:
        """Padding behind each axis."""
        return self.pads[len(self.kernel) :]

    @property
    def reach(self) -> tuple[int, ...]:
        """The extent of one window, holes included."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def check(self, x: TensorType) -> None:
        """The type rule: x has these spatial axes between batch and channels."""
        spatial = len(self.kernel)
        require(x.rank == spatial + 2, f"x must have {spatial + 2} axes, got {x}")
        for name, values, length, least in (
            ("kernel", self.kernel, spatial, 1),
            ("strides", self.strides, spatial, 1),
            ("dilations", self.dilations, spatial, 1),
            ("pads", self.pads, 2 * spatial, 0),
        ):
            require(len(values) == length, f"{name} must have {length} entries, got {values}")
            require(all(v >= least for v in values), f"{name} must be at least {least}: {values}")

    def counts(self, extents: Sequence[int]) -> tuple[int, ...]:
        """How many windows there are along each axis: the spatial extents of the result."""
        return tuple(self.count(axis, extent) for axis, extent in enumerate(extents))

    def count(self, axis: int, extent: int) -> int:
        """How many windows there are along one axis."""
        stride, begin = self.strides[axis], self.begins[axis]
        room = extent + begin + self.ends[axis] - self.reach[axis]
        if not self.ceil_mode:
            return larger_extent(room // stride + 1, 0)
        count = -(-room // stride) + 1
        if self.ends[axis] + stride <= self.reach[axis]:
            return larger_extent(count, 0)  # the last window always starts before the end
        beyond = (count - 1) * stride + 1 - extent - begin
        return larger_extent(count - smaller_extent(larger_extent(beyond, 0), 1), 0)

    def seen_extents(self, counts: Sequence[int]) -> tuple[int, ...]:
        """How far along x windows of these counts look, padding behind it cut off."""
        return tuple(
            (count - 1) * stride + reach - begin - end
            for count, stride, reach, begin, end in zip(
                counts, self.strides, self.reach, self.begins, self.ends, strict=True
            )
        )

    def needed_ends(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Padding behind each axis that completes the last window: less or more than `ends`."""
        return tuple(self._needed_end(axis, extent) for axis, extent in enumerate(extents))

    def _needed_end(self, axis: int, extent: int) -> int:
        """Padding behind one axis; of a ranged one all that there is, which is always enough."""
        if is_ranged(extent) and not self.ceil_mode:
            return self.ends[axis]
        count = self.count(axis, extent)
        if count == 0:
            return 0
        seen = (count - 1) * self.strides[axis] + self.reach[axis] - self.begins[axis]
        return larger_extent(seen - extent, 0)

    def band(self, cut: Cut, extent: int) -> tuple[Cut, tuple[int, ...]] | None:
        """Which part of x the windows of a cut look at, and the pads around it.

        The axis is one of x, which has that extent along it. There is no answer for windows that
        see nothing but padding.
        """
        axis, spatial = cut.axis - 1, len(self.kernel)
        stride, begin, reach = self.strides[axis], self.begins[axis], self.reach[axis]
        first = cut.start * stride - begin
        last = (cut.stop - 1) * stride - begin + reach
        start, stop = max(first, 0), min(last, extent)
        if start >= stop:
            return None
        pads = list(self.pads)
        pads[axis] = start - first
        pads[axis + spatial] = min(last - stop, self.ends[axis])  # with `ceil_mode`, less is enough
        return Cut(cut.axis, start, stop), tuple(pads)

    def padded(self, x: Array, fill: Any) -> Array:
        """x [N, spatial…, C] with what the windows need around it; itself if that is nothing."""
        extents = x.shape[1:-1]
        ends = self.needed_ends(extents)
        if not any(self.begins) and not any(ends):
            return x
        sides = list(zip(self.begins, extents, ends, strict=True))
        result = np.full((x.shape[0], *map(sum, sides), x.shape[-1]), fill, x.dtype)
        inner = tuple(slice(begin, begin + extent) for begin, extent, _ in sides)
        result[(slice(None), *inner)] = x
        return result

    def taps(self, axis: int, count: int) -> list[slice]:
        """For each place in a window, where `count` windows have it along a padded axis."""
        stride, dilation = self.strides[axis], self.dilations[axis]
        starts = (tap * dilation for tap in range(self.kernel[axis]))
        return [slice(start, start + count * stride, stride) for start in starts]

    def pads_dominate(self, x: Sequence[int], results: int) -> bool:
        """Whether x [N, spatial…, C] with its padding would dwarf both x and the results."""
        extents = x[1:-1]
        sides = zip(self.begins, extents, self.needed_ends(extents), strict=True)
        padded = x[0] * x[-1] * math.prod(map(sum, sides))
        return padded > MOST_GROWTH * (math.prod(x) + results) + FREE_ELEMENTS

    def seen(self, axis: int, tap: int, extent: int, count: int) -> range:
        """The windows, of `count` along an axis, in which a tap lies inside x."""
        stride, first = self.strides[axis], self.begins[axis] - tap * self.dilations[axis]
        start = max(0, -(-first // stride))
        return range(start, max(start, min(count, (extent - 1 + first) // stride + 1)))

    def seeing_taps(self, axis: int, extent: int, count: int) -> list[tuple[int, range]]:
        """The taps along an axis that see some of x, and the windows in which they do."""
        kernel, dilation = self.kernel[axis], self.dilations[axis]
        taps: Iterable[int] = range(kernel)
        if kernel > extent * count:  # most see padding alone: ask the windows
            firsts = (self.begins[axis] - window * self.strides[axis] for window in range(count))
            inside = (
                range(max(0, -(-f // dilation)), min(kernel, (f + extent - 1) // dilation + 1))
                for f in firsts
            )
            taps = sorted({tap for places in inside for tap in places})
        pairs = ((tap, self.seen(axis, tap, extent, count)) for tap in taps)
        return [(tap, windows) for tap, windows in pairs if windows]

    def places(self, axis: int, tap: int, windows: range) -> slice:
        """Where in x itself, without padding, a tap of some windows lies."""
        stride = self.strides[axis]
        start = windows.start * stride - self.begins[axis] + tap * self.dilations[axis]
        return slice(start, start + (len(windows) - 1) * stride + 1, stride)

    def views(self, x: Array, counts: tuple[int, ...], groups: int) -> Array:
        """Every window of padded x, as a view [groups, N, counts…, kernel…, C / groups]."""
        batch, *spatial, channel = x.strides
        # along an axis with one place nothing is stepped over, however far that would be
        steps = [
            _way(s * n, count) for s, n, count in zip(spatial, self.strides, counts, strict=True)
        ]
        taps = zip(spatial, self.dilations, self.kernel, strict=True)
        holes = [_way(s * n, extent) for s, n, extent in taps]
        inner = x.shape[-1] // groups
        shape = (groups, x.shape[0], *counts, *self.kernel, inner)
        strides = (inner * channel, batch, *steps, *holes, channel)
        return as_strided(x, shape, strides, writeable=False)

    def halo(self, x: TensorType, value: float, bare: Op) -> Halo | None:
        """The padding as a halo of x, for an op that then has none; None if there is none."""
        ends = self.needed_ends(x.shape[1:-1])
        if 0 in x.shape or not any(largest(pad) for pad in (*self.begins, *ends)):
            return None
        return Halo((0, *self.begins, 0), (0, *ends, 0), value, bare)


def _way(step: int, extent: int) -> int:
    """How far apart neighbours lie, if there are any."""
    return step if extent > 1 else 0
