"""Windows that slide over x: where each begins, which of its places are in x."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Generic

from afterglow.backends.broadcast import merge_alike
from afterglow.backends.items.language import Kernel
from afterglow.backends.pointwise.value import ValueT
from afterglow.instr import Buffer, OpInstr
from afterglow.ops.windows import Windows
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Sliding(Generic[ValueT]):
    """The windows of a convolution or a pooling, as loops of a kernel."""

    kernel: Kernel[ValueT]
    step: OpInstr
    windows: Windows

    @property
    def x(self) -> Buffer:
        """What the windows slide over."""
        return self.step.operand(0)

    @property
    def spatial(self) -> tuple[int, ...]:
        """The extents along which they slide."""
        return self.x.type.shape[1:-1]

    @property
    def is_matrix(self) -> bool:
        """Whether windows are single places of x, one after the other at the same distance."""
        if self.windows.kernel != (1,) * len(self.spatial) or any(self.windows.pads):
            return False
        x = self.x
        merged, _ = merge_alike(x.type.shape[:-1], [x.strides[:-1]])
        return len(merged) == 1 and all(s == 1 for s in self.windows.strides)

    def corner(self, where: Sequence[ValueT]) -> list[ValueT]:
        """Where a window begins along each axis, which may be before x."""
        windows, code = self.windows, self.kernel.code
        return [
            code.named(place * stride - begin)
            for place, stride, begin in zip(where, windows.strides, windows.begins, strict=True)
        ]

    @contextmanager
    def taps(self, skip: int = 0) -> Iterator[list[ValueT]]:
        """Loops over the places of a window; none along an axis where it has one.

        The last `skip` axes are left out.
        """
        code = self.kernel.code
        with ExitStack() as loops:
            yield [
                code.index(0) if n == 1 else loops.enter_context(code.loop(n))
                for n in self.windows.kernel[: len(self.spatial) - skip]
            ]

    def number(self, taps: Sequence[ValueT]) -> ValueT:
        """The number of a place of a window along some first axes, in row-major order."""
        number = self.kernel.code.index(0)
        for tap, extent in zip(taps, self.windows.kernel, strict=False):
            number = number * extent + tap
        return number

    def seen(self, corner: Sequence[ValueT], taps: Sequence[ValueT]) -> list[ValueT]:
        """Where in x a place of a window is."""
        steps = zip(corner, taps, self.windows.dilations, strict=False)
        return [start + tap * dilation for start, tap, dilation in steps]

    def inside(self, seen: Sequence[ValueT]) -> ValueT | None:
        """Whether a place is in x, rather than in the padding; None if all are."""
        code = self.kernel.code
        checks = [
            code.is_between(place, 0, self.spatial[axis])
            for axis, place in enumerate(seen)
            if self.reaches_beyond(axis)
        ]
        return code.kept(code.all_of(checks)) if checks else None

    @contextmanager
    def when_inside(self, seen: Sequence[ValueT]) -> Iterator[None]:
        """Statements for places that are in x."""
        mask = self.inside(seen)
        with ExitStack() as stack:
            if mask is not None:
                stack.enter_context(self.kernel.code.when(mask))
            yield

    def reaches_beyond(self, axis: int) -> bool:
        """Whether some windows see padding along an axis."""
        windows = self.windows
        count = self.step.outs[0].type.shape[1 + axis]
        last = (count - 1) * windows.strides[axis] - windows.begins[axis] + windows.reach[axis]
        return windows.begins[axis] > 0 or last > self.spatial[axis]
