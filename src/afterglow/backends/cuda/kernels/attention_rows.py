"""The queries of a program as rows of a block: what all kernels of attention have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from afterglow.backends.cuda.kernels.attention_plan import AttentionTile, padded
from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.kernels.last_arriver import last_program
from afterglow.backends.cuda.kernels.online import Online
from afterglow.backends.cuda.tl import Value
from afterglow.backends.cuda.tl.code import offset
from afterglow.backends.items.around import write_result
from afterglow.instr import Buffer
from afterglow.types.dtype import f32


class QueryRows(ABC):
    """Rows of queries, which take in blocks of keys and their values, and then write results."""

    place: list[Value]
    """Of the query of each row, but for its elements."""
    inside: Value | None
    """Which rows there are, if not all."""
    groups: int
    """How many sets of programs there are that share keys."""

    def __init__(
        self, kernel: Kernel, tile: AttentionTile, *, is_log2: bool, keeps_weights: bool
    ) -> None:
        self.kernel, self.code, self.tile, self.step = kernel, kernel.code, tile, kernel.step
        self.row = self.code.along(self.code.range(tile.rows), 0, 2)
        self.group = self.code.program()
        self.find_place()
        self.q_columns = self.columns_of(self.step.operand(0))
        self.v_columns = self.columns_of(self.step.operand(2))
        self.q = self.load(self.step.operand(0), [*self.place, self.q_columns], self.inside)
        width = self.v_columns.shape[1]
        self.online = Online(
            self.code,
            tile.rows,
            width,
            is_log2=is_log2,
            options=tile.options,
            keeps_weights=keeps_weights,
        )

    @abstractmethod
    def find_place(self) -> None:
        """Set which queries these are, and the grid of the kernel."""

    @abstractmethod
    def take_all(self) -> None:
        """Take in all keys that the rows see."""

    def write(self) -> None:
        """All keys, block by block, then the results."""
        self.take_all()
        self.kernel.release_dependents()
        if self.tile.shares > 1:
            self._combine()
        else:
            self._write(self.online.result())

    def columns_of(self, buffer: Buffer) -> Value:
        """The elements of a row of an operand, as a block that holds them."""
        return self.code.along(self.code.range(padded(buffer.type.shape[-1])), 1, 2)

    def load(self, buffer: Buffer, places: Sequence[Value], *conditions: Value | None) -> Value:
        """A block of rows of an operand, whose elements are at the last place."""
        with self.where(*conditions, self._exist(buffer, places[-1])):
            return self.kernel.pointer(buffer).load(offset(self.code, places, buffer.strides))

    @contextmanager
    def where(self, *conditions: Value | None) -> Iterator[None]:
        """Statements that take effect where conditions hold, which are there if they matter."""
        with ExitStack() as masks:
            for condition in conditions:
                if condition is not None:
                    masks.enter_context(self.code.when(condition))
            yield

    def _exist(self, buffer: Buffer, columns: Value) -> Value | None:
        """Which elements there are, if the block is wider than a row."""
        extent = buffer.type.shape[-1]
        return columns < extent if extent != padded(extent) else None

    def scores_of(self, keys: Value) -> Value:
        """The products of queries and keys."""
        text = f"tl.dot({self.q.text}, tl.trans({keys.text}){self.tile.options})"
        return self.code.define(text, f32, (self.tile.rows, self.tile.keys))

    def _combine(self) -> None:
        """Have the last program of those that share keys write the results."""
        code, shares, online = self.code, self.tile.shares, self.online
        memory = self.kernel.scratch(0, f32)
        first = code.named(self.group * (shares * online.room))
        own = code.named(first + code.program(1) * online.room)
        with self.where(self.inside):
            online.store(memory, self.row, self.v_columns, own)
        with last_program(self.kernel, self.group, self.groups, shares):
            with self.where(self.inside):
                result = online.combined(memory, self.row, self.v_columns, first, shares)
            self._write(result)

    def _write(self, result: Value) -> None:
        with self.where(self.inside, self._exist(self.step.operand(2), self.v_columns)):
            write_result(self.kernel, result, [*self.place, self.v_columns])
