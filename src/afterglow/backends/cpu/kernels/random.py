"""Random numbers: a vector of blocks at once, of which each gives four neighbouring elements."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Value,
    convert,
    first_lanes,
    interleave,
    lane_numbers,
    part,
    reinterpret,
    smaller,
)
from afterglow.backends.cpu.micro.cost import RANDOM_ELEMENT, work_of
from afterglow.backends.cpu.micro.fusion import SinkRow
from afterglow.backends.cpu.micro.kernel import Kernel, Phase
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.rows import split
from afterglow.instr import OpInstr
from afterglow.ops.random import WORD, RandomUniform, philox
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32, i32, u64
from afterglow.types.extent import is_ranged

EACH = 4
"""Elements of a block."""
MOST_COLUMNS = 4096
"""Columns that a unit computes."""
FEWEST_COLUMNS = 32
"""Of shorter rows, vectors would be mostly empty."""


def _accepts(step: OpInstr) -> bool:
    """Rows of whole blocks, so many that vectors are filled; others are lowered."""
    type = step.outs[0].type
    if type.dtype is not f32 or not type.rank or any(map(is_ranged, type.shape)):
        return False
    columns = type.shape[-1]
    return columns >= FEWEST_COLUMNS and columns % EACH == 0 and 0 < type.size // EACH < 2**32


@dataclass(frozen=True)
class _Blocks:
    """What all blocks share: the op, the lower and upper word of the run, and the lanes."""

    op: RandomUniform
    run: tuple[Value, Value]
    lanes: int

    def put(self, p: Phase, row: SinkRow, first: Value, column: Index, left: Index) -> None:
        """As many elements as the blocks from `first` on give, of which `left` are in the row."""
        numbers = first.splat(self.lanes) + lane_numbers(first.code, u64, self.lanes)
        stream = first.like(self.op.stream).splat(self.lanes)
        words = philox((numbers, stream, *(w.splat(self.lanes) for w in self.run)), self.op.key)
        a, b, c, d = (convert(convert(word >> 8, i32), f32) * 2.0**-24 for word in words)
        elements = interleave(interleave(a, c), interleave(b, d))
        for index in range(EACH):
            start = index * self.lanes
            mask = first_lanes(p.e.index(left) - start, self.lanes)
            row.put(column + start, part(elements, start, self.lanes), mask)


@kernel(RandomUniform, accepts=_accepts)
def write_random_uniform(k: Kernel) -> None:
    """Write the kernel; a unit is a row, or some columns of one."""
    op, (run,), (out,) = k.step.op, k.step.required, k.step.outs
    assert isinstance(op, RandomUniform)
    columns = out.type.shape[-1]
    pieces = -(-columns // MOST_COLUMNS)
    lanes = full_lanes(k.target, f32)
    with k.phase(out.type.size // columns * pieces, work_of(out.type.size, RANDOM_ELEMENT)) as p:
        number = reinterpret(p.pointer(run).load(), u64)
        blocks = _Blocks(op, (number & WORD, number >> 32), lanes)
        sink = p.sink()
        with p.units() as unit:
            row, piece = split(unit, pieces)
            start = piece * MOST_COLUMNS
            end = smaller(p.e.index(start) + MOST_COLUMNS, columns)
            place = sink.row(row)
            with p.e.loop(end, start=start, step=EACH * lanes) as column:
                first = convert((row * columns + column) >> 2, u64)
                blocks.put(p, place, first, column, end - column)
