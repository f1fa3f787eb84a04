"""Reductions along any axes: sums, products, largest and least elements.

Where there are few results of many elements, several programs share the elements of a result; the
one that ends last combines what they found, in the order of the elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cuda.kernels.costs import moving_cost
from afterglow.backends.cuda.kernels.folds import LARGEST, PRODUCT, SMALLEST, SUM, Fold
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.last_arriver import last_program, load_shared
from afterglow.backends.cuda.kernels.lines import Lines, LineTiling, anchor_of, power_of_two
from afterglow.backends.cuda.kernels.reduced import BLOCK, Reduced
from afterglow.backends.cuda.kernels.space import Space
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.cuda.tl.types import computed, is_number
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import convert, differ, select
from afterglow.graph import Op
from afterglow.instr import KernelPlan, OpInstr
from afterglow.ops.reduction import ReduceMax, ReduceMin, ReduceProd, ReduceSum
from afterglow.types.dtype import DType, boolean, i32

ALGORITHM = "reduction"
WORKSPACE = "partial results"
_FOLDS: dict[type[Op], Fold] = {
    ReduceSum: SUM,
    ReduceProd: PRODUCT,
    ReduceMax: LARGEST,
    ReduceMin: SMALLEST,
}
_PRODUCT_BLOCK = 512
"""Elements of products that a program has at once: halves of them are multiplied."""
_LEAST_SHARE = 4096
"""Elements of a program at least where several share those of a result."""
_MOST_SHARES = 256


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    dtype = step.outs[0].type.dtype
    return is_number(dtype) or dtype is boolean


def _plans(job: Job, target: CudaTarget) -> Sequence[KernelPlan]:
    """Enough programs to read at full speed, if there is enough to read."""
    reduced = Reduced(job)
    space = reduced.space
    is_product = isinstance(anchor_of(job).op, ReduceProd)
    tiling = reduced.tiling(target, _PRODUCT_BLOCK if is_product else BLOCK)
    programs = max(1, reduced.programs(tiling))
    most = min(
        _MOST_SHARES, space.size * tiling.lines // _LEAST_SHARE, 2 * target.units // programs
    )
    counts = [1] if most < 2 else [most, max(2, most // 2), 1]
    return [_plan(job, target, reduced, tiling, count) for count in dict.fromkeys(counts)]


def _plan(
    job: Job, target: CudaTarget, reduced: Reduced, tiling: LineTiling, shares: int
) -> KernelPlan:
    programs = reduced.programs(tiling)
    blocks = _blocks(reduced.space, tiling)
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

    if reduced.space.size == 0:
        identity = fold.start(lines.dtype)
        if reduced.out.type.dtype is boolean:
            identity = min(max(identity, 0), 1)
        nothing = lines.code.constant(lines.dtype, identity)
        reduced.write(lines, _finished(reduced, nothing))
        return kernel.finish()
    if shares == 1:
        found = lines.fold(fold, read)
        kernel.release_dependents()
        reduced.write(lines, _finished(reduced, found))
        return kernel.finish()
    code, space, share = lines.code, lines.space, lines.code.program(1)
    each = -(-_blocks(space, lines.tiling) // shares) * lines.tiling.block
    start = code.named(share * each)
    found = lines.fold(fold, read, start, code.named(start + each))
    kernel.release_dependents()
    _combine(lines, reduced, found, share, shares)
    return kernel.finish()


def _combine(lines: Lines, reduced: Reduced, found: Value, share: Value, shares: int) -> None:
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
        total = fold.within(select(number < shares, theirs, neutral))
        reduced.write(lines, _finished(reduced, total))


def _blocks(space: Space, tiling: LineTiling) -> int:
    return max(1, -(-space.size // tiling.block))


def _finished(reduced: Reduced, found: Value) -> Value:
    """A result in its own type."""
    return differ(found, 0) if reduced.out.type.dtype is boolean else found
