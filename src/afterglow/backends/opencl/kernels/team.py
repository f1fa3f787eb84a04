"""Work-items of a work-group that compute one result together, through the memory they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from afterglow.backends.items.language import Combine, Kernel, Team
from afterglow.backends.opencl.clc import Code, Pointer, Value


class WorkGroup(Team[Value]):
    """So many work-items for each result, one group for each."""

    def __init__(self, kernel: Kernel[Value], code: Code, size: int) -> None:
        super().__init__(kernel, code.group())
        self.code = code
        self.size = size
        self.item = code.local_item()
        """Which of the items this is."""

    def shared_out(
        self, axis: int, shape: Sequence[int], axes: Sequence[int], start: int, step: int
    ) -> tuple[Value | int, int]:
        """The items take turns along the longest axis."""
        if axis != max(axes, key=lambda axis: (shape[axis], axis)):
            return start, step
        return self.item * step + start, step * self.size

    def combined(self, own: Value, combine: Combine[Value]) -> Value:
        """See the base."""
        code = self.code
        shared = code.shared(own.dtype, self.size * own.lanes)
        place = code.named(self.item * own.lanes)
        shared.store(own, place)
        half = self.size // 2
        while half:
            self._halve(shared, own.lanes, half, combine)
            half //= 2
        code.barrier()
        return shared.load(0, own.lanes)

    def _halve(self, shared: Pointer, lanes: int, half: int, combine: Combine[Value]) -> None:
        """Combine what the first half of some items has with what the second half has."""
        code = self.code
        code.barrier()
        with code.when(code.is_below(self.item, half)):
            place = code.named(self.item * lanes)
            theirs = shared.load(place + half * lanes, lanes)
            shared.store(combine(shared.load(place, lanes), theirs), place)

    @contextmanager
    def once(self) -> Iterator[None]:
        """See the base."""
        with self.code.block(f"if ({self.item.text} == 0)"):
            yield
