"""Transposed convolutions as products: results a stride apart are sums over the same taps.

Such results are a phase: a convolution without strides of its own, with some of the taps. Rows are
the places of a phase, columns channels, terms the channels of x at the places that its taps see.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cached_property

from afterglow.backends.cuda.kernels.conv_layout import ConvOperands
from afterglow.backends.cuda.kernels.tile import LEAST_TERMS, Extents
from afterglow.backends.cuda.kernels.tile_cost import VECTOR, Work
from afterglow.backends.cuda.kernels.tile_plans import moved_bytes
from afterglow.backends.cuda.kernels.tile_results import read_by_element
from afterglow.backends.job import Job
from afterglow.ops.convolution import ConvTranspose
from afterglow.ops.windows import Windows
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Phases:
    """The phases along an axis: result `stride` r + f is number r of phase f.

    Tap number j of a phase is `first` + j `step`; it sees x at `start` + r - j `back`.
    """

    extent: int
    """Results along the axis."""
    seen: int
    """Places of x along the axis."""
    stride: int
    step: int
    back: int
    first: tuple[int, ...]
    start: tuple[int, ...]
    taps: tuple[int, ...]
    """How many each phase has."""

    @staticmethod
    def of(windows: Windows, axis: int, extent: int, seen: int) -> Phases:
        """Those of an axis of some windows."""
        stride, dilation = windows.strides[axis], windows.dilations[axis]
        common = math.gcd(stride, dilation)
        step, kernel = stride // common, windows.kernel[axis]
        first, start, taps = [], [], []
        for phase in range(min(stride, extent)):
            place = phase + windows.begins[axis]
            own = [tap for tap in range(kernel) if (place - tap * dilation) % stride == 0]
            first.append(own[0] if own else 0)
            start.append((place - first[-1] * dilation) // stride)
            taps.append(len(own))
        back = dilation // common
        return Phases(extent, seen, stride, step, back, tuple(first), tuple(start), tuple(taps))

    @property
    def count(self) -> int:
        """How many phases there are."""
        return len(self.taps)

    @property
    def rows(self) -> int:
        """Results of the longest phase."""
        return -(-self.extent // self.stride)

    @property
    def is_exact(self) -> bool:
        """Whether all phases have as many results."""
        return self.extent % self.stride == 0

    @property
    def reaches_beyond(self) -> bool:
        """Whether some results have taps that see no place of x."""
        firsts = (s - (n - 1) * self.back for s, n in zip(self.start, self.taps, strict=True))
        return min(firsts) < 0 or max(self.start) + self.rows > self.seen

    def taps_of(self, phase: int) -> list[int]:
        """The taps of a phase."""
        return [self.first[phase] + number * self.step for number in range(self.taps[phase])]


@dataclass(frozen=True)
class TransposedLayout(ConvOperands):
    """What a transposed convolution multiplies, and how that lies in memory."""

    @cached_property
    def channels(self) -> int:
        """Channels of x that a result is made of."""
        return self.weight.type.shape[0] // self.groups

    @cached_property
    def axes(self) -> tuple[Phases, ...]:
        """The phases along each spatial axis."""
        assert isinstance(self.step.op, ConvTranspose)
        windows = self.step.op.windows(self.weight.type.shape)
        pairs = zip(self.shape[1:-1], self.x.type.shape[1:-1], strict=True)
        return tuple(Phases.of(windows, axis, *extents) for axis, extents in enumerate(pairs))

    @cached_property
    def phases(self) -> int:
        """How many phases there are."""
        return math.prod(axis.count for axis in self.axes)

    @cached_property
    def row_extents(self) -> tuple[int, ...]:
        """Images, and the results of a phase along each axis."""
        return (self.shape[0], *(axis.rows for axis in self.axes))

    @cached_property
    def extents(self) -> Extents:
        """Rows and columns of a phase of a group, and the terms of the phase with the most taps."""
        columns = self.weight.type.shape[-1]
        terms = self.most_taps * self.channels
        return Extents(math.prod(self.row_extents), columns, terms, self.groups * self.phases)

    @cached_property
    def most_taps(self) -> int:
        """Taps of the phase that has the most."""
        return math.prod(max(axis.taps) for axis in self.axes)

    @property
    def is_even(self) -> bool:
        """Whether all phases have as many taps."""
        return all(len({*axis.taps}) == 1 for axis in self.axes)

    def each_phase(self) -> Iterator[tuple[int, ...]]:
        """The phases along each axis, in the order of their numbers."""
        return itertools.product(*(range(axis.count) for axis in self.axes))

    def blocks(self, terms: int) -> int:
        """Blocks of channels at one place of x."""
        return -(-self.channels // terms)

    def steps(self, terms: int) -> int:
        """Iterations over blocks of so many terms, of the phase with the most taps."""
        return self.most_taps * self.blocks(terms)

    def work(self, job: Job) -> Work:
        """What its time depends on; all phases count as if they had as many taps."""
        size, extents = self.x.type.dtype.itemsize, self.extents
        taps = math.prod(sum(axis.taps) / axis.count for axis in self.axes)

        def copied(terms: int) -> int:
            return extents.count * extents.columns * self.steps(terms) * terms * size

        return Work(
            extents,
            self.channels,
            lambda terms: math.ceil(taps * self.blocks(terms)),
            (size, size),
            moved_bytes(job),
            sum(b.type.dtype.itemsize for b in read_by_element(job)),
            math.gcd(VECTOR, self.channels * size),
            least_terms=LEAST_TERMS,
            packs=copied,
            right=self.weight.type.nbytes,
        )
