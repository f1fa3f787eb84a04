"""Element-wise steps alone: one loop over rows, vectors along the innermost axis."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

from afterglow.backends.broadcast import Strides, chain_strides, merge_alike
from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Value, first_lanes, smaller
from afterglow.backends.cpu.micro.cost import ELEMENTWISE_STEP, work_of
from afterglow.backends.cpu.micro.fusion import Chain, ChainRow
from afterglow.backends.cpu.micro.kernel import Kernel, Phase
from afterglow.backends.cpu.micro.lanes import fitting_lanes
from afterglow.backends.cpu.micro.rows import split
from afterglow.instr import Buffer
from afterglow.types.extent import is_ranged, largest

BLOCK = 4096
"""Columns that a unit has at most: enough to be worth handing out, few enough to share."""
UNROLLED = 4
"""Vectors in one turn of the loop, so that the latency of one hides behind the others."""


def write_elementwise(kernel: Kernel) -> None:
    """Write the kernel of a job without an anchor."""
    job = kernel.job
    shape, strides = _merged(kernel)
    columns = shape[-1]
    rows = 1
    for extent in shape[:-1]:
        rows *= extent
    blocks = -(-columns // BLOCK)
    work = work_of(rows * columns, len(job.after) * ELEMENTWISE_STEP)
    with kernel.phase(rows * blocks, work) as p:
        stored = [out for step in job.after for out in step.outs if out not in job.locals]
        chain = Chain(p, job.after, shape, [], stored, strides)
        lanes = _lanes(p, columns)
        with p.units() as unit:
            row, block = split(unit, blocks)
            start = block * BLOCK
            stop: Index = columns
            if largest(blocks) > 1:
                stop = smaller(p.e.index(start + BLOCK), columns)
            _write_row(p, chain.row(row), start, stop, lanes)


def _merged(kernel: Kernel) -> tuple[tuple[int, ...], Mapping[Buffer, Strides]]:
    """The shape that all steps have, with as few axes as their buffers in memory allow."""
    job = kernel.job
    shape = job.after[0].outs[0].type.shape
    own = chain_strides(job.after, shape)
    in_memory = [b for b in own if b not in job.locals]
    extents, strides = merge_alike(shape, [own[b] for b in in_memory])
    return extents, dict(zip(in_memory, strides, strict=True))


def _lanes(p: Phase, columns: int) -> int:
    """Lanes for the narrowest arithmetic among the steps, which is in 32 bits or more."""
    widest = max(
        (b.type.dtype for step in p.kernel.job.after for b in (*step.outs, *step.ins) if b),
        key=lambda dtype: dtype.bits,
    )
    bits = max(widest.bits, 32)
    lanes = max(1, p.target.vector_bits // bits)
    return fitting_lanes(lanes, columns)


def _write_row(p: Phase, row: ChainRow, start: Index, stop: Index, lanes: int) -> None:
    """Whole vectors, several a turn; then single ones; then what is left, under a mask."""
    e, count = p.e, stop - start
    turn = lanes * UNROLLED
    whole = start + count - _rest(count, turn)
    with e.loop(whole, start=start, step=turn) as column:
        for vector in range(UNROLLED):
            row.run({}, column + vector * lanes, lanes, None)
    vectors = start + count - _rest(count, lanes)
    with e.loop(vectors, start=whole, step=lanes) as column:
        row.run({}, column, lanes, None)
    if lanes > 1:
        left = start + count - vectors
        if is_ranged(left) or not isinstance(left, int) or left > 0:
            with e.when(e.index(left) > 0):
                row.run({}, vectors, lanes, _first(e, left, lanes))


def _rest(count: Index, step: int) -> Index:
    """count modulo a power of two."""
    return count % step if isinstance(count, int) else count & (step - 1)


def _first(e: Emitter, left: Index, lanes: int) -> Value:
    """The lanes that are left: if all rows have as many, known before the first of them."""
    with e.at_entry() if is_ranged(left) else nullcontext():
        return first_lanes(e.index(left), lanes)
