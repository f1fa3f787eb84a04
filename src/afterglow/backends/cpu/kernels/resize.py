"""Resampling: each element of the result is a weighted sum of elements of x near its position.

Which elements these are, and their weights, stands in tables, one pair for each axis that changes.
Vectors run along the last axis: channels as a rule; if it changes too, its elements are gathered.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from afterglow.backends.cpu.kernels.resize_tables import RangedAxis, write_table
from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    convert,
    fma,
    gather,
    rint,
)
from afterglow.backends.cpu.micro.cost import RESIZED_TAP
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.rows import Row, split
from afterglow.backends.cpu.micro.sliding import Channels, each_row, load
from afterglow.instr import OpInstr
from afterglow.ops.image import WEIGHT_BITS, WEIGHT_ONE, Coordinates, Interpolation, Resize
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import DType, f32, f64, i8, i32, i64, u8
from afterglow.types.extent import is_ranged, largest

MOST_FIXED = 2
"""Axes along which weighted sums of bytes fit 32 bits."""
TABLE_ENTRY = 64.0
"""FLOPs that take about as long as an entry of a table."""
MOST_TAPS = 4
"""Elements along an axis that are written one by one; more are a loop."""


def _accepts(step: OpInstr) -> bool:
    """Whether nothing lies outside x."""
    op = step.op
    assert isinstance(op, Resize)
    return op.coordinates is not Coordinates.CROP


def _name(step: OpInstr) -> str:
    op = step.op
    assert isinstance(op, Resize)
    return f"resize_{op.mode.value}"


def _needs(r: KernelRequest) -> KernelNeeds:
    """Tables of axes that are ranged."""
    plan = _Plan(r)
    workspace = {}
    for axis in filter(plan.is_ranged, plan.resized):
        count = plan.taps(axis) * plan.row(axis)
        workspace[f"offsets{axis}"] = Storage(i64, count)
        if plan.weighs:
            workspace[f"weights{axis}"] = Storage(plan.dtype, count)
    return KernelNeeds(workspace)


@kernel(Resize, name=_name, accepts=_accepts, needs=_needs)
def write_resize(k: Kernel) -> None:
    """Write a kernel that resamples: a unit for each line along the last axis but one."""
    plan = _Plan(k)
    for axis in filter(plan.is_ranged, plan.resized):
        _write_tables(k, plan, axis)
    with k.phase(plan.lines * plan.channels.blocks, plan.work) as p:
        each_row(p, plan.lines, plan.channels, _Resampling(p, plan).write_line)


def _write_tables(k: Kernel, plan: _Plan, axis: int) -> None:
    """Write a phase that fills the tables of a ranged axis, up to whole vectors."""
    own = axis - plan.missing
    whole = plan.x.type.dtype.is_integer
    ranged = RangedAxis(plan.op, own, plan.x.type.shape[own], plan.strides[axis], whole)
    entries = plan.filled(ranged.size)
    with k.phase(entries, TABLE_ENTRY * largest(entries), f"table{axis}") as p:
        offsets = p.workspace(f"offsets{axis}")
        weights = p.workspace(f"weights{axis}") if plan.weighs else None
        with p.units() as place:
            write_table(p.e, ranged, place, plan.row(axis), offsets, weights, plan.one)


class _Plan:
    """The shapes, with two axes at least, and the types."""

    def __init__(self, k: KernelRequest) -> None:
        x, op = k.step.required[0], k.step.op
        assert isinstance(op, Resize)
        missing = max(0, 2 - x.type.rank)
        self.x, self.op, self.missing = x, op, missing
        self.sizes = (*(1,) * missing, *op.sizes)
        self.strides = (*(0,) * missing, *x.strides)
        self.resized = [axis + missing for axis in op.resized_axes(x.type.shape)]
        self.weighs = op.mode is not Interpolation.NEAREST
        self.fixed = self._has_fixed_point()
        self.dtype = _computed(x.type.dtype) if self.weighs else x.type.dtype
        self.dtype = i32 if self.fixed else self.dtype
        self.lines = math.prod(self.sizes[:-2])
        self.channels = Channels.of(k.target, self.sizes[-1], self.dtype, x.type.dtype, self.lines)
        taps = math.prod(self.taps(axis) for axis in self.resized)
        self.work = RESIZED_TAP * k.step.outs[0].type.size * taps

    def _has_fixed_point(self) -> bool:
        """Whether weights are integers, and sums of bytes fit 32 bits."""
        bytes = self.x.type.dtype in (i8, u8)
        return bytes and self.op.has_whole_weights and len(self.resized) <= MOST_FIXED

    @property
    def one(self) -> int:
        """The weight that stands for 1."""
        return WEIGHT_ONE if self.fixed else 1

    def is_ranged(self, axis: int) -> bool:
        """Whether the tables of an axis depend on extents."""
        own = axis - self.missing
        return is_ranged(self.sizes[axis]) or is_ranged(self.x.type.shape[own])

    def taps(self, axis: int) -> int:
        """How many elements of x count along an axis."""
        own = axis - self.missing
        return len(self.op.taps(own, self.x.type.shape[own]))

    def filled(self, extent: int) -> int:
        """Entries of a table: up to whole vectors."""
        return -(-extent // self.channels.lanes) * self.channels.lanes

    def row(self, axis: int) -> int:
        """Entries between those of neighbouring taps of a ranged axis."""
        return self.filled(largest(self.sizes[axis]))

    def table(self, axis: int) -> tuple[Array, Array]:
        """For each element along an axis the elements of x that count, and their weights."""
        own = axis - self.missing
        whole = self.x.type.dtype.is_integer
        indices, weights = self.op.table(own, self.x.type.shape[own], whole=whole)
        return indices, weights * self.one


def _computed(dtype: DType) -> DType:
    """The type of sums; integers are rounded as if they had been exact."""
    return f32 if dtype.is_narrow_float else dtype if dtype.is_float else f64


@dataclass(frozen=True)
class _Near:
    """Elements of x along an axis that count for one element of the result.

    `taps` of them; `at` gives the offset and the weight of one, vectors if it is the last axis.
    """

    taps: int
    at: Callable[[Index], tuple[Index, Value | None]]

    def unrolled(self) -> _Near:
        """The same, with all that it gives known beforehand, if it is not much."""
        if self.taps > MOST_TAPS:
            return self
        found = [self.at(tap) for tap in range(self.taps)]
        return _Near(self.taps, lambda tap: found[tap] if isinstance(tap, int) else self.at(tap))


class _Table:
    """The tables of an axis: offsets in x, and weights, one after the other for each tap.

    They are filled up to whole vectors, with offsets of elements that are there.
    """

    def __init__(self, p: Phase, plan: _Plan, axis: int) -> None:
        self.taps = plan.taps(axis)
        self.weights: Pointer | None = None
        if plan.is_ranged(axis):
            self.row = plan.row(axis)
            self.offsets = p.workspace(f"offsets{axis}")
            self.weights = p.workspace(f"weights{axis}") if plan.weighs else None
            return
        indices, weights = plan.table(axis)
        offsets = (indices * plan.strides[axis]).T
        self.row = plan.filled(len(indices))
        padded = ((0, 0), (0, self.row - len(indices)))
        self.offsets = p.table(f"offsets{axis}", np.pad(offsets, padded))
        if plan.weighs:
            factors = np.pad(weights.T, padded).astype(plan.dtype.numpy)
            self.weights = p.table(f"weights{axis}", factors)

    def near(self, place: Index, lanes: int = 1) -> _Near:
        """What counts for an element, or for neighbouring ones, along the axis."""

        def at(tap: Index) -> tuple[Index, Value | None]:
            start = tap * self.row + place
            weight = None if self.weights is None else self.weights.load(start, lanes)
            return self.offsets.load(start, lanes), weight

        return _Near(self.taps, at)


class _Resampling:
    """The phase while it is being written."""

    def __init__(self, p: Phase, plan: _Plan) -> None:
        self.e, self.plan = p.e, plan
        self.x, self.sink = p.pointer(plan.x), p.sink()
        self.tables = {axis: _Table(p, plan, axis) for axis in plan.resized}

    def write_line(self, line: Index, bounds: tuple[Index, Index]) -> None:
        """The elements along the last axis but one, each a vector of channels after the other."""
        plan, start, columns = self.plan, self.x, len(self.plan.sizes) - 2
        rest, above = line, list[_Near]()
        for axis in reversed(range(columns)):
            rest, place = split(rest, plan.sizes[axis])
            if axis in self.tables:
                above.insert(0, self.tables[axis].near(place).unrolled())
            else:
                start = start + place * plan.strides[axis]
        with self.e.loop(plan.sizes[-2], name="column") as column:
            near, place_of = list(above), start
            if columns in self.tables:
                near.append(self.tables[columns].near(column).unrolled())
            else:
                place_of = start + column * plan.strides[-2]
            self._write_pixel(line * plan.sizes[-2] + column, place_of, near, bounds)

    def _write_pixel(
        self, number: Index, start: Pointer, near: list[_Near], bounds: tuple[Index, Index]
    ) -> None:
        plan, row, last = self.plan, self.sink.row(number), len(self.plan.sizes) - 1
        dtype = plan.x.type.dtype

        def write_vector(channel: Value, lanes: int, mask: Value | None) -> None:
            across = None
            place = start
            if last in self.tables:
                across = self.tables[last].near(channel, lanes)
            else:
                place = start + channel * plan.strides[-1]
            found = _Sum(self.e, plan, lanes, mask, across).over(near, place)
            if plan.fixed:
                found = convert(_halves_to_even(found, WEIGHT_BITS * len(plan.resized)), dtype)
            elif plan.weighs and dtype.is_integer:
                found = convert(rint(found), dtype, saturate=True)
            row.put(channel, found, mask)

        plan.channels.each(self.e, bounds, write_vector)


def _halves_to_even(x: Value, bits: int) -> Value:
    """x / 2^bits, rounded to the nearest integer, of two to the even one."""
    return (x + ((1 << (bits - 1)) - 1) + ((x >> bits) & 1)) >> bits if bits else x


@dataclass(frozen=True)
class _Sum:
    """Sums of neighbouring elements, the first axis innermost, as the op computes them."""

    e: Emitter
    plan: _Plan
    lanes: int
    mask: Value | None
    across: _Near | None

    def over(self, near: list[_Near], place: Pointer) -> Value:
        """The weighted sum of what counts, from a place in x on."""
        if self.across is not None:
            return self._weighed(self.across, lambda offset: self._sum(near, place, offset))
        return self._sum(near, place, None)

    def _sum(self, near: list[_Near], place: Pointer, lanes_at: Index | None) -> Value:
        if not near:
            return self._load(place, lanes_at)
        *inner, last = near
        return self._weighed(last, lambda offset: self._sum(inner, place + offset, lanes_at))

    def _weighed(self, near: _Near, element: Callable[[Index], Value]) -> Value:
        if near.taps > MOST_TAPS:
            return self._weighed_in_loop(near, element)
        total: Value | None = None
        for tap in range(near.taps):
            total = self._added(total, near, tap, element)
        assert total is not None
        return total

    def _weighed_in_loop(self, near: _Near, element: Callable[[Index], Value]) -> Value:
        def step(tap: Value, carried: list[Value]) -> list[Value]:
            return [self._added(carried[0], near, tap, element)]

        zero = self.e.constant(self.plan.dtype, 0, self.lanes)
        return self.e.fold(near.taps, [zero], step)[0]

    def _added(
        self,
        total: Value | None,
        near: _Near,
        tap: Index,
        element: Callable[[Index], Value],
    ) -> Value:
        offset, weight = near.at(tap)
        value = element(offset)
        if weight is None:
            return value
        if total is None:
            return value * weight
        if self.plan.x.type.dtype.is_integer:
            return total + value * weight  # rounded twice, as the op does: ties decide
        return fma(value, weight.splat(self.lanes), total)

    def _load(self, place: Pointer, lanes_at: Index | None) -> Value:
        if lanes_at is None:
            row = Row(place, self.plan.strides[-1])
            return load(row, 0, self.lanes, self.mask, self.plan.dtype)
        assert isinstance(lanes_at, Value)
        if self.lanes == 1:
            return convert(place.load(lanes_at), self.plan.dtype)
        return convert(gather(place, lanes_at), self.plan.dtype)
