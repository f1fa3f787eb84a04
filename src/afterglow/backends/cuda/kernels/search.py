"""Where the largest or smallest element of a line is, by a program for some lines.

Elements are compared as integers in the same order, in which NaN lies beyond all. Each place of a
block keeps the best element that it has seen; of those, the lines' own are chosen at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.broadcast import Strides, chain_strides, strides_within
from afterglow.backends.cuda.kernels.folds import fold_text
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.lines import Lines, LineTiling, anchor_of
from afterglow.backends.cuda.kernels.softmax import line_plans
from afterglow.backends.cuda.kernels.space import Space
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.cuda.tl.types import is_number
from afterglow.backends.items.chain import run_chain, store_results
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import (
    convert,
    equal,
    is_nan,
    reinterpret,
    select,
)
from afterglow.instr import Buffer, KernelPlan, OpInstr
from afterglow.ops.search import ArgExtreme, ArgMax, ArgMin
from afterglow.types.dtype import DType, f64, i32, i64, u32, u64


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    dtype = step.operand(0).type.dtype
    return is_number(dtype) and dtype is not u64


class _Search:
    """The places of what is searched, and of results."""

    def __init__(self, job: Job) -> None:
        step = anchor_of(job)
        assert isinstance(step.op, ArgExtreme)
        self.op, self.job, self.out = step.op, job, step.outs[0]
        x = step.operand(0)
        self.axis = step.op.axis % x.type.rank
        shape = self.out.type.shape
        of_results = {**chain_strides(job.after, shape), self.out: strides_within(self.out, shape)}
        self.after = {buffer: self._in_operand(each) for buffer, each in of_results.items()}
        before = chain_strides(job.before, x.type.shape).values()
        every = [strides_within(x, x.type.shape), *before, *self.after.values()]
        self.space = Space.of(x.type.shape, [self.axis], every)

    def _in_operand(self, strides: Strides) -> Strides:
        """The strides of a buffer of the shape of results, in the shape of what is searched."""
        behind = self.axis + 1 if self.op.keepdims else self.axis
        return (*strides[: self.axis], 0, *strides[behind:])

    def write(self, lines: Lines, found: Value) -> None:
        """Do the steps after the search to the results, and write what is in memory."""
        strides = {buffer: self.space.within(each) for buffer, each in self.after.items()}
        places = [*lines.outer, *(lines.code.index(0) for _ in self.space.elements)]
        given: dict[Buffer, Value] = {self.out: found}
        values = run_chain(lines.kernel, self.job.after, given, places, strides)
        store_results(lines.kernel, values, places, strides)


def _plans(job: Job, target: CudaTarget) -> Sequence[KernelPlan]:
    return line_plans(job, target, _Search(job).space, 1)


@ANCHORS.declare(ArgMax, ArgMin, accepts=_accepts, fuses=("x",), plans=_plans)
def write_arg_extreme(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """The best of each place of a block, then the best of all places."""
    kernel = Kernel(job, target)
    search = _Search(job)
    lines = Lines(kernel, search.space, LineTiling.in_plan(plan))
    found = _found(lines, search.op)
    kernel.release_dependents()
    search.write(lines, convert(found, i64))
    return kernel.finish()


def _found(lines: Lines, op: ArgExtreme) -> Value:
    """The index of the best element of each line; of equal ones the first or the last."""
    code, largest, size = lines.code, isinstance(op, ArgMax), lines.space.size
    dtype = _ranked(lines.dtype)
    worst, beyond = dtype.limits if largest else dtype.limits[::-1]
    best = code.variable(code.constant(dtype, worst), shape=lines.block)
    own = code.along(code.range(lines.tiling.block), lines.rank - 1, lines.rank)
    found = code.variable(convert(code.number(own), i32), shape=lines.block)
    with lines.elements() as places:
        rank = _rank(lines.read(places), beyond)
        symbol = (">" if largest else "<") + ("=" if op.last_index else "")
        with code.when(rank.combined(symbol, best)):
            code.assign(best, rank)
            code.assign(found, convert(code.number(places[-1]), i32))
    top = fold_text("tl.max" if largest else "tl.min", best)
    is_best = equal(best, top) & (found < size)
    last = op.last_index
    return fold_text("tl.max" if last else "tl.min", select(is_best, found, -1 if last else size))


def _ranked(dtype: DType) -> DType:
    """The integer in which elements are compared."""
    return i64 if dtype in (f64, i64, u32) else i32


def _rank(x: Value, beyond: float) -> Value:
    """An integer for each element, in the same order; `beyond` for NaN."""
    if not x.dtype.is_float:
        return convert(x, _ranked(x.dtype))
    unsigned_zero = select(equal(x, 0.0), 0.0, x)
    bits = reinterpret(unsigned_zero, _ranked(x.dtype))
    ordered = select(bits < 0, bits ^ bits.dtype.limits[1], bits)
    return select(is_nan(x), beyond, ordered)
