"""The places of what is reduced to one element a line, and of the results."""

from __future__ import annotations

from collections.abc import Collection

from afterglow.backends.broadcast import Strides, chain_strides, strides_within
from afterglow.backends.cuda.kernels.lines import (
    Lines,
    LineTiling,
    anchor_of,
    power_of_two,
    warps_for,
)
from afterglow.backends.cuda.kernels.space import Space
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.items.chain import run_chain, store_results
from afterglow.backends.job import Job
from afterglow.graph import Op
from afterglow.ops.reduction import Reduction
from afterglow.ops.search import ArgExtreme

BLOCK = 4096
"""Elements that a program has at once."""
_COLUMNS = 32
"""Results of a program that are neighbours in memory: their elements make whole sectors."""


class Reduced:
    """The places of what is reduced, and of results."""

    def __init__(self, job: Job) -> None:
        step = anchor_of(job)
        self.x, self.out = step.operand(0), step.outs[0]
        self.shape, rank = self.x.type.shape, self.x.type.rank
        axes, self.keeps = _axes_of(step.op)
        self.axes = {axis % rank for axis in axes}
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

    def tiling(self, target: CudaTarget, most: int = BLOCK) -> LineTiling:
        """Blocks of at most so many elements."""
        space, whole = self.space, power_of_two(self.space.size)
        if space.has_columns:
            lines = min(_COLUMNS, power_of_two(space.lines[-1]))
        elif whole >= most:
            lines = 1
        else:
            lines = max(1, min(most // 2 // whole, power_of_two(-(-space.count // target.units))))
        block = min(whole, max(1, most // lines))
        return LineTiling(lines, block, warps_for(lines * block))

    def programs(self, tiling: LineTiling) -> int:
        """How many there are, if none share the elements of results."""
        space = self.space
        if not space.has_columns:
            return -(-space.count // tiling.lines)
        return -(-space.lines[-1] // tiling.lines) * (space.count // space.lines[-1])

    def write(self, lines: Lines, result: Value) -> None:
        """Do the steps after the anchor to the results of some lines, and write them."""
        kernel, within = lines.kernel, self.space.within
        strides = {buffer: within(own) for buffer, own in self.after.items()}
        places = [*lines.outer, *(kernel.code.index(0) for _ in self.space.elements)]
        values = run_chain(kernel, kernel.job.after, {self.out: result}, places, strides)
        store_results(kernel, values, places, strides)


def _axes_of(op: Op) -> tuple[Collection[int], bool]:
    """The axes that are reduced, and whether they stay with extent 1."""
    if isinstance(op, ArgExtreme):
        return [op.axis], op.keepdims
    assert isinstance(op, Reduction)
    return op.axes, op.keepdims
