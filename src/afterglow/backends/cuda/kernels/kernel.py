"""A kernel of one job while it is being written: its memory, its programs, its text."""

from __future__ import annotations

import hashlib

from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Code, Pointer, Value
from afterglow.backends.cuda.tl.types import spell_pointer
from afterglow.backends.items.kernel_memory import KernelMemory
from afterglow.backends.items.language import Team
from afterglow.backends.job import Job
from afterglow.backends.launched.parameters import Alarm, Counters, Parameter, Table
from afterglow.instr import Buffer, Region
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import DType, i32

ITEMS = 1024
"""Items of a program at most."""
WARPS, WARP = 4, 32
"""Warps of a program of items at most, and threads of a warp."""
BLOCKS_OF_UNIT = 2
"""Programs that a unit has at least, before one has more items than threads."""
ALIGNED = 16
"""Bytes: loads of a whole vector begin at multiples of it."""
JIT = "@triton.jit\n"
HEAD = f"""import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


{JIT}"""
"""What a text begins with, up to the `def` of its first function."""


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
    registers: int = 0
    """Of a thread at most, if that is not left to the compiler."""
    joins: bool = False
    """Whether its programs may be some of those of a launch: they are short, and of one axis."""


class Kernel(KernelMemory[Value, Pointer]):
    """Writes one kernel. Pointers are declared as they are asked for."""

    def __init__(self, job: Job, target: CudaTarget) -> None:
        super().__init__(job)
        self.target = target
        self.code = Code(index_type=self.index_type, declare_table=self._table)
        self.grid: tuple[int, int, int] = (1, 1, 1)
        self.warps = 4
        self.stages = 2
        self.fuses = False
        self.registers = 0
        self.joins = False
        self.begin_dependent()

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
        """Wait for the kernel before, where this one may begin earlier than that ends.

        What is computed of places and read of constants until then is done meanwhile.
        """
        if self.target.has_dependent_launch:
            self.code.wait_by("gdc_wait()")

    def release_dependents(self) -> None:
        """Let the kernel behind begin; it waits before it reads what this one writes."""
        if self.target.has_dependent_launch:
            self.code.perform("gdc_launch_dependents()")

    def numbers(self, buffer: Buffer) -> Pointer:
        """The same to compute with: floats of 16 bits are read and written as f32."""
        return self.pointer(buffer).numbers

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

    def _new_pointer(self, dtype: DType, name: str, *, is_constant: bool) -> Pointer:
        return Pointer(self.code, dtype, name, is_constant=is_constant)

    def _number(self, dtype: DType, number: float) -> Value:
        return self.code.constant(dtype, number)

    def each(self, count: int) -> Value:
        """One item for each of so many things: which they are, as a block; others are masked."""
        self.joins = True
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
        self.code.wait()
        parameters = [*self._parameters.values()]
        arguments = ", ".join(pointer.name for _, pointer in parameters)
        types = tuple(spell_pointer(pointer.dtype) for _, pointer in parameters)
        aligned = tuple(_is_aligned(parameter) for parameter, _ in parameters)
        body = "\n".join(self.code.lines)
        mnemonics = "_".join(step.op.mnemonic for step in self.job.steps[:3])
        options = f"{types} {aligned} {self.warps} {self.stages} {self.fuses} {self.registers}"
        digest = digest_of(f"{options}\n{arguments}\n{body}")
        name = f"{mnemonics}_{digest}"
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
            self.registers,
            self.joins,
        )


def digest_of(text: str) -> str:
    """What tells the texts of kernels apart, as a part of their names."""
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


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
