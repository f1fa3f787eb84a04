"""Tiles of products of bytes, on processors.

These multiply floats faster than they multiply integers, and floats are exact up to 2^24. So
bytes become floats, in the item's own memory; as many products are added as stay below that, and
then counted among the sums, which are integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from afterglow.backends.items.around import lanes_of_results, write_result
from afterglow.backends.items.chain import places_of
from afterglow.backends.items.lanes import lanes_within
from afterglow.backends.items.language import offset
from afterglow.backends.items.quantized_parts import (
    known_zero_of_x,
    packed_weight,
    place_of_row,
    scaled,
    sliding_of,
    zero_of_weight,
    zero_of_x,
)
from afterglow.backends.launched.parameters import elements_of
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.clc.value import index_of
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.ops.quantized import QuantizedConv
from afterglow.types import Array
from afterglow.types.dtype import f32, i8, i16, i32

EXACT = 1 << 24
"""Whole numbers up to here are exact as f32."""
MOST_STAGED = 576
"""Terms of a sum whose bytes are converted at a time: for all rows they stay in a cache."""
REGISTERS = {16: 24}
FEW_REGISTERS = 8
"""Vectors of sums of an item, if its vectors have 16 lanes, and else."""


class Tiles:
    """Some rows by some vectors of columns of a product, in a work-item.

    A row is a place of the result. `arrange` makes [groups, terms of a sum, columns] of the weight.
    """

    def __init__(self, kernel: Kernel, arrange: Callable[[Array], Array]) -> None:
        self.kernel, self.code, self.arrange = kernel, kernel.code, arrange
        self.step, self.out = kernel.step, kernel.step.outs[0]
        weight = arrange(elements_of(self.step.operand(1)))
        self.groups, self.terms, self.columns = weight.shape
        self._divide()
        self._bound(weight.astype(np.int32) - zero_of_weight(self.step))
        self.sliding = sliding_of(kernel) if isinstance(self.step.op, QuantizedConv) else None
        taps = 1 if self.sliding is None else math.prod(self.sliding.windows.kernel)
        self.channels = self.terms // taps
        self.is_whole = self.terms <= MOST_STAGED
        """Whether all terms are converted at once, rather than for each tap."""
        self.staged = self.terms if self.is_whole else min(self.channels, MOST_STAGED)
        self.x_lanes = lanes_within(math.gcd(self.channels, self.staged), kernel.limits.lanes)

    def _divide(self) -> None:
        """How many rows and columns an item has."""
        self.lanes = self.kernel.limits.lanes
        while self.lanes > 1 and self.lanes // 2 >= self.columns:
            self.lanes //= 2
        self.vectors = 2 if self.columns > self.lanes else 1
        self.width = self.vectors * self.lanes
        self.places = math.prod(self.out.type.shape[:-1])
        most = REGISTERS.get(self.lanes, FEW_REGISTERS) // self.vectors
        self.rows = -(-self.places // -(-self.places // most))

    def _bound(self, differences: Array) -> None:
        """How many terms can be added as floats."""
        zero, dtype = known_zero_of_x(self.step), self.step.operand(0).type.dtype
        least, most = map(int, dtype.limits)
        reach = most - least if zero is None else max(most - zero, zero - least)
        sizes = np.abs(differences)
        every = int(sizes.sum(1).max(initial=0)) * reach <= EXACT
        largest = max(1, int(sizes.max(initial=0)) * reach)
        self.exact_terms = self.terms if every else EXACT // largest
        self.type = i8 if np.abs(differences + 0.5).max(initial=0) < 128 else i16

    def write(self) -> KernelSource:
        """The kernel of the product."""
        kernel, code = self.kernel, self.code
        kernel.items = (-(-self.places // self.rows), -(-self.columns // self.width), self.groups)
        kernel.group = (1, 1, 1)
        self.first = code.named(code.work_item(0) * self.rows)
        self.panel, self.group = code.work_item(1), code.work_item(2)
        self.zero = zero_of_x(kernel)
        self.held = code.private(f32, self.rows * self.staged)
        self.totals = code.private(i32, self.rows * self.width)
        self._clear_totals()
        panels = -(-self.columns // self.width)
        start = (self.group * panels + self.panel) * (self.terms * self.width)
        order = f"tiles of {self.width} for {self.step.op!r}"
        self.source = packed_weight(kernel, order, self._packed, self.type)
        self.start = code.named(start)
        self._add_all()
        self._write_results()
        return kernel.finish()

    def _packed(self, data: Array) -> Array:
        """Panels of neighbouring columns, with zeros behind the last."""
        panels = -(-self.columns // self.width)
        padded = np.zeros((self.groups, self.terms, panels * self.width), data.dtype)
        padded[:, :, : self.columns] = self.arrange(data)
        split = padded.reshape(self.groups, self.terms, panels, self.width)
        return np.ascontiguousarray(split.transpose(0, 2, 1, 3))

    def _clear_totals(self) -> None:
        zero = self.code.constant(i32, 0, self.lanes)
        with self.code.loop(self.rows * self.width, step=self.lanes) as place:
            self.totals.store(zero, place)

    def _add_all(self) -> None:
        """Convert and add up all terms: at once, or those of each tap."""
        code = self.code
        if self.sliding is None:
            self._add_by_parts([], code.index(0))
            return
        if self.is_whole:
            with self.sliding.taps() as taps:
                place = code.named(self.sliding.number(taps) * self.channels)
                self._stage(taps, code.index(0), self.channels, place)
            self._multiply(code.index(0), self.terms)
            return
        with self.sliding.taps() as taps:
            self._add_by_parts(taps, code.named(self.sliding.number(taps) * self.channels))

    def _add_by_parts(self, taps: Sequence[Value], term: Value) -> None:
        """The channels of a tap, as many at a time as can be held."""
        code = self.code
        with code.loop(self.channels, step=self.staged) as c:
            count: Value | int = self.staged
            if self.channels % self.staged:
                count = code.named(_smaller(_difference(self.channels, c), self.staged))
            self._stage(taps, c, count, code.index(0))
            self._multiply(code.named(term + c), count)

    def _stage(self, taps: Sequence[Value], c: Value, count: Value | int, place: Value) -> None:
        """Convert channels from one on, of every row, and hold them from a place on."""
        code, x, lanes = self.code, self.step.operand(0), self.x_lanes
        given = self.kernel.pointer(x)
        zero = convert(self.zero, f32) if isinstance(self.zero, Value) else float(self.zero)
        with code.loop(self.rows) as row:
            start, mask = self._start_of(row, taps)
            into = code.named(row * self.staged + place)
            inside = "" if mask is None else f"if ({mask.text})"
            with code.block(inside), code.loop(count, step=lanes) as i:
                number = convert(given.load(start + c + i, lanes), f32)
                self.held.store(number - zero, into + i)
            if mask is not None:
                with code.block("else"), code.loop(count, step=lanes) as i:
                    self.held.store(code.constant(f32, 0, lanes), into + i)

    def _start_of(self, row: Value, taps: Sequence[Value]) -> tuple[Value, Value | None]:
        """Where the channels of a row begin that a tap sees, and whether it sees any."""
        code, x = self.code, self.step.operand(0)
        bounded = _smaller(self.first + row, self.places - 1)
        where = places_of(self.kernel, code.named(bounded), self.out.type.shape[:-1])
        if self.sliding is None:
            return code.named(offset(code, place_of_row(x, where), x.strides[:-1])), None
        seen = self.sliding.seen(self.sliding.corner(where[1:]), taps)
        mask = self.sliding.inside(seen)
        place = offset(code, [where[0], *seen, self.group * self.channels], x.strides)
        return code.named(place), mask

    def _multiply(self, term: Value, count: Value | int) -> None:
        """Add the products of what is held with the weights from a term on."""
        if isinstance(count, int) and count <= self.exact_terms:
            self._multiply_exactly(term, self.code.index(0), count)
            return
        with self.code.loop(count, step=self.exact_terms) as begin:
            left = count - begin if isinstance(count, Value) else _difference(count, begin)
            some = self.code.named(_smaller(left, self.exact_terms))
            self._multiply_exactly(self.code.named(term + begin), begin, some)

    def _multiply_exactly(self, term: Value, begin: Value, count: Value | int) -> None:
        code = self.code
        zero = code.constant(f32, 0, self.lanes)
        sums = [[code.variable(zero) for _ in range(self.vectors)] for _ in range(self.rows)]
        place = code.named(self.start + term * self.width)
        with code.fused_loop(count) as k:
            columns = [
                convert(self.source.load(place + k * self.width + n * self.lanes, self.lanes), f32)
                for n in range(self.vectors)
            ]
            for m, row in enumerate(sums):
                number = self.held.load(begin + k + m * self.staged)
                for total, column in zip(row, columns, strict=True):
                    code.perform(f"{total.text} += {number.text} * {column.text};")
        for m, row in enumerate(sums):
            for n, total in enumerate(row):
                into = m * self.width + n * self.lanes
                known = self.totals.load(into, self.lanes)
                self.totals.store(known + convert(total, i32), into)

    def _write_results(self) -> None:
        """Sums with what follows them; none beyond the last row and the last column."""
        code, lanes = self.code, lanes_of_results(self.kernel, self.lanes)
        if self.columns % self.width:
            lanes = 1
        rows = _smaller(_difference(self.places, self.first), self.rows)
        column = code.named(self.panel * self.width)
        columns = _smaller(_difference(self.columns, column), self.width)
        with code.loop(code.named(rows)) as row, code.loop(code.named(columns), step=lanes) as n:
            at = code.named(self.group * self.columns + column + n)
            total = self.totals.load(row * self.width + n, lanes)
            where = places_of(self.kernel, code.named(self.first + row), self.out.type.shape[:-1])
            write_result(self.kernel, scaled(self.kernel, total, at, lanes), [*where, at], lanes)


def _smaller(index: Value, other: int) -> Value:
    """The smaller one of an index and a number."""
    return index_of(index.code, index.dtype, f"min({index.text}, {index.like(other).text})")


def _difference(number: int, index: Value) -> Value:
    return index.like(number) - index
