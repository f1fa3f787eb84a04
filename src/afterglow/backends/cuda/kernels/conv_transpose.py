"""Transposed convolutions of floats by tensor cores: all phases in one launch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from afterglow.backends.cuda.kernels.channels import Channels
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.products import Block, write_product
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.kernels.tile import IEEE, LEAST_TERMS, Tile
from afterglow.backends.cuda.kernels.tile_blocks import is_between, load, multiply_add
from afterglow.backends.cuda.kernels.tile_plans import plans_of
from afterglow.backends.cuda.kernels.tile_results import (
    Places,
    operations_after,
    places_by_axis,
)
from afterglow.backends.cuda.kernels.transposed_layout import TransposedLayout
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.items.chain import places_of
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import select
from afterglow.instr import KernelPlan, OpInstr, Region
from afterglow.ops.convolution import ConvTranspose
from afterglow.types import Array
from afterglow.types.dtype import bf16, f16, f32


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    layout = TransposedLayout(step)
    is_known = layout.weight.root.region is Region.CONSTANT and layout.weight.type.size > 0
    fills_blocks = layout.groups == 1 or layout.extents.columns >= LEAST_TERMS
    is_float = layout.x.type.dtype in (f16, bf16, f32)
    return is_float and is_known and fills_blocks and layout.x.type.size > 0


def _plans(job: Job, target: CudaTarget, precision: str = IEEE) -> list[KernelPlan]:
    assert job.anchor is not None
    work = replace(TransposedLayout(job.anchor).work(job), operations=operations_after(job, target))
    return plans_of(work, target, precision)


@ANCHORS.declare(ConvTranspose, accepts=_accepts, plans=_plans)
def write_conv_transpose(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """A transposed convolution in the tiles that a plan says."""
    kernel, tile = Kernel(job, target), Tile.of(plan.settings)
    write_product(kernel, _Spread(kernel, tile), tile)
    return kernel.finish()


class _Spread(Channels):
    """The places of x that the taps of a phase see, and the weight at these taps."""

    own_steps: Value | None = None

    def __init__(self, kernel: Kernel, tile: Tile) -> None:
        super().__init__(kernel, tile)
        self.layout = TransposedLayout(kernel.step)
        self.extents = self.layout.extents
        self.steps = self.layout.steps(tile.terms)

    def group(self, block: Block) -> Value | None:
        """See the base: of each group there are all phases."""
        if block.number is None or self.layout.groups == 1:
            return None
        return self.code.named(block.number.combined("/", self.layout.phases))

    def begin(self, block: Block) -> None:
        """Where the first tap of each row is in x, and the weight of each column."""
        code, layout = self.code, self.layout
        terms = code.range(self.tile.terms)
        self.left_terms, self.right_terms = (code.along(terms, axis, 2) for axis in (1, 0))
        self.phase = self._phase(block)
        self.taps = [
            _of_phase(axis.taps, phase, code.index(0))
            for axis, phase in zip(layout.axes, self.phase, strict=True)
        ]
        if not layout.is_even:
            count = math.prod(self.taps, start=code.index(layout.blocks(self.tile.terms)))
            self.own_steps = code.named(count)
        self._begin_left(block)
        columns, self.right_masks = block.columns.read(contiguous=False, axis=1)
        pitch = self.steps * self.tile.terms
        number = code.index(0) if block.number is None else block.number
        self.right_base = code.named(columns * pitch + number * (self.extents.columns * pitch))
        self.read_bias_early(block)

    def _phase(self, block: Block) -> list[Value]:
        """Which phase the rows of a block are of, along each axis."""
        code, layout = self.code, self.layout
        if block.number is None:
            return [code.index(0) for _ in layout.axes]
        number = block.number
        if layout.groups > 1:
            number = code.named(number.combined("%", layout.phases))
        return places_of(self.kernel, number, [axis.count for axis in layout.axes])

    def _begin_left(self, block: Block) -> None:
        """What the first tap of each row sees."""
        code, layout, strides = self.code, self.layout, self.layout.x.strides
        rows, self.left_masks = block.rows.read(contiguous=False, axis=0)
        image, *places = places_of(self.kernel, rows, layout.row_extents)
        self.seen = [
            code.named(place + _of_phase(axis.start, phase, code.index(0)))
            for axis, place, phase in zip(layout.axes, places, self.phase, strict=True)
        ]
        base = image * strides[0] + self.of_group(block, layout.channels * strides[-1])
        for place, stride in zip(self.seen, strides[1:-1], strict=True):
            base = base + place * stride
        self.left_base = code.named(base)

    def multiply(self, step: Value, total: Value) -> None:
        """Add the product of two blocks."""
        left, right = self._left(step), self._right(step)
        multiply_add(self.code, left, right, total, self.tile.precision)

    def _left(self, step: Value) -> Value:
        """A block of channels of x at the places that a tap sees."""
        code, layout = self.code, self.layout
        tap, terms, found = self.channels_of(step, self.left_terms, layout.channels)
        masks = [*self.left_masks, *found]
        shift = terms * layout.x.strides[-1]
        numbers = self._numbers(tap)
        for axis, number, place in zip(range(len(numbers)), numbers, self.seen, strict=True):
            phases = layout.axes[axis]
            back = code.named(number * phases.back)
            shift = shift - back * layout.x.strides[1 + axis]
            if phases.reaches_beyond:
                masks.append(is_between(code.named(place - back), phases.seen))
        return load(self.kernel.pointer(layout.x), self.left_base + shift, masks)

    def _numbers(self, tap: Value) -> list[Value]:
        """The number of a tap of the phase along each axis."""
        code, rest = self.code, tap
        found: list[Value] = []
        for axis, count in [*zip(self.layout.axes, self.taps, strict=True)][:0:-1]:
            if max(axis.taps) <= 1:
                found.insert(0, code.index(0))
                continue
            found.insert(0, code.named(rest.combined("%", count)))
            rest = code.named(rest.combined("/", count))
        return [code.index(0) if max(self.layout.axes[0].taps) <= 1 else rest, *found]

    def _right(self, step: Value) -> Value:
        """A block of the weight."""
        terms = self.code.named(step * self.tile.terms) + self.right_terms
        order = f"phases by blocks of {self.tile.terms}"
        pointer = self.kernel.packed(self.layout.weight, order, self._pack)
        return load(pointer, self.right_base + terms, self.right_masks)

    def _pack(self, data: Array) -> Array:
        """The weight as it is read: of each phase its taps, of each column its terms."""
        layout, pitch = self.layout, self.steps * self.tile.terms
        behind = -layout.channels % self.tile.terms
        found = []
        by_group = data.reshape(layout.groups, layout.channels, *data.shape[1:])
        for group in by_group:
            for phase in layout.each_phase():
                taps = [axis.taps_of(f) for axis, f in zip(layout.axes, phase, strict=True)]
                part = np.moveaxis(group[np.ix_(range(layout.channels), *taps)], 0, -1)
                part = np.moveaxis(part, -2, 0).reshape(data.shape[-1], -1, layout.channels)
                part = np.pad(part, ((0, 0), (0, 0), (0, behind))).reshape(data.shape[-1], -1)
                found.append(np.pad(part, ((0, 0), (0, pitch - part.shape[1]))))
        return np.stack(found)

    def places(self, block: Block) -> Places:
        """Rows are the places of a phase: a stride apart in the result."""
        code, layout = self.code, self.layout
        image, *rows = places_of(self.kernel, block.rows.along(0), layout.row_extents)
        places = [
            code.named(row * axis.stride + phase)
            for axis, row, phase in zip(layout.axes, rows, self.phase, strict=True)
        ]
        masks = [
            place < axis.extent
            for axis, place in zip(layout.axes, places, strict=True)
            if not axis.is_exact
        ]
        return places_by_axis(self.kernel, [image, *places, self.column(block)], masks)


def _of_phase(numbers: Sequence[int], phase: Value, zero: Value) -> Value:
    """The number of a phase: few of its neighbours have another one."""
    found = zero + numbers[0]
    for place, (before, number) in enumerate(pairwise(numbers), start=1):
        if number != before:
            found = select(phase >= place, zero + number, found)
    return found if found.constant is not None else found.code.as_index(found)
