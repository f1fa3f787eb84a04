"""An axis in blocks: whole steps in a loop, and what is left in the last block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from afterglow.backends.cpu.emitter import Emitter, Index, Value, equal, smaller


@dataclass(frozen=True)
class Blocks:
    """An axis that is gone along in steps, `block` elements (a multiple of them) at a time."""

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
        left = self.extent % self.step
        whole = self.extent - left
        start, stop = e.index(0), e.index(whole)
        if self.count > 1:
            start = e.index(number) * self.block
            stop = smaller(start + self.block, whole)
        with e.loop(stop, start=start, step=self.step) as index:
            step(index)
        if left == 0:
            return
        if self.count == 1:
            rest(whole, left)
            return
        with e.when(equal(e.index(number), self.count - 1)):
            rest(whole, left)
