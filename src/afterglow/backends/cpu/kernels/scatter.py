"""Scatters: elements are written at indices, later ones over earlier ones.

First the data is copied, unless the result lies in its place. Then the updates are put in: all that
may meet at one element by one unit, in order. Floats below 32 bits are combined in f32 and rounded
once, so they go through a workspace, the *board*.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from afterglow.backends.broadcast import Strides, merge_alike
from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, convert, maximum, minimum
from afterglow.backends.cpu.micro.cost import MOVED_BYTE, UPDATED_ELEMENT, work_of
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.lanes import fitting_lanes
from afterglow.backends.cpu.micro.move.axes import MoveCut, StridedMove, as_bits
from afterglow.backends.cpu.micro.move.blocks import Blocks, write_powers
from afterglow.backends.cpu.micro.move.gather import IndexTuples, Term
from afterglow.backends.cpu.micro.move.place import MemoryLine, MemoryPlace, load_first
from afterglow.backends.cpu.micro.move.run import RowMove
from afterglow.backends.cpu.micro.move.write import UNIT, Loops
from afterglow.backends.cpu.micro.rows import Row
from afterglow.instr import Buffer, OpInstr
from afterglow.instr.buffer import row_major
from afterglow.ops.indexing import ScatterND, ScatterReduction
from afterglow.ops.scatter import ScatterElements
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, boolean, f32
from afterglow.types.extent import has_room, largest

LINES = 64
"""Lines side by side that one unit has at most."""
WIDEST_BITS = 32
"""Bits of the elements in which updates are usually combined, which bounds the lanes."""

_COMBINE: dict[ScatterReduction, Callable[[Value, Value], Value]] = {
    ScatterReduction.ADD: lambda old, new: old + new,
    ScatterReduction.MUL: lambda old, new: old * new,
    ScatterReduction.MAX: maximum,
    ScatterReduction.MIN: minimum,
}


@dataclass(frozen=True)
class Board:
    """The destination of updates: the result, or a workspace that becomes the result."""

    reduction: ScatterReduction
    dtype: DType
    strides: Strides
    at: Callable[[Phase], Pointer]

    def updates(self, p: Phase, updates: Buffer) -> Pointer:
        """The updates; where nothing is computed from them, as bits."""
        pointer = p.pointer(updates)
        is_moved = self.reduction is ScatterReduction.NONE
        return pointer.cast(self.dtype) if is_moved else pointer

    def put(self, line: Row, column: Index, new: Value, count: int) -> None:
        """Put in the first `count` lanes of neighbouring updates."""
        if self.reduction is not ScatterReduction.NONE:
            old = load_first(line, column, count, new.lanes)
            new = _COMBINE[self.reduction](old, convert(new, self.dtype))
        MemoryLine(line).put(column, new, count)


def _accepts(step: OpInstr) -> bool:
    """Integers below a byte are not combined."""
    op, dtype = step.op, step.outs[0].type.dtype
    assert isinstance(op, ScatterElements | ScatterND)
    return op.reduction is ScatterReduction.NONE or dtype.bits >= 8 or dtype.is_float


def _needs(r: KernelRequest) -> KernelNeeds:
    """A board, for narrow floats that are combined."""
    op, out = r.step.op, r.step.outs[0].type
    assert isinstance(op, ScatterElements | ScatterND)
    if op.reduction is ScatterReduction.NONE or not out.dtype.is_narrow_float:
        return KernelNeeds()
    return KernelNeeds(workspace={"board": Storage(f32, out.size)})


@kernel(ScatterElements, epilogue=False, accepts=_accepts, needs=_needs)
def write_scatter_elements(k: Kernel) -> None:
    """Write a kernel in which the index replaces the position along the axis."""
    _write_scatter(k, _put_elements)


@kernel(ScatterND, epilogue=False, accepts=_accepts, needs=_needs)
def write_scatter_nd(k: Kernel) -> None:
    """Write a kernel in which a tuple of indices stands for as many axes of data."""
    _write_scatter(k, _put_slices)


def _write_scatter(k: Kernel, put: Callable[[Kernel, Board], None]) -> None:
    op, data, out = k.step.op, k.step.required[0], k.step.outs[0]
    assert isinstance(op, ScatterElements | ScatterND)
    dtype, moved = out.type.dtype, op.reduction is ScatterReduction.NONE
    held = as_bits(dtype) if moved else dtype

    def result(p: Phase) -> Pointer:
        return p.pointer(out).cast(held)

    def operand(p: Phase) -> Pointer:
        return p.pointer(data).cast(held)

    if moved or not dtype.is_narrow_float:
        write_copy(k, "data", Side(data.strides, operand), Side(out.strides, result))
        _put(k, put, Board(op.reduction, held, out.strides, result))
        return

    def workspace(p: Phase) -> Pointer:
        return p.workspace("board")

    dense = row_major(out.type.shape)
    write_copy(k, "widen", Side(data.strides, operand), Side(dense, workspace))
    _put(k, put, Board(op.reduction, f32, dense, workspace))
    write_copy(k, "narrow", Side(dense, workspace), Side(out.strides, result))


def _put(k: Kernel, put: Callable[[Kernel, Board], None], board: Board) -> None:
    data, updates = k.step.required[0].type, k.step.required[2].type
    # what is out of range is written, too
    if has_room(updates.shape) if has_room(data.shape) else updates.size:
        put(k, board)


@dataclass(frozen=True)
class Side:
    """One side of a copy: how far apart elements lie, and where they begin."""

    strides: Strides
    at: Callable[[Phase], Pointer]

    @staticmethod
    def of(buffer: Buffer) -> Side:
        """A buffer as it is."""
        return Side(buffer.strides, lambda p: p.pointer(buffer))


def write_copy(k: Kernel, name: str, source: Side, to: Side) -> None:
    """A phase that copies all elements and converts them, if they do not lie there already."""
    out = k.step.outs[0].type
    move = StridedMove.of(out.shape, to.strides, source.strides).in_memory()
    lanes = max(1, k.target.vector_bits // WIDEST_BITS)
    run = RowMove(lanes, move, out.dtype.itemsize)
    loops = Loops(move.extents, [move.to, move.source], run.cut, [len(move.extents) - 1])
    with k.phase(loops.units, work_of(out.size, out.dtype.itemsize * MOVED_BYTE), name) as p:
        place, operand = MemoryPlace(to.at(p), move.to[-1]), source.at(p)

        def leaf(piece: Index, offsets: list[Index]) -> None:
            """Copy a piece of a row."""
            run.write(p.e, place, piece, offsets[0], operand + offsets[1])

        needed = p.e.constant(boolean, 1)
        if operand.dtype is place.pointer.dtype and source.strides == to.strides:
            needed = ~p.e.is_same(operand, place.pointer)
        with p.e.when(needed), p.units() as unit:
            loops.write(p.e, unit, leaf)


def _put_elements(k: Kernel, board: Board) -> None:
    """A unit has whole lines along the axis, some side by side: only in a line updates meet."""
    op, (data, indices, updates) = k.step.op, k.step.required
    assert isinstance(op, ScatterElements)
    axis, last, extents = op.axis % data.type.rank, data.type.rank - 1, indices.type.shape
    term = Term(0, board.strides[axis])
    to = tuple(0 if at == axis else stride for at, stride in enumerate(board.strides))
    lines = Blocks(1 if axis == last else extents[last], 1, LINES)
    cut = MoveCut(lines.count, largest(extents[axis]) * lines.most)
    loops = Loops(extents, [to, indices.strides, updates.strides], cut, {axis, last})
    with k.phase(loops.units, work_of(updates.type.size, UPDATED_ELEMENT), "updates") as p:
        result, news = board.at(p), board.updates(p, updates)
        tuples = IndexTuples(p, indices, [term])

        def leaf(piece: Index, offsets: list[Index]) -> None:
            """Put in lines side by side, element by element."""
            line, index_at, update = offsets
            with p.e.loop(extents[axis]) as at:
                index_at = index_at + at * indices.strides[axis]
                new_at = news + update + at * updates.strides[axis]

                def put(column: Index, _: Index = 1) -> None:
                    """Put in one element."""
                    place = tuples.place(index_at + column * indices.strides[last])
                    position = result + line + place + column * to[last]
                    board.put(
                        Row(position, 1), 0, (new_at + column * updates.strides[last]).load(), 1
                    )

                lines.write(p.e, piece, put, put)

        with p.units() as unit:
            loops.write(p.e, unit, leaf)


def _put_slices(k: Kernel, board: Board) -> None:
    """A unit has some columns of all slices: there updates meet."""
    data, indices, updates = k.step.required
    depth, leading = indices.type.shape[-1], indices.type.rank - 1
    terms = [Term(at * indices.strides[-1], board.strides[at]) for at in range(depth)]
    tuples, (picked, taken) = merge_alike(
        indices.type.shape[:-1], [indices.strides[:-1], updates.strides[:leading]]
    )
    slices, (to, source) = merge_alike(
        data.type.shape[depth:], [board.strides[depth:], updates.strides[leading:]]
    )
    count = math.prod(tuples)
    lanes = fitting_lanes(max(1, k.target.vector_bits // WIDEST_BITS), slices[-1])
    blocks = Blocks(slices[-1], lanes, max(1, UNIT // largest(count) // lanes) * lanes)
    cut = MoveCut(blocks.count, largest(count) * blocks.most)
    loops = Loops(slices, [to, source], cut, [len(slices) - 1])
    with k.phase(loops.units, work_of(updates.type.size, UPDATED_ELEMENT), "updates") as p:
        result, news = board.at(p), board.updates(p, updates)
        looked_up = IndexTuples(p, indices, terms)

        def leaf(piece: Index, offsets: list[Index]) -> None:
            """Put in some columns of all slices."""

            def put_slice(index_at: Index, update: Index) -> None:
                place = offsets[0] + looked_up.place(index_at)
                line = Row(result + place, to[-1])
                row = Row(news + (offsets[1] + update), source[-1])

                def put(column: Index, width: int, lanes: int) -> None:
                    board.put(line, column, load_first(row, column, width, lanes), width)

                def rest(column: Index, left: Index) -> None:
                    if isinstance(left, int):
                        put(column, left, lanes)
                    else:
                        write_powers(p.e, column, left, lanes, lambda at, n: put(at, n, n))

                blocks.write(p.e, piece, lambda column: put(column, lanes, lanes), rest)

            _for_each(p, tuples, (picked, taken), put_slice)

        with p.units() as unit:
            loops.write(p.e, unit, leaf)


def _for_each(
    p: Phase,
    extents: tuple[int, ...],
    strides: tuple[Strides, Strides],
    body: Callable[[Index, Index], None],
) -> None:
    """Loops over axes, in order, with an offset for each of two sets of strides."""

    def go_along(axis: int, offsets: tuple[Index, Index]) -> None:
        if axis == len(extents):
            body(*offsets)
            return
        with p.e.loop(extents[axis]) as at:
            first, second = (o + at * s[axis] for o, s in zip(offsets, strides, strict=True))
            go_along(axis + 1, (first, second))

    go_along(0, (0, 0))
