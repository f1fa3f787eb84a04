"""A kernel of one job while it is being written: its memory, its programs, its text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable

from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Code, Pointer, Value
from afterglow.backends.cuda.tl.types import spell_pointer
from afterglow.backends.items.language import Team
from afterglow.backends.items.types import is_arithmetic
from afterglow.backends.job import Job
from afterglow.backends.launched.parameters import Alarm, Counters, Packed, Parameter, Table
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.quantization import Quantizing
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, IndexRange
from afterglow.types.dtype import DType, i32, i64

LARGEST_INDEX = 2**31 - 1
ITEMS = 1024
"""Items of a program at most."""
WARPS, WARP = 4, 32
"""Warps of a program of items at most, and threads of a warp."""
BLOCKS_OF_UNIT = 2
"""Programs that a unit has at least, before one has more items than threads."""
ALIGNED = 16
"""Bytes: loads of a whole vector begin at multiples of it."""
HEAD = """import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
"""


@dataclass(frozen=True)
class KernelSource:
    """A finished kernel: its text, what its parameters point to, and how it is launched."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    types: tuple[str, ...]
    """Of the pointers, as signatures spell them."""
    aligned: tuple[bool, ...]
    """Whether each pointer is a multiple of 16 bytes."""
    grid: tuple[int, int, int]
    warps: int = 4
    stages: int = 2
    fuses: bool = False
    """Whether products may be added without being rounded first."""


class Kernel:
    """Writes one kernel. Pointers are declared as they are asked for."""

    def __init__(self, job: Job, target: CudaTarget) -> None:
        self.job = job
        self.target = target
        longest = max((_reach(b) for b in job.buffers), default=0)
        index = i64 if longest > LARGEST_INDEX else i32
        self.code = Code(index_type=index, declare_table=self._table)
        self.grid: tuple[int, int, int] = (1, 1, 1)
        self.warps = 4
        self.stages = 2
        self.fuses = False
        self._parameters: dict[Hashable, tuple[Parameter, Pointer]] = {}
        self.begin_dependent()

    @property
    def step(self) -> OpInstr:
        """The anchor of its job, if there is one."""
        assert self.job.anchor is not None
        return self.job.anchor

    @property
    def lanes(self) -> int:
        """Elements of an item: neighbours are such in a block."""
        return 1

    @property
    def is_processor(self) -> bool:
        """Whether units are few, and each likes much work at once."""
        return False

    @property
    def units(self) -> int:
        """The streaming multiprocessors."""
        return self.target.units

    def begin_dependent(self) -> None:
        """Wait for the kernel before, where this one may begin earlier than that ends."""
        if self.target.has_dependent_launch:
            self.code.perform("gdc_wait()")

    def release_dependents(self) -> None:
        """Let the kernel behind begin; it waits before it reads what this one writes."""
        if self.target.has_dependent_launch:
            self.code.perform("gdc_launch_dependents()")

    def pointer(self, buffer: Buffer) -> Pointer:
        """The elements of a buffer in memory."""
        return self._declare(buffer, buffer, buffer.type.dtype)

    def numbers(self, buffer: Buffer) -> Pointer:
        """The same to compute with: floats of 16 bits are read and written as f32."""
        return self.pointer(buffer).numbers

    def packed(
        self,
        buffer: Buffer,
        order: str,
        pack: Callable[[Array], Array],
        dtype: DType | None = None,
    ) -> Pointer:
        """The elements of a constant in another order, and as another type if one is given."""
        packed = Packed(buffer, order, pack)
        return self._declare((buffer, order), packed, dtype or buffer.type.dtype)

    def alarm(self, operand: str, allowed: IndexRange) -> Pointer:
        """Where the kernel says that an index is out of range."""
        return self._declare((operand, allowed), Alarm(self.step, operand, allowed), i64)

    def scratch(self, number: int, dtype: DType) -> Pointer:
        """One of the memories that the plan asked for, as elements of a type."""
        buffer = self.job.scratch[number]
        return self._declare((buffer, dtype), buffer, dtype)

    def counters(self, count: int) -> Pointer:
        """Zeros to count with, which the kernel must leave as zeros."""
        return self._declare(("counters", count), Counters(count), i32)

    def _table(self, data: Array) -> Pointer:
        key = ("table", data.dtype.str, data.shape, data.tobytes())
        return self._declare(key, Table(data), DType.of(data.dtype))

    def _declare(self, key: Hashable, parameter: Parameter, dtype: DType) -> Pointer:
        if key not in self._parameters:
            pointer = Pointer(self.code, dtype, f"p{len(self._parameters)}")
            self._parameters[key] = parameter, pointer
        return self._parameters[key][1]

    def known(self, buffer: Buffer) -> Value | None:
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
        return self.code.constant(buffer.type.dtype, root.data.reshape(-1)[0].item())

    def each(self, count: int) -> Value:
        """One item for each of so many things: which they are, as a block; others are masked."""
        return self._items(count, ITEMS)

    def each_alone(self, count: int) -> Value:
        """The same, for items with much work: one a thread."""
        return self._items(count, WARPS * WARP)

    def team(self, results: int, elements: int) -> Team[Value]:
        """An item for each of so many results, which goes through all elements."""
        return Team(self, self.each_alone(results))

    def _items(self, count: int, most: int) -> Value:
        """So many items in blocks: at most so many each, but fewer if else units had no work."""
        size = min(most, _power_of_two(count))
        while size > WARPS * WARP and count < size * self.units * BLOCKS_OF_UNIT:
            size //= 2
        self.grid = (-(-count // size), 1, 1)
        self.warps = max(1, min(WARPS, size // WARP))
        self.code.shape = (size,)
        code = self.code
        item = code.named(code.program() * size + code.range(size))
        if count % size:
            code.mask(item < count)
        return item

    def finish(self) -> KernelSource:
        """The kernel, under a name that its text and how it is compiled decide."""
        parameters = [*self._parameters.values()]
        arguments = ", ".join(pointer.name for _, pointer in parameters)
        types = tuple(spell_pointer(pointer.dtype) for _, pointer in parameters)
        aligned = tuple(_is_aligned(parameter) for parameter, _ in parameters)
        body = "\n".join(self.code.lines)
        mnemonics = "_".join(step.op.mnemonic for step in self.job.steps[:3])
        options = f"{types} {aligned} {self.warps} {self.stages} {self.fuses}"
        digest = hashlib.blake2b(f"{options}\n{arguments}\n{body}".encode(), digest_size=6)
        name = f"{mnemonics}_{digest.hexdigest()}"
        text = f"{HEAD}def {name}({arguments}):\n{body}\n"
        return KernelSource(
            name,
            text,
            tuple(parameter for parameter, _ in parameters),
            types,
            aligned,
            self.grid,
            self.warps,
            self.stages,
            self.fuses,
        )


def _power_of_two(count: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << max(0, count - 1).bit_length()


def _is_aligned(parameter: Parameter) -> bool:
    """Whether a parameter always points to a multiple of 16 bytes.

    Memories begin at such, and what is planned in them, unless it is a view of a part.
    """
    if not isinstance(parameter, Buffer):
        return not isinstance(parameter, (Alarm, Counters))
    root, start = parameter.root, parameter.start * parameter.type.dtype.itemsize
    address = root.address or 0 if root.region is Region.ARENA else 0
    return (address + start) % ALIGNED == 0


def _reach(buffer: Buffer) -> int:
    """The place of the last element of a buffer in what it is part of, from its first."""
    extents = zip(buffer.type.shape, buffer.strides, strict=True)
    return sum((n - 1) * abs(stride) for n, stride in extents if n > 0)
