"""Reductions along any axes: sums, products, largest and least elements.

Where there are few results of many elements, several programs share the elements of a result; the
one that ends last combines what they found, in the order of the elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.broadcast import Strides, chain_strides, strides_within
from afterglow.backends.cuda.kernels.costs import moving_cost
from afterglow.backends.cuda.kernels.folds import LARGEST, PRODUCT, SMALLEST, SUM, Fold
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.last_arriver import last_program, load_shared
from afterglow.backends.cuda.kernels.lines import (
    Lines,
    LineTiling,
    anchor_of,
    power_of_two,
    warps_for,
)
from afterglow.backends.cuda.kernels.space import Space
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.cuda.tl.types import computed, is_number
from afterglow.backends.items.chain import run_chain, store_results
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import convert, differ, select
from afterglow.graph import Op
from afterglow.instr import KernelPlan, OpInstr
from afterglow.ops.reduction import ReduceMax, ReduceMin, ReduceProd, ReduceSum, Reduction
from afterglow.types.dtype import DType, boolean, i32

ALGORITHM = "reduction"
WORKSPACE = "partial results"
_FOLDS: dict[type[Op], Fold] = {
    ReduceSum: SUM,
    ReduceProd: PRODUCT,
    ReduceMax: LARGEST,
    ReduceMin: SMALLEST,
}
_BLOCK = 4096
"""Elements that a program has at once."""
_PRODUCT_BLOCK = 512
"""The same of products, whose halves are multiplied until one number is left."""
_LEAST_SHARE = 4096
"""Elements of a program at least where several share those of a result."""
_MOST_SHARES = 256
_COLUMNS = 32


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    dtype = step.outs[0].type.dtype
    return is_number(dtype) or dtype is boolean


class Reduced:
    """The places of what is reduced, and of results."""

    def __init__(self, job: Job) -> None:
        step = anchor_of(job)
        assert isinstance(step.op, Reduction)
        self.x, self.out = step.operand(0), step.outs[0]
        self.shape, rank = self.x.type.shape, self.x.type.rank
        self.axes = {axis % rank for axis in step.op.axes}
        self.keeps = step.op.keepdims
        before = chain_strides(job.before, self.shape)
        self.after = {
            buffer: self._in_operand(strides)
            for buffer, strides in {
                **chain_strides(job.after, self.out.type.shape),
                self.out: strides_within(self.out, self.out.type.shape),
            }.items()
        }
        every = [strides_within(self.x, self.shape), *before.values(), *self.after.values()]
        self.space = Space.of(self.shape, self.axes, every)

    def _in_operand(self, strides: Strides) -> Strides:
        """Strides in the shape of the result as those in the shape of the operand."""
        kept = [a for a in range(len(self.shape)) if self.keeps or a not in self.axes]
        own = dict(zip(kept, strides, strict=True))
        return tuple(0 if a in self.axes else own[a] for a in range(len(self.shape)))


def _plans(job: Job, target: CudaTarget) -> Sequence[KernelPlan]:
    """Enough programs to read at full speed, if there is enough to read."""
    reduced = Reduced(job)
    space, step = reduced.space, anchor_of(job)
    tiling = _tiling(space, target, type(step.op))
    programs = _programs(space, tiling)
    most = min(_MOST_SHARES, space.size * tiling.lines // _LEAST_SHARE, 2 * target.units // programs)
    counts = [1] if most < 2 else [most, max(2, most // 2), 1]
    return [_plan(job, target, space, tiling, count) for count in dict.fromkeys(counts)]


def _programs(space: Space, tiling: LineTiling) -> int:
    if not space.has_columns:
        return -(-space.count // tiling.lines)
    return -(-space.lines[-1] // tiling.lines) * (space.count // space.lines[-1])


def _tiling(space: Space, target: CudaTarget, op: type[Op]) -> LineTiling:
    most = _PRODUCT_BLOCK if op is ReduceProd else _BLOCK
    whole = power_of_two(space.size)
    if space.has_columns:
        lines = min(_COLUMNS, power_of_two(space.lines[-1]))
    elif whole >= most:
        lines = 1
    else:
        lines = max(1, min(most // 2 // whole, power_of_two(-(-space.count // target.units))))
    block = min(whole, max(1, most // lines))
    return LineTiling(lines, block, warps_for(lines * block))


def _plan(
    job: Job, target: CudaTarget, space: Space, tiling: LineTiling, shares: int
) -> KernelPlan:
    programs = _programs(space, tiling)
    blocks = _blocks(space, tiling)
    each = -(-blocks // shares)
    shares = -(-blocks // each)
    cost = moving_cost(job, target, programs * shares)
    held = _held(anchor_of(job).outs[0].type.dtype)
    room = programs * shares * tiling.lines * held.itemsize
    workspace = {WORKSPACE: room} if shares > 1 else {}
    settings = {**tiling.settings, "shares": shares}
    return KernelPlan(ALGORITHM, settings, cost, workspace)


def _held(dtype: DType) -> DType:
    """The type in which elements are combined: booleans as integers."""
    return i32 if dtype is boolean else computed(dtype)


@ANCHORS.declare(*_FOLDS, accepts=_accepts, fuses=("x",), plans=_plans)
def write_reduction(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """Blocks of the elements of some results."""
    kernel = Kernel(job, target)
    reduced = Reduced(job)
    lines = Lines(kernel, reduced.space, LineTiling.in_plan(plan))
    lines.dtype = _held(reduced.out.type.dtype)
    fold = _FOLDS[type(kernel.step.op)]
    shares = plan.settings["shares"]
    assert isinstance(shares, int)

    def read(places: Sequence[Value]) -> Value:
        return convert(lines.read(places), lines.dtype)

    if shares == 1:
        found = lines.fold(fold, read)
        kernel.release_dependents()
        _write(lines, reduced, found)
        return kernel.finish()
    code, space, share = lines.code, lines.space, lines.code.program(1)
    each = -(-_blocks(space, lines.tiling) // shares) * lines.tiling.block
    start = code.named(share * each)
    found = lines.fold(fold, read, start, code.named(start + each))
    kernel.release_dependents()
    _combine(lines, reduced, found, share, shares)
    return kernel.finish()


def _combine(
    lines: Lines, reduced: Reduced, found: Value, share: Value, shares: int
) -> None:
    """Put together what the programs found that share the elements of some results."""
    kernel, code, group = lines.kernel, lines.code, lines.number
    width, groups = lines.tiling.lines, kernel.grid[0]
    kernel.grid = (groups, shares, 1)
    memory = kernel.scratch(0, lines.dtype)
    line = code.index(0) if lines.rank == 1 else code.along(code.range(width), 0, 2)
    memory.store(found, (group * shares + share) * width + line)
    with last_program(kernel, group, groups, shares):
        number = code.range(power_of_two(shares))
        number = number if lines.rank == 1 else code.along(number, 1, 2)
        with code.when(number < shares):
            theirs = load_shared(memory, (group * shares + number) * width + line)
        fold = _FOLDS[type(lines.step.op)]
        neutral = fold.start(lines.dtype)
        _write(lines, reduced, fold.within(select(number < shares, theirs, neutral)))


def _blocks(space: Space, tiling: LineTiling) -> int:
    return max(1, -(-space.size // tiling.block))


def _write(lines: Lines, reduced: Reduced, found: Value) -> None:
    """Do the steps after the anchor to results, and write them."""
    kernel, out, within = lines.kernel, reduced.out, lines.space.within
    result = differ(found, 0) if out.type.dtype is boolean else found
    strides = {buffer: within(own) for buffer, own in reduced.after.items()}
    places = [*lines.outer, *(kernel.code.index(0) for _ in lines.space.elements)]
    values = run_chain(kernel, kernel.job.after, {out: result}, places, strides)
    store_results(kernel, values, places, strides)
