"""Blocks of lines of elements: what softmax, norms and reductions have in common.

A program has some lines: all their elements at once, which it keeps in registers, or a block of
them after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from afterglow.backends.broadcast import Strides, chain_strides, strides_within
from afterglow.backends.cuda.kernels.folds import Fold
from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.kernels.space import Space
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.cuda.tl.types import computed
from afterglow.backends.items.chain import load, places_of, run_chain, store_results
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import convert, select
from afterglow.instr import Buffer, KernelPlan, OpInstr
from afterglow.support.lazy_dataclass import dataclass

Places = Sequence[Value]
"""Indices along the axes of lines, then along those of elements."""
ValueAt = Callable[[Places], Value]
MOST_KEPT = 16384
"""Elements of a line that a program keeps in registers at most."""
_BLOCK = 4096
"""Elements of a block where there are several."""
_ITEMS = 2048
"""Elements of the lines of a program, if they are short."""
_COLUMNS = 32
"""Lines of a program that are neighbours in memory: the bytes of them make whole sectors."""
_ELEMENTS_PER_WARP = 256
_MOST_WARPS = 16


@dataclass(frozen=True)
class LineTiling:
    """How the work of a kernel on lines is divided."""

    lines: int
    """Lines of a program, a power of two."""
    block: int
    """Elements of each that are there at once, a power of two."""
    warps: int

    @staticmethod
    def of(space: Space, target: CudaTarget) -> LineTiling:
        """All of a line at once unless it is long; several short lines."""
        whole = power_of_two(space.size)
        if space.has_columns:
            lines = min(_COLUMNS, power_of_two(space.lines[-1]))
            block = min(whole, max(1, _BLOCK // lines))
            kept = whole * lines <= 2 * _BLOCK
            return LineTiling.sized(lines, whole if kept else block)
        if whole > MOST_KEPT:
            return LineTiling.sized(1, _BLOCK)
        most = power_of_two(-(-space.count // target.units))
        return LineTiling.sized(max(1, min(_ITEMS // whole, most)), whole)

    @staticmethod
    def sized(lines: int, block: int) -> LineTiling:
        """As many warps as a block is worth."""
        return LineTiling(lines, block, warps_for(lines * block))

    @staticmethod
    def in_plan(plan: KernelPlan) -> LineTiling:
        """What a plan says."""
        lines, block, warps = (plan.settings[name] for name in ("lines", "block", "warps"))
        assert isinstance(lines, int)
        assert isinstance(block, int)
        assert isinstance(warps, int)
        return LineTiling(lines, block, warps)

    def changed(self, lines: float, warps: float) -> LineTiling | None:
        """The same with so many times the lines and the warps, if there are such."""
        found = LineTiling(int(self.lines * lines), self.block, int(self.warps * warps))
        fits = 1 <= found.warps <= _MOST_WARPS and found.lines * found.block <= MOST_KEPT
        return found if fits else None

    @property
    def settings(self) -> Mapping[str, int]:
        """As a plan holds it."""
        return {"lines": self.lines, "block": self.block, "warps": self.warps}


def power_of_two(count: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << max(0, count - 1).bit_length()


def warps_for(elements: int) -> int:
    """The warps of a program that has so many elements in registers."""
    return max(1, min(_MOST_WARPS, power_of_two(elements // _ELEMENTS_PER_WARP)))


def space_of(
    job: Job,
    along: Sequence[int],
    view: Callable[[Strides], Strides] = lambda strides: strides,
    extents: Sequence[int] | None = None,
) -> Space:
    """The lines of an anchor that makes a result of the shape of its first operand.

    `view` makes strides in the shape `extents`, if lines are along axes of that shape, of those in
    the shape of the operand.
    """
    step = anchor_of(job)
    shape = step.operand(0).type.shape
    own = chain_strides([step], shape).values()
    chains = [*chain_strides(job.before, shape).values(), *chain_strides(job.after, shape).values()]
    every = [strides_within(step.operand(0), shape), *own, *chains]
    return Space.of(shape if extents is None else extents, along, every, view)


class Lines:
    """The lines of a program, while its kernel is being written."""

    def __init__(self, kernel: Kernel, space: Space, tiling: LineTiling) -> None:
        self.kernel, self.code, self.space, self.tiling = kernel, kernel.code, space, tiling
        self.step = kernel.step
        self.dtype = computed(self.step.operand(0).type.dtype)
        self.is_whole = tiling.block >= space.size
        self.rank = 1 if tiling.lines == 1 else 2
        self.block = (tiling.block,) if self.rank == 1 else (tiling.lines, tiling.block)
        kernel.warps = tiling.warps
        self.number = kernel.code.program()
        self.outer = self._outer()
        self._elements = self._range(tiling.block, self.rank - 1)
        self._kept: Value | None = None

    def _range(self, count: int, axis: int) -> Value:
        return self.code.along(self.code.range(count), axis, self.rank)

    def _outer(self) -> list[Value]:
        """The place of each line; those that there are not are masked."""
        extents, lines = self.space.lines, self.tiling.lines
        if self.space.has_columns:
            return self._columns(extents, lines)
        self.kernel.grid = (-(-self.space.count // lines), 1, 1)
        if lines == 1:
            return places_of(self.kernel, self.number, extents)
        line = self.code.named(self.number * lines + self._range(lines, 0))
        if self.space.count % lines:
            self.code.mask(line < self.space.count)
        return places_of(self.kernel, line, extents)

    def _columns(self, extents: Sequence[int], lines: int) -> list[Value]:
        """Lines that are neighbours in memory, which no program has of two rows."""
        blocks = -(-extents[-1] // lines)
        count = blocks * (self.space.count // extents[-1])
        self.kernel.grid = (count, 1, 1)
        *rest, block = places_of(self.kernel, self.number, (*extents[:-1], blocks))
        if lines == 1:
            return [*rest, block]
        line = self.code.named(block * lines + self._range(lines, 0))
        if extents[-1] % lines:
            self.code.mask(line < extents[-1])
        return [*rest, line]

    @contextmanager
    def elements(self, start: Value | int = 0, end: Value | int | None = None) -> Iterator[Places]:
        """Statements for every block of elements, of which those beyond the end are masked."""
        code, block, size = self.code, self.tiling.block, self.space.size
        with ExitStack() as stack:
            element = self._elements
            if not self.is_whole:
                first = stack.enter_context(code.loop(size if end is None else end, start, block))
                element = code.named(first + element)
            if end is not None or size % block:
                stack.enter_context(code.when(element < size))
            inner = places_of(self.kernel, element, self.space.elements)
            yield [*self.outer, *inner]

    def fold(
        self,
        fold: Fold,
        value_at: ValueAt,
        start: Value | int = 0,
        end: Value | int | None = None,
    ) -> Value:
        """Combine a value of every element of each line."""
        if self.is_whole:
            with self.elements() as places:
                value = self.filled(value_at(places), fold)
            return fold.within(value)
        total = self.total(fold)
        with self.elements(start, end) as places:
            self.code.assign(total, fold.combine(total, value_at(places)))
        return fold.within(total)

    def total(self, fold: Fold) -> Value:
        """What is found so far, of each place of a block."""
        start = self.code.constant(self.dtype, fold.start(self.dtype))
        return self.code.variable(start, shape=self.block)

    def filled(self, value: Value, fold: Fold) -> Value:
        """A block of a whole line, in which what lies beyond its end changes nothing."""
        size = self.space.size
        if size % self.tiling.block == 0:
            return self.spread(value)
        return self.spread(select(self._elements < size, value, fold.start(value.dtype)))

    def spread(self, value: Value) -> Value:
        """A value as a block."""
        if value.shape == self.block:
            return value
        text = f"tl.broadcast_to({value.text}, {self.block})"
        return value.derive(text, shape=self.block)

    def read(self, places: Places) -> Value:
        """The elements of x at a place: read once if all are kept."""
        if self._kept is not None:
            return self._kept
        value = self._read(places)
        if self.is_whole:
            self._kept = value
        return value

    def _read(self, places: Places) -> Value:
        x, job = self.step.operand(0), self.kernel.job
        if not any(x in step.outs for step in job.before):
            strides = self.space.within(strides_within(x, x.type.shape))
            return load(self.kernel, x, places, strides)
        every = self._strides(job.before, x)
        values = run_chain(self.kernel, job.before, {}, places, every)
        return convert(values[x], computed(values[x].dtype))

    def beside(self, index: int, places: Places, axis: int | None = None) -> Value | None:
        """The elements of another operand, which is broadcast to x; a vector along an axis."""
        buffer = self.step.optional(index)
        if buffer is None:
            return None
        strides = strides_within(buffer, self.step.operand(0).type.shape, axis)
        return load(self.kernel, buffer, places, self.space.within(strides))

    def finish(self, result_at: ValueAt) -> None:
        """Write a result for every element."""
        with self.elements() as places:
            self.write(result_at(places), places)

    def write(self, result: Value, places: Places) -> None:
        """Do the steps after the anchor to a block of its result, and write what is in memory."""
        out, steps = self.step.outs[0], self.kernel.job.after
        strides = self._strides(steps, out)
        values = run_chain(self.kernel, steps, {out: result}, places, strides)
        store_results(self.kernel, values, places, strides)

    def _strides(self, steps: Sequence[OpInstr], own: Buffer) -> dict[Buffer, Strides]:
        shape = own.type.shape
        every = {**chain_strides(steps, shape), own: strides_within(own, shape)}
        return {buffer: self.space.within(strides) for buffer, strides in every.items()}


def anchor_of(job: Job) -> OpInstr:
    """The anchor of a job that has one."""
    assert job.anchor is not None
    return job.anchor
