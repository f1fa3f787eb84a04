"""Products in tiles: which block a program computes, the loop over terms, the results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol

from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.kernels.shares import last_of, share_of
from afterglow.backends.cuda.kernels.tile import Extents, Tile
from afterglow.backends.cuda.kernels.tile_blocks import Numbers, numbers
from afterglow.backends.cuda.kernels.tile_results import (
    Places,
    read_by_column,
    read_by_element,
    read_early,
    write_block,
)
from afterglow.backends.cuda.tl import Value
from afterglow.instr import Buffer
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType

GROUP = 8
"""Blocks of rows of neighbouring programs, where they share columns as well as rows."""


@dataclass(frozen=True)
class Block:
    """Where the results of a program are."""

    rows: Numbers
    columns: Numbers
    number: Value | None
    """Of which product, if there are several."""
    counter: Value
    """Which block it is of all."""


class Operands(Protocol):
    """The numbers that are multiplied, as the loop over terms wants them."""

    @property
    def extents(self) -> Extents:
        """What products there are."""

    @property
    def sums(self) -> DType:
        """The type of sums."""

    @property
    def steps(self) -> int:
        """Iterations of the loop over terms, at most."""

    @property
    def own_steps(self) -> Value | None:
        """Those of a program, once it has begun; None if all have as many."""

    @property
    def is_large(self) -> bool:
        """Whether the right matrix is too large to be read again and again."""

    def begin(self, block: Block) -> None:
        """Compute what does not change from one iteration to the next."""

    def multiply(self, step: Value, total: Value) -> None:
        """Add the products of an iteration."""

    def finish(self, total: Value, block: Block) -> Value:
        """Results of sums, before the steps behind."""

    def places(self, block: Block) -> Places:
        """Where the results of a block are."""


def write_product(kernel: Kernel, operands: Operands, tile: Tile) -> None:
    """A program for each block of results, or several that share its terms."""
    kernel.warps, kernel.stages = tile.warps, tile.stages
    code, extents = kernel.code, operands.extents
    blocks = tile.blocks(extents)
    kernel.grid = (blocks, tile.splits, 1)
    if blocks * tile.splits > kernel.units and tile.leaves_registers:
        kernel.registers = tile.registers_of_two
    block = _block_of(kernel, extents, tile, grouped=operands.is_large)
    operands.begin(block)
    early = _read_early(kernel, operands, block, tile)
    total = code.variable(code.constant(operands.sums, 0), "total", (tile.rows, tile.columns))
    first, last = share_of(kernel, operands.steps, tile.splits, operands.own_steps)
    with code.loop(last, first) as step:
        operands.multiply(step, total)
    kernel.release_dependents()
    with ExitStack() as stack:
        if tile.splits > 1:
            (total,) = stack.enter_context(
                last_of(kernel, [total], block.counter, blocks, tile.splits)
            )
        stack.enter_context(_inside(block))
        result = operands.finish(total, block)
        write_block(kernel, result, operands.places(block), early)


def _read_early(
    kernel: Kernel, operands: Operands, block: Block, tile: Tile
) -> dict[Buffer, Value]:
    """What the epilogue reads, on its way while terms are summed up."""
    buffers = read_by_column(kernel.job) if tile.leaves_registers else []
    buffers += read_by_element(kernel.job) if tile.early else []
    if not buffers:
        return {}
    places = operands.places(block)
    with _inside(block):
        return read_early(kernel, buffers, places)


@contextmanager
def _inside(block: Block) -> Iterator[None]:
    """Statements for the rows and columns that there are."""
    with ExitStack() as stack:
        for axis, each in enumerate((block.rows, block.columns)):
            if not each.exact:
                stack.enter_context(each.code.when(each.inside(axis)))
        yield


def _block_of(kernel: Kernel, extents: Extents, tile: Tile, *, grouped: bool) -> Block:
    """The block of a program: neighbours share rows, or some rows and some columns."""
    code = kernel.code
    down, across = tile.tiles(extents)
    counter = rest = code.program()
    number = None
    if extents.count > 1:
        number = code.named(counter.combined("/", down * across))
        rest = code.named(counter.combined("%", down * across))
    if grouped and down > 1 and across > 1:
        row, column = _grouped(kernel, rest, down, across)
    else:
        row, column = _in_order(kernel, rest, down, across)
    rows = numbers(code, row, tile.rows, extents.rows)
    columns = numbers(code, column, tile.columns, extents.columns)
    return Block(rows, columns, number, counter)


def _in_order(kernel: Kernel, block: Value, down: int, across: int) -> tuple[Value, Value]:
    """Blocks of one row, then of the next."""
    code = kernel.code
    if across == 1:
        return block, code.index(0)
    if down == 1:
        return code.index(0), block
    return code.named(block.combined("/", across)), code.named(block.combined("%", across))


def _grouped(kernel: Kernel, block: Value, down: int, across: int) -> tuple[Value, Value]:
    """Blocks of a column in some rows, then of the next column: fewer lines of either operand."""
    code, group = kernel.code, min(GROUP, down)
    many = group * across
    first = code.named(block.combined("/", many) * group)
    inside = code.named(block.combined("%", many))
    size: Value = code.index(group)
    if down % group:
        size = code.smaller(code.index(down) - first, group)
    row = code.named(first + inside.combined("%", size))
    return row, code.named(inside.combined("/", size))
