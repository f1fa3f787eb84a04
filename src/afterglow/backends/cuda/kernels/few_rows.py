"""Products of a few rows: as fast as the right matrix can be read, without tensor cores.

A thread multiplies vectors of terms of some columns, and adds up at the end: what it reads goes to
registers at once, many vectors on their way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from afterglow.backends.broadcast import merge_alike, strides_within
from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.kernels.matrices import Layout, columns_of
from afterglow.backends.cuda.kernels.shares import last_of
from afterglow.backends.cuda.kernels.strips import Strip, unrolled_steps
from afterglow.backends.cuda.kernels.tile_blocks import Numbers, load, numbers
from afterglow.backends.cuda.kernels.tile_results import places_by_row, write_block
from afterglow.backends.cuda.tl import Pointer, Value
from afterglow.backends.cuda.tl.code import offset
from afterglow.backends.items.chain import places_of
from afterglow.backends.pointwise.vocabulary import fma
from afterglow.instr import Buffer, KernelPlan
from afterglow.types.dtype import f32


def write_rows(kernel: Kernel, plan: KernelPlan) -> None:
    """A program for some columns, or several that share their terms."""
    Rows(kernel, Strip.of(plan)).write()


class Rows:
    """What a program does."""

    def __init__(self, kernel: Kernel, strip: Strip) -> None:
        self.kernel, self.code, self.strip = kernel, kernel.code, strip
        self.layout = Layout(kernel.step)
        self.extents = self.layout.extents
        self.steps = strip.steps(self.extents)
        self.is_packed = self.layout.packs(strip.terms)
        self.pitch = self.steps * strip.splits * strip.terms if self.is_packed else 0
        self.shape: tuple[int, ...] = (strip.columns, strip.terms)
        """Of the sums of a row: some for each column."""
        programs = strip.programs(self.extents)
        kernel.grid, kernel.warps = (programs, strip.splits, 1), strip.warps

    def write(self) -> None:
        """The sums of all rows, then the steps behind."""
        code, kernel, strip = self.code, self.kernel, self.strip
        program, columns, fixed = self._begin()
        sums = [
            code.variable(code.constant(f32, 0), "total", self.shape)
            for _ in range(self.extents.rows)
        ]
        self.add(sums)
        kernel.release_dependents()
        totals = [self._of_columns(total) for total in sums]
        with ExitStack() as stack:
            if strip.splits > 1:
                programs = strip.programs(self.extents)
                totals = stack.enter_context(
                    last_of(kernel, totals, program, programs, strip.splits)
                )
            if not columns.exact:
                stack.enter_context(code.when(columns.own < columns.extent))
            for number, total in enumerate(self.finish(totals, columns)):
                places = places_by_row(kernel, fixed, code.index(number), columns.own)
                write_block(kernel, total, places)

    def _of_columns(self, total: Value) -> Value:
        """The sums of columns."""
        while len(total.shape) > 1:
            axis = len(total.shape) - 1
            total = total.derive(f"tl.sum({total.text}, {axis})", shape=total.shape[:-1])
        return total

    def finish(self, totals: Sequence[Value], columns: Numbers) -> Sequence[Value]:
        """Results of sums, before the steps behind."""
        return totals

    def _begin(self) -> tuple[Value, Numbers, Sequence[Value]]:
        """Which columns of which matrix."""
        code, layout, strip = self.code, self.layout, self.strip
        across = -(-self.extents.columns // strip.columns)
        program = block = code.program()
        fixed: Sequence[Value] = []
        if not layout.is_merged:
            number = code.named(program.combined("/", across))
            block = code.named(program.combined("%", across))
            fixed = places_of(self.kernel, number, layout.shape[:-2])
        columns = numbers(code, block, strip.columns, self.extents.columns)
        self.begin_right(columns, fixed)
        self.left_bases = [self._row(number, fixed) for number in range(self.extents.rows)]
        return program, columns, fixed

    def begin_right(self, columns: Numbers, fixed: Sequence[Value]) -> None:
        """Where the columns of a program begin in the right matrix."""
        layout = self.layout
        along = self.pitch if self.is_packed else layout.right[1]
        column, self.column_masks = columns.read(contiguous=along == 1, axis=0)
        self.right_base = self.code.named(column * along + self._matrix(layout.rhs, fixed))

    def _matrix(self, operand: Buffer, fixed: Sequence[Value]) -> Value:
        """Where the matrix of a program begins."""
        if not fixed:
            return self.code.index(0)
        return offset(self.code, fixed, strides_within(operand, self.layout.shape)[:-2])

    def _row(self, number: int, fixed: Sequence[Value]) -> Value:
        """Where a row of the left matrix begins."""
        layout, code = self.layout, self.code
        if fixed:
            return code.named(self._matrix(layout.lhs, fixed) + number * layout.left[0])
        pitch = (*strides_within(layout.lhs, layout.shape)[:-2], layout.left[0])
        extents, (steps,) = merge_alike(layout.shape[:-1], [pitch])
        place, rest = 0, number
        for extent, step in zip(reversed(extents), reversed(steps), strict=True):
            place, rest = place + rest % extent * step, rest // extent
        return code.index(place)

    @contextmanager
    def iterations(self, size: int) -> Iterator[list[Value]]:
        """Where some iterations begin that are written out, if each takes so many of its things."""
        code, unrolled = self.code, unrolled_steps(self.steps)
        first = code.index(0)
        if self.strip.splits > 1:
            first = code.named(code.program(1) * (self.steps * size))
        with ExitStack() as stack:
            if self.steps > unrolled:
                outer = stack.enter_context(code.loop(self.steps // unrolled))
                first = code.named(first + outer * (unrolled * size))
            yield [first + n * size for n in range(unrolled)]

    def add(self, sums: Sequence[Value]) -> None:
        """Add all products, some iterations at once."""
        code, strip = self.code, self.strip
        terms = code.along(code.range(strip.terms), 1, 2)
        # a term for each column, though all have the same: threads then have those they need
        everywhere = code.zeros((strip.columns, 1))
        with self.iterations(strip.terms) as starts:
            places = [code.named(start + terms) for start in starts]
            weights = [self._weights(place) for place in places]
            for place, weight in zip(places, weights, strict=True):
                self._add_products(sums, code.named(place + everywhere), weight)

    def _weights(self, place: Value) -> Value:
        """A block of the right matrix."""
        masks = list(self.column_masks)
        if self.is_packed:
            return load(self._packed().numbers, self.right_base + place, masks)
        masks += self._inside(place)
        at = self.right_base + place * self.layout.right[0]
        return load(self.kernel.numbers(self.layout.rhs), at, masks)

    def _add_products(self, sums: Sequence[Value], place: Value, weight: Value) -> None:
        x, masks = self.kernel.numbers(self.layout.lhs), self._inside(place)
        for total, base in zip(sums, self.left_bases, strict=True):
            value = load(x, base + place * self.layout.left[1], masks)
            self.code.assign(total, fma(value, weight, total))

    def _inside(self, place: Value) -> list[Value]:
        """The condition that there are such terms."""
        whole = self.steps * self.strip.splits * self.strip.terms
        return [] if whole == self.extents.terms else [place < self.extents.terms]

    def _packed(self) -> Pointer:
        """The right matrix by columns, with zeros behind each."""
        flip = self.layout.flips[1]
        order = f"columns of {self.pitch}{', transposed' if flip else ''}"
        return self.kernel.packed(self.layout.rhs, order, partial(columns_of, flip, self.pitch))
