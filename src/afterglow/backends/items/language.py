"""What kernels ask of the language that they are written in, and of the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Generic, Protocol

from afterglow.backends.job import Job
from afterglow.backends.pointwise.value import ValueT
from afterglow.instr import Buffer, OpInstr
from afterglow.types import Array, IndexRange
from afterglow.types.dtype import DType

Combine = Callable[[ValueT, ValueT], ValueT]
"""Makes one value of two, in any order of them."""


class Pointer(Protocol[ValueT]):
    """Elements in memory, from the first on."""

    @property
    def dtype(self) -> DType:
        """What is read and written."""

    @property
    def numbers(self) -> Pointer[ValueT]:
        """The same elements to compute with: floats of 16 bits are read and written as f32."""

    def load(self, place: ValueT | int = 0, lanes: int = 1) -> ValueT:
        """The element at a place, or several in a row."""

    def load_where(self, condition: ValueT, place: ValueT) -> ValueT:
        """The element at a place where a condition holds, else zero; then nothing is read."""

    def store(self, value: ValueT, place: ValueT | int = 0) -> None:
        """Write an element, or several in a row."""


class Code(Protocol[ValueT]):
    """The text of a kernel while it is being written.

    Indices are values of `index_type` that count elements: their sums, differences, products and
    quotients need no names. Code may run for items for which a condition around it does not hold:
    then its results are given up, and it reads and writes no memory.
    """

    @property
    def index_type(self) -> DType:
        """The integer that counts elements."""

    def constant(self, dtype: DType, number: float, lanes: int = 1) -> ValueT:
        """A number known now, the same in all lanes."""

    def index(self, number: int) -> ValueT:
        """A number of elements that is known now."""

    def named(self, index: ValueT) -> ValueT:
        """An index under a name of its own, so that it is computed once; any integer may be one."""

    def number(self, index: ValueT) -> ValueT:
        """An index as an integer like others."""

    def smaller(self, index: ValueT, other: ValueT | int) -> ValueT:
        """The smaller one of two indices."""

    def nearest(self, index: ValueT, extent: int) -> ValueT:
        """The index from 0 to below an extent that is the nearest."""

    def is_below(self, index: ValueT, end: int) -> ValueT:
        """Whether an index is below an end."""

    def is_between(self, index: ValueT, first: ValueT | int, end: ValueT | int) -> ValueT:
        """Whether an index is at the first of a range or behind it, and below its end."""

    def is_multiple(self, index: ValueT, number: int) -> ValueT:
        """Whether a number divides an index."""

    def all_of(self, conditions: Sequence[ValueT]) -> ValueT:
        """Whether all of some conditions on indices hold."""

    def kept(self, condition: ValueT) -> ValueT:
        """A condition on indices under a name of its own, so that it is computed once."""

    def variable(self, start: ValueT) -> ValueT:
        """A value that can be changed by `assign`."""

    def assign(self, variable: ValueT, value: ValueT) -> None:
        """Change what a variable holds, where the conditions around hold."""

    def when(self, condition: ValueT) -> AbstractContextManager[None]:
        """Statements that take effect where a condition holds."""

    def loop(
        self, end: ValueT | int, start: ValueT | int = 0, step: int = 1
    ) -> AbstractContextManager[ValueT]:
        """Statements for start, start + step, … below the end, one after the other."""

    def fused_loop(self, end: ValueT | int, step: int = 1) -> AbstractContextManager[ValueT]:
        """A loop in which `add_product` rounds once, where the machine does that best."""

    def add_product(self, total: ValueT, x: ValueT, factor: ValueT) -> None:
        """Add a product to a variable."""

    def table(self, data: Array) -> Pointer[ValueT]:
        """Numbers that the kernel has beside it."""

    def halves(self, vector: ValueT) -> tuple[ValueT, ValueT]:
        """The first and the last half of the lanes of a vector."""


class Kernel(Protocol[ValueT]):
    """A kernel of one job while it is being written: its memory, its items, its text."""

    @property
    def job(self) -> Job:
        """What it computes."""

    @property
    def step(self) -> OpInstr:
        """The anchor of its job."""

    @property
    def code(self) -> Code[ValueT]:
        """Its text."""

    @property
    def lanes(self) -> int:
        """Floats in a vector that an item computes with at once; 1 where items have no vectors."""

    @property
    def is_processor(self) -> bool:
        """Whether units are few, and each likes much work at once."""

    @property
    def units(self) -> int:
        """The device's units, each of which runs many items."""

    def pointer(self, buffer: Buffer) -> Pointer[ValueT]:
        """The elements of a buffer in memory."""

    def numbers(self, buffer: Buffer) -> Pointer[ValueT]:
        """The same to compute with: floats of 16 bits are read and written as f32."""

    def packed(
        self,
        buffer: Buffer,
        order: str,
        pack: Callable[[Array], Array],
        dtype: DType | None = None,
    ) -> Pointer[ValueT]:
        """The elements of a constant in another order, and as another type if one is given."""

    def alarm(self, operand: str, allowed: IndexRange) -> Pointer[ValueT]:
        """Where the kernel says that an index is out of range."""

    def known(self, buffer: Buffer) -> ValueT | None:
        """The number that a constant of one element is, if the kernel may be for it alone."""

    def each(self, count: int) -> ValueT:
        """An item for each of so many things: which it is."""

    def each_alone(self, count: int) -> ValueT:
        """The same, for items with much work."""

    def team(self, results: int, elements: int) -> Team[ValueT]:
        """An item or more for each of so many results, made of so many elements each."""


class Team(Generic[ValueT]):
    """The items that compute a result together: here one alone."""

    def __init__(self, kernel: Kernel[ValueT], result: ValueT) -> None:
        self.kernel = kernel
        self.result = result
        """Which result it is."""

    def loops(
        self,
        stack: ExitStack,
        shape: Sequence[int],
        axes: Sequence[int],
        lanes: int,
        start: int = 0,
    ) -> dict[int, ValueT]:
        """Loops over some axes of a shape, which the items share out.

        Along the last axis of the shape, `lanes` elements are visited at once, from `start` on.
        """
        inner: dict[int, ValueT] = {}
        for axis in axes:
            is_last = axis == len(shape) - 1
            first, step = self.shared_out(
                axis, shape, axes, *((start, lanes) if is_last else (0, 1))
            )
            inner[axis] = stack.enter_context(self.kernel.code.loop(shape[axis], first, step))
        return inner

    def shared_out(
        self, axis: int, shape: Sequence[int], axes: Sequence[int], start: int, step: int
    ) -> tuple[ValueT | int, int]:
        """Where an item begins along an axis, and the step that it takes."""
        return start, step

    def combined(self, own: ValueT, combine: Combine[ValueT]) -> ValueT:
        """What all items found, given what this one did; every item gets it."""
        return own

    @contextmanager
    def once(self) -> Iterator[None]:
        """Statements that one item does for all."""
        yield


def offset(code: Code[ValueT], places: Sequence[ValueT], strides: Sequence[int]) -> ValueT:
    """Where an element lies, given its index along each axis."""
    total = code.index(0)
    for place, stride in zip(places, strides, strict=True):
        if stride != 0:
            total = total + place * stride
    return total
