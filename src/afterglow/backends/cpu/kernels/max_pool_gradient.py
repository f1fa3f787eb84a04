"""The gradient of a maximum pooling: added up in a few rows of memory, and put when they are done.

Rows count along the first spatial axis. While windows go down an image, a row of it lies in one of
as many slots as a window has rows: the next one that needs the slot comes when it is free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial, reduce
from operator import and_

from afterglow.backends.cpu.kernels.max_pool_indices import WindowSearch
from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    equal,
    larger,
    remainder,
    select,
    smaller,
)
from afterglow.backends.cpu.micro.cost import INDEXED_TAP
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.micro.sliding import (
    Channels,
    WindowAxis,
    WindowField,
    arithmetic_type,
    each_row,
    fold_taps,
)
from afterglow.instr import OpInstr
from afterglow.ops.pooling import MaxPoolGradient
from afterglow.types.dtype import i32
from afterglow.types.extent import is_ranged

SLOTS = "slots"
"""The memory for rows that are not done."""
MOST_ELEMENTS = 1 << 18
"""Elements of all slots: more would not stay in the second cache."""


def accepts_image(step: OpInstr) -> bool:
    """Whether the extents are known, and the rows that a window sees are small enough."""
    (grad, x), op = step.required, step.op
    assert isinstance(op, MaxPoolGradient)
    if any(map(is_ranged, (*x.type.shape, *grad.type.shape))):
        return False
    reach = WindowField.of(op.windows, x).axes[0].reach
    return reach * math.prod(x.type.shape[2:]) <= MOST_ELEMENTS


def _needs(r: KernelRequest) -> KernelNeeds:
    assert isinstance(r.step.op, MaxPoolGradient)
    return KernelNeeds(scratch={SLOTS: _Geometry(r.step.op, r).storage})


@kernel(MaxPoolGradient, accepts=accepts_image, needs=_needs)
def write_max_pool_gradient(k: Kernel) -> None:
    """Write a kernel whose units are images, or blocks of their channels."""
    op = k.step.op
    assert isinstance(op, MaxPoolGradient)
    geometry = _Geometry(op, k)
    taps = k.step.required[0].type.size * math.prod(op.kernel)
    with k.phase(geometry.units, 2 * INDEXED_TAP * taps) as p:
        _Writer(p, geometry).write()


class _Geometry:
    """Images, windows on them, and channels in blocks."""

    def __init__(self, op: MaxPoolGradient, r: KernelRequest) -> None:
        self.field = WindowField.of(op.windows, r.step.required[1])
        x = r.step.required[1]
        dtype = arithmetic_type(x.type.dtype)
        images, channels = self.field.batch, self.field.channels
        self.channels = Channels.of(r.target, channels, dtype, x.type.dtype, images)
        self.storage = Storage(dtype, self.rows.reach * self.row_size)

    @property
    def units(self) -> int:
        """Images, or blocks of their channels if there are few images."""
        return self.field.batch * self.channels.blocks

    @property
    def row_size(self) -> int:
        """Elements of a slot."""
        return self.places * self.channels.block

    @property
    def rows(self) -> WindowAxis:
        """The axis along which windows go down."""
        return self.field.axes[0]

    @property
    def places(self) -> int:
        """Elements of a row, in one channel."""
        return math.prod(axis.extent for axis in self.field.axes[1:])

    @property
    def windows(self) -> int:
        """Windows of a row of them."""
        return math.prod(axis.count for axis in self.field.axes[1:])


class _Writer:
    """The phase while it is being written."""

    def __init__(self, p: Phase, geometry: _Geometry) -> None:
        self.p, self.e, self.g = p, p.e, geometry
        self.slots: Pointer = p.scratch(SLOTS)
        self.grad, self.x, self.sink = p.source(0), p.pointer(p.step.required[1]), p.sink()

    def write(self) -> None:
        """Write all images."""
        e, rows = self.e, self.g.rows

        def write_image(image: Index, bounds: tuple[Index, Index]) -> None:
            e.zero(self.slots, e.index(rows.reach * self.g.row_size))
            with e.loop(rows.count, name="row") as row:
                with e.loop(self.g.windows, name="window") as window:
                    self._add_window(image, row, window, bounds)
                first = larger(e.index(rows.first(row)), 0)
                last = smaller(rows.first(row + 1), rows.extent)
                last = select(equal(row, rows.count - 1), e.index(rows.extent), last)
                with e.loop(last, start=first, name="done") as done:
                    self._put_row(image, done, bounds)

        each_row(self.p, self.g.field.batch, self.g.channels, write_image)

    def _slot(self, row: Value) -> Pointer:
        """Where a row of an image lies."""
        return self.slots + remainder(row, self.g.rows.reach) * self.g.row_size

    def _add_window(
        self, image: Index, row: Value, window: Value, bounds: tuple[Index, Index]
    ) -> None:
        """Add the gradient of one window at its largest element."""
        number = (image * self.g.rows.count + row) * self.g.windows + window
        source, places = self.grad.row(number), [row, *self._places(window)]

        def add_vector(
            search: WindowSearch, channel: Value, lanes: int, mask: Value | None
        ) -> None:
            grad = convert(source.load(channel, lanes, mask), self.slots.dtype)
            _, where = search.find(channel, lanes, mask)
            self._add(search, where, grad, channel - bounds[0])

        for search in self._searches(image, places):
            self.g.channels.each(self.e, bounds, partial(add_vector, search))

    def _places(self, number: Value) -> list[Index]:
        """The place of a window along all axes but the first."""
        places: list[Index] = []
        rest: Index = number
        for axis in reversed(self.g.field.axes[1:]):
            rest, place = split(rest, axis.count)
            places.insert(0, place)
        return places

    def _searches(self, image: Index, windows: list[Index]) -> Iterator[WindowSearch]:
        """The search of a window: written twice if it may reach over the edge of x."""
        field, dtypes = self.g.field, (self.slots.dtype, i32)
        search = WindowSearch(self.p, field, dtypes, self.x, image, windows)
        axes = zip(field.axes, windows, strict=True)
        bounds = [(axis.inside, self.e.index(window)) for axis, window in axes if axis.has_edges]
        if not bounds:
            yield search
            return
        limits = ((window >= low) & (window < high) for (low, high), window in bounds)
        inside = reduce(and_, limits)
        with self.e.when(inside):
            yield search.inside()
        with self.e.when(~inside):
            yield search

    def _add(self, search: WindowSearch, where: Value, grad: Value, channel: Value) -> None:
        """Add a gradient at the largest element of each channel."""
        block = self.g.channels.block

        def step(taps: list[Index], states: list[Value]) -> list[Value]:
            row, *others = search.places(taps)
            number: Index = 0
            for axis, place in zip(self.g.field.axes[1:], others, strict=True):
                number = number * axis.extent + place
            whole = convert(self.e.index(row * self.g.places + number), i32)
            here = equal(where, whole.splat(grad.lanes))
            cell = self._slot(self.e.index(row)) + (number * block + channel)
            cell.store(cell.load(0, grad.lanes) + select(here, grad, grad.like(0)))
            return states

        fold_taps(self.e, search.ranges, [], step)

    def _put_row(self, image: Index, row: Value, bounds: tuple[Index, Index]) -> None:
        """Put a row that is done, and leave zeros."""
        slot, block = self._slot(row), self.g.channels.block

        def put_vector(place: Value, channel: Value, lanes: int, mask: Value | None) -> None:
            out = self.sink.row((image * self.g.rows.extent + row) * self.g.places + place)
            cell = slot + (place * block + (channel - bounds[0]))
            total = cell.load(0, lanes)
            cell.store(total.like(0))
            out.put(channel, total, mask)

        with self.e.loop(self.g.places, name="place") as place:
            self.g.channels.each(self.e, bounds, partial(put_vector, place))
