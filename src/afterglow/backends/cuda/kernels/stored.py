"""Products with a matrix of bytes with scales, which are read as they are stored.

Few rows make such a product as slow as the matrix takes to come from memory: elements are
multiplied where they arrive, and each sum of a block of them by its scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack

from afterglow.backends.cuda.kernels.costs import LAUNCH_SECONDS
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.lines import power_of_two
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.cuda.tl.code import offset
from afterglow.backends.items.around import write_result
from afterglow.backends.items.chain import places_of
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import KernelPlan, OpInstr
from afterglow.ops.stored import Activations, StoredMatMul
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32, i8, u8

ALGORITHM = "stored rows"
_MOST_ROWS = 8
"""Rows of the left matrix of a program."""
_WIDEST_BLOCK = 256
_ELEMENTS = 4096
"""Elements of the stored matrix that a program has at once."""


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    assert isinstance(step.op, StoredMatMul)
    is_exact = step.op.activations is Activations.FLOAT32
    return is_exact and step.operand(1).type.dtype in (i8, u8)


@dataclass(frozen=True)
class StoredShape:
    """How a matrix is divided: rows of it, blocks of a row, and elements of a block."""

    rows: int
    """Rows of the left matrix of a program."""
    columns: int
    """Columns of results of a program: rows of the stored matrix."""
    blocks: int
    """Blocks of elements with a scale of their own, at a time."""
    width: int
    """Elements of each, a power of two."""
    extent: int
    """How many of these there are."""
    step: int
    """Elements from one time to the next."""

    @staticmethod
    def of(step: OpInstr, columns: int) -> StoredShape:
        """The blocks of a matrix, or parts of large ones."""
        op, lhs, stored = step.op, step.operand(0).type, step.operand(1).type
        assert isinstance(op, StoredMatMul)
        rows = min(_MOST_ROWS, power_of_two(math.prod(lhs.shape[:-1])))
        depth, most = stored.shape[1], max(16, _ELEMENTS // columns)
        block = op.block_size or depth
        if op.block_size and power_of_two(block) <= min(_WIDEST_BLOCK, most):
            width = power_of_two(block)
            blocks = max(1, min(most // width, power_of_two(-(-depth // block))))
            return StoredShape(rows, columns, blocks, width, block, blocks * block)
        width = min(most, power_of_two(block))
        while op.block_size and block % width:
            width //= 2
        return StoredShape(rows, columns, 1, width, width, width)


def _plans(job: Job, target: CudaTarget) -> Sequence[KernelPlan]:
    step = job.anchor
    assert step is not None
    lhs, stored = step.operand(0).type, step.operand(1).type
    count = math.prod(lhs.shape[:-1])
    moved = sum(buffer.type.nbytes for buffer in job.buffers) / target.bandwidth
    work = 2 * count * stored.size / target.flops
    found = []
    for columns, warps in ((8, 4), (4, 4), (16, 8), (16, 4)):
        programs = -(-stored.shape[0] // columns) * -(-count // _MOST_ROWS)
        busy = min(1.0, programs / (2 * target.units))
        seconds = LAUNCH_SECONDS + (moved + work) / max(busy, 1e-3)
        settings = {"columns": columns, "warps": warps}
        found.append(KernelPlan(ALGORITHM, settings, target.cost_of(seconds)))
    return sorted(found, key=lambda plan: plan.cost)


@ANCHORS.declare(StoredMatMul, accepts=_accepts, plans=_plans)
def write_stored_product(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """Some rows by some rows of the stored matrix."""
    kernel = Kernel(job, target)
    columns, warps = plan.settings["columns"], plan.settings["warps"]
    assert isinstance(columns, int)
    assert isinstance(warps, int)
    kernel.warps, kernel.fuses = warps, True
    _Product(kernel, StoredShape.of(kernel.step, columns)).write()
    return kernel.finish()


class _Product:
    """What a program computes: blocks are of columns, blocks of their elements, and elements."""

    def __init__(self, kernel: Kernel, shape: StoredShape) -> None:
        self.kernel, self.code, self.shape = kernel, kernel.code, shape
        self.step = kernel.step
        assert isinstance(self.step.op, StoredMatMul)
        self.op = self.step.op
        self.extents = self.step.operand(0).type.shape[:-1]
        self.depth, self.count = self.step.operand(1).type.shape[1], math.prod(self.extents)
        code, columns = self.code, self.step.operand(1).type.shape[0]
        across, down = -(-columns // shape.columns), -(-self.count // shape.rows)
        kernel.grid = (across * down, 1, 1)
        program = code.program()
        self.first = code.named(program.combined("/", across) * shape.rows)
        number = program.combined("%", across) * shape.columns
        self.column = code.named(number + code.range(shape.columns))
        # columns that there are not stand for the last one: they are not written
        self.near = code.smaller(self.column, columns - 1)
        self.inside = self.column < columns if columns % shape.columns else None

    def write(self) -> None:
        """All elements, then the results."""
        code, shape = self.code, self.shape
        zero = code.constant(f32, 0)
        totals = [
            code.variable(zero, shape=(shape.columns, shape.blocks)) for _ in range(shape.rows)
        ]
        with code.loop(self.depth, step=shape.step) as start:
            self._take(start, totals)
        self.kernel.release_dependents()
        for number, total in enumerate(totals):
            self._write(number, total.derive(f"tl.sum({total.text}, 1)", shape=(shape.columns,)))

    def _take(self, start: Value, totals: Sequence[Value]) -> None:
        """Blocks of elements from a place on."""
        code, shape = self.code, self.shape
        block = code.along(code.range(shape.blocks), 1, 3)
        element = code.along(code.range(shape.width), 2, 3)
        place = code.named((start + block * shape.extent) + element)
        is_there = place < self.depth
        if shape.extent != shape.width:
            is_there = is_there & (element < shape.extent)
        column, zero = code.along(self.near, 0, 3), self._of_block(3, start)
        with code.when(is_there):
            numbers = self._stored(column, place, zero)
            rows = [self._row(number, place) for number in range(shape.rows)]
        scale, least = self._of_block(2, start), self._of_block(4, start)
        assert scale is not None
        for row, total in zip(rows, totals, strict=True):
            found = self._sum(numbers * row, shape.columns) * scale
            if least is not None:
                found = found + self._sum(row, 1) * least
            code.assign(total, total + found)

    def _sum(self, x: Value, columns: int) -> Value:
        """The sums of blocks of elements."""
        return x.derive(f"tl.sum({x.text}, 2)", shape=(columns, self.shape.blocks))

    def _stored(self, column: Value, place: Value, zero: Value | None) -> Value:
        """Elements of the matrix, less the zero points."""
        stored = self.step.operand(1)
        found = self.kernel.pointer(stored).load(offset(self.code, [column, place], stored.strides))
        numbers = convert(found, f32)
        if zero is None:
            return numbers
        wide = convert(zero, f32)
        return numbers - wide.derive(f"{wide.text}[:, :, None]", shape=(*wide.shape, 1))

    def _of_block(self, operand: int, start: Value) -> Value | None:
        """What each block of elements has of its own."""
        buffer = self.step.optional(operand)
        if buffer is None:
            return None
        code, shape = self.code, self.shape
        column = code.along(self.near, 0, 2)
        source = self.kernel.numbers(buffer)
        if not self.op.block_size:
            return source.load(offset(code, [column], buffer.strides[:1]))
        first = code.named(start.combined("/", self.op.block_size))
        block = code.named(first + code.along(code.range(shape.blocks), 1, 2))
        count = buffer.type.shape[1]
        with code.when(block < count):
            return source.load(offset(code, [column, block], buffer.strides))

    def _row(self, number: int, place: Value) -> Value:
        """Elements of a row of the left matrix."""
        lhs = self.step.operand(0)
        where = offset(self.code, [*self._places(number), place], lhs.strides)
        return self.kernel.numbers(lhs).load(where)

    def _places(self, number: int) -> list[Value]:
        """The place of a row along the axes before the last; the last row for others."""
        row = self.first + number
        if self.count % self.shape.rows:
            row = self.code.smaller(row, self.count - 1)
        return places_of(self.kernel, self.code.named(row), self.extents)

    def _write(self, number: int, result: Value) -> None:
        """The results of a row."""
        with ExitStack() as masks:
            if self.inside is not None:
                masks.enter_context(self.code.when(self.inside))
            if self.count % self.shape.rows:
                masks.enter_context(self.code.when(self.first + number < self.count))
            write_result(self.kernel, result, [*self._places(number), self.column])
