"""The memory of a kernel while it is being written, in whatever language that is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from afterglow.backends.items.types import is_arithmetic
from afterglow.backends.job import Job
from afterglow.backends.launched.parameters import Alarm, Packed, Parameter, is_constant
from afterglow.backends.pointwise.value import ValueT
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.quantization import Quantizing
from afterglow.types import Array, IndexRange
from afterglow.types.dtype import DType, i32, i64

LARGEST_INDEX = 2**31 - 1
PointerT = TypeVar("PointerT")


class KernelMemory(ABC, Generic[ValueT, PointerT]):
    """A kernel of one job and its parameters: pointers are declared as they are asked for."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._parameters: dict[Hashable, tuple[Parameter, PointerT]] = {}

    @abstractmethod
    def _new_pointer(self, dtype: DType, name: str, *, is_constant: bool) -> PointerT:
        """A pointer of that name to elements of a type, which no kernel writes if constant."""

    @abstractmethod
    def _number(self, dtype: DType, number: float) -> ValueT:
        """A constant."""

    @property
    def step(self) -> OpInstr:
        """The anchor of its job, if there is one."""
        assert self.job.anchor is not None
        return self.job.anchor

    @property
    def index_type(self) -> DType:
        """An integer that counts the elements of all buffers."""
        longest = max((_reach(b) for b in self.job.buffers), default=0)
        return i64 if longest > LARGEST_INDEX else i32

    def pointer(self, buffer: Buffer) -> PointerT:
        """The elements of a buffer in memory."""
        return self._declare(buffer, buffer, buffer.type.dtype)

    def packed(
        self,
        buffer: Buffer,
        order: str,
        pack: Callable[[Array], Array],
        dtype: DType | None = None,
    ) -> PointerT:
        """The elements of a constant in another order, and as another type if one is given."""
        packed = Packed(buffer, order, pack)
        return self._declare((buffer, order), packed, dtype or buffer.type.dtype)

    def alarm(self, operand: str, allowed: IndexRange) -> PointerT:
        """Where the kernel says that an index is out of range."""
        return self._declare((operand, allowed), Alarm(self.step, operand, allowed), i64)

    def known(self, buffer: Buffer) -> ValueT | None:
        """The number that a constant of one element is, if the kernel may be for it alone.

        Scales and zero points are read, since every layer has others: layers that are alike
        otherwise share a kernel, which is compiled once.
        """
        root = buffer.root
        if any(isinstance(step.op, Quantizing) and buffer in step.ins for step in self.job.steps):
            return None
        if root.region is not Region.CONSTANT or root.data is None or root.type.size != 1:
            return None
        if not is_arithmetic(buffer.type.dtype) or buffer.type.dtype is not root.type.dtype:
            return None
        return self._number(buffer.type.dtype, root.data.reshape(-1)[0].item())

    def _declare(self, key: Hashable, parameter: Parameter, dtype: DType) -> PointerT:
        if key not in self._parameters:
            name = f"p{len(self._parameters)}"
            pointer = self._new_pointer(dtype, name, is_constant=is_constant(parameter))
            self._parameters[key] = parameter, pointer
        return self._parameters[key][1]


def _reach(buffer: Buffer) -> int:
    """The place of the last element of a buffer in what it is part of, from its first."""
    extents = zip(buffer.type.shape, buffer.strides, strict=True)
    return sum((n - 1) * abs(stride) for n, stride in extents if n > 0)
