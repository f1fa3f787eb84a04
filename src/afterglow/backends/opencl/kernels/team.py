"""Who computes one result: a work-item alone, or all items of a work-group together.

A processor does best with an item for each result, in vectors. Other devices read neighbouring
elements by neighbouring items, and combine what these found through the memory that they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from afterglow.backends.opencl.clc import Pointer, Value
from afterglow.backends.opencl.kernels.kernel import GROUP, Kernel
from afterglow.backends.opencl.kernels.lanes import Combine
from afterglow.support.lazy_dataclass import dataclass

LEAST_ELEMENTS = 64
"""Fewer elements of a result are not worth a work-group."""


@dataclass(frozen=True)
class Team:
    """So many work-items for each result; which result, and which of its items this is."""

    kernel: Kernel
    size: int
    result: Value
    item: Value | None

    @staticmethod
    def of(kernel: Kernel, results: int, elements: int) -> Team:
        """The items for so many results, each made of so many elements, or vectors of them."""
        if kernel.limits.is_processor or elements < LEAST_ELEMENTS:
            return Team(kernel, 1, kernel.each(results), None)
        size = min(GROUP, kernel.limits.work_group, 1 << (elements.bit_length() - 1))
        kernel.items, kernel.group = (results * size,), (size,)
        return Team(kernel, size, kernel.code.group(), kernel.code.local_item())

    def loops(
        self,
        stack: ExitStack,
        shape: Sequence[int],
        axes: Sequence[int],
        lanes: int,
        start: int = 0,
    ) -> dict[int, Value]:
        """Loops over some axes of a shape, of which the items of the team share out the longest.

        Along the last axis of the shape, `lanes` elements are visited at once, from `start` on.
        """
        longest = max(axes, key=lambda axis: (shape[axis], axis), default=None)
        inner: dict[int, Value] = {}
        for axis in axes:
            step = lanes if axis == len(shape) - 1 else 1
            first: Value | int = start if axis == len(shape) - 1 else 0
            if self.item is not None and axis == longest:
                first, step = self.item * step + first, step * self.size
            inner[axis] = stack.enter_context(self.kernel.code.loop(shape[axis], first, step))
        return inner

    def combined(self, own: Value, combine: Combine) -> Value:
        """What all items found, given what this one did; every item gets it."""
        if self.item is None:
            return own
        code = self.kernel.code
        shared = code.shared(own.dtype, self.size * own.lanes)
        place = code.named(self.item * own.lanes)
        shared.store(own, place)
        half = self.size // 2
        while half:
            self._halve(shared, own.lanes, half, combine)
            half //= 2
        code.barrier()
        return shared.load(0, own.lanes)

    def _halve(self, shared: Pointer, lanes: int, half: int, combine: Combine) -> None:
        """Combine what the first half of some items has with what the second half has."""
        assert self.item is not None
        code = self.kernel.code
        code.barrier()
        with code.block(f"if ({self.item.text} < {half})"):
            place = code.named(self.item * lanes)
            theirs = shared.load(place + half * lanes, lanes)
            shared.store(combine(shared.load(place, lanes), theirs), place)

    @contextmanager
    def once(self) -> Iterator[None]:
        """Statements that one item of the team does for all."""
        with ExitStack() as stack:
            if self.item is not None:
                stack.enter_context(self.kernel.code.block(f"if ({self.item.text} == 0)"))
            yield
