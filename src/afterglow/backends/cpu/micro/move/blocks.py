"""An axis in blocks: whole steps in a loop, and what is left in the last block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Value, equal, smaller


@dataclass(frozen=True)
class Blocks:
    """An axis in steps, in blocks of `block` elements, which are whole steps."""

    extent: int
    step: int
    block: int

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return max(1, -(-self.extent // self.block))

    def write(
        self,
        e: Emitter,
        number: Index,
        step: Callable[[Value], None],
        rest: Callable[[int, int], None],
    ) -> None:
        """Go along one block; `rest` is given where less than a step is left, and how much."""
        start, stop = self.bounds(e, number)
        with e.loop(stop, start=start, step=self.step) as index:
            step(index)
        self.write_rest(e, number, rest)

    def bounds(self, e: Emitter, number: Index) -> tuple[Value, Value]:
        """Where the whole steps of a block begin and end."""
        whole = self.extent - self.extent % self.step
        if self.count == 1:
            return e.index(0), e.index(whole)
        start = e.index(number) * self.block
        return start, smaller(start + self.block, whole)

    def write_rest(self, e: Emitter, number: Index, rest: Callable[[int, int], None]) -> None:
        """What is left behind whole steps, if the block is the last one."""
        left = self.extent % self.step
        whole = self.extent - left
        if left == 0:
            return
        if self.count == 1:
            rest(whole, left)
            return
        with e.when(equal(e.index(number), self.count - 1)):
            rest(whole, left)
