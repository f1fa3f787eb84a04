"""A kernel of one job while it is being written: its memory, its work-items, its text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable

from afterglow.backends.items.language import Team
from afterglow.backends.items.types import is_arithmetic
from afterglow.backends.job import Job
from afterglow.backends.launched.parameters import Alarm, Packed, Parameter
from afterglow.backends.opencl.clc import Code, Pointer, Value
from afterglow.backends.opencl.clc.types import spell_in_memory
from afterglow.backends.opencl.kernels.team import WorkGroup
from afterglow.backends.opencl.limits import Limits
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.quantization import Quantizing
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, IndexRange
from afterglow.types.dtype import DType, i32, i64

LARGEST_INDEX = 2**31 - 1
GROUP, PROCESSOR_GROUP = 128, 512
"""Items of a work-group."""
LEAST_GROUP = 16
"""A smaller group is not worth to leave out the comparison with the number of items."""
LEAST_ELEMENTS = 64
"""Fewer elements of a result are not worth a work-group."""


@dataclass(frozen=True)
class KernelSource:
    """A finished kernel: its text, what its parameters point to, and how many items run it."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    items: tuple[int, ...]
    group: tuple[int, ...]


class Kernel:
    """Writes one kernel. Pointers are declared as they are asked for."""

    def __init__(self, job: Job, limits: Limits) -> None:
        self.job = job
        self.limits = limits
        longest = max((_reach(b) for b in job.buffers), default=0)
        index = i64 if longest > LARGEST_INDEX else i32
        self.code = Code(double=limits.double, index_type=index, inlines=limits.inlines)
        self.items: tuple[int, ...] = (1,)
        self.group: tuple[int, ...] = (1,)
        self._parameters: dict[Hashable, tuple[Parameter, Pointer]] = {}

    @property
    def step(self) -> OpInstr:
        """The anchor of its job, if there is one."""
        assert self.job.anchor is not None
        return self.job.anchor

    @property
    def lanes(self) -> int:
        """Floats in a vector that an item computes with at once."""
        return self.limits.lanes

    @property
    def is_processor(self) -> bool:
        """Whether units are few, and each likes much work at once."""
        return self.limits.is_processor

    @property
    def units(self) -> int:
        """The device's units, each of which runs many items."""
        return self.limits.units

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

    def _declare(self, key: Hashable, parameter: Parameter, dtype: DType) -> Pointer:
        if key not in self._parameters:
            pointer = Pointer(self.code, dtype, f"p{len(self._parameters)}")
            self._parameters[key] = parameter, pointer
        return self._parameters[key][1]

    def known(self, buffer: Buffer) -> Value | None:
        """The number that a constant of one element is, if the kernel may be for it alone.

        Scales and zero points are read, since every layer has others: layers that are alike
        otherwise share a kernel, which a driver compiles once.
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
        """One work-item for each of so many things: which it is; others are sent home."""
        group = min(GROUP, self.limits.work_group)
        if self.limits.is_processor:
            most = min(PROCESSOR_GROUP, self.limits.work_group)
            group = max(1, min(most, -(-count // (4 * self.limits.units))))
        exact = next((g for g in range(group, LEAST_GROUP - 1, -1) if count % g == 0), None)
        group = exact or group
        self.items, self.group = (-(-count // group) * group,), (group,)
        item = self.code.work_item()
        if count % group:
            self.code.perform(f"if ({item.text} >= {count}) return;")
        return item

    def each_alone(self, count: int) -> Value:
        """The same, for items with much work: none but themselves in a group of a processor.

        Drivers for processors make vectors of neighbouring items, and undo those within an item.
        """
        if not self.limits.is_processor:
            return self.each(count)
        self.items, self.group = (count,), (1,)
        return self.code.work_item()

    def team(self, results: int, elements: int) -> Team[Value]:
        """Those who compute so many results, each made of so many elements, or vectors of them.

        A processor does best with an item for each result, in vectors. Other devices read
        neighbouring elements by neighbouring items of a work-group.
        """
        if self.limits.is_processor or elements < LEAST_ELEMENTS:
            return Team(self, self.each(results))
        size = min(GROUP, self.limits.work_group, 1 << (elements.bit_length() - 1))
        self.items, self.group = (results * size,), (size,)
        return WorkGroup(self, self.code, size)

    def finish(self) -> KernelSource:
        """The kernel, under a name that its text decides."""
        parameters = [*self._parameters.values()]
        arguments = ", ".join(
            f"__global uchar* m{number}, const ulong o{number}" for number in range(len(parameters))
        )
        lines = [
            f"  __global {_c(pointer)}* {pointer.name} = "
            f"(__global {_c(pointer)}*)(m{number} + o{number});"
            for number, (_, pointer) in enumerate(parameters)
        ]
        body = "\n".join([*lines, *self.code.lines])
        size = ", ".join(map(str, self.group))
        helpers = "\n\n".join(self.code.helpers.values())
        mnemonics = "_".join(step.op.mnemonic for step in self.job.steps[:3])
        seed = f"{helpers}\n{arguments}\n{size}\n{body}"
        name = f"{mnemonics}_{hashlib.blake2b(seed.encode(), digest_size=5).hexdigest()}"
        renamed = {old: f"{old}_{name}" for old in self.code.helpers if old.startswith("table")}
        for old, new in renamed.items():
            helpers, body = (text.replace(f"{old}[", f"{new}[") for text in (helpers, body))
        padded = ", ".join(map(str, (*self.group, 1, 1)[:3]))
        head = f"__kernel __attribute__((reqd_work_group_size({padded})))"
        text = f"{head}\nvoid {name}({arguments}) {{\n{body}\n}}\n"
        return KernelSource(
            name, _joined(helpers, text), tuple(p for p, _ in parameters), self.items, self.group
        )


def _joined(helpers: str, text: str) -> str:
    return f"{helpers}\n\n{text}" if helpers else text


def _c(pointer: Pointer) -> str:
    return spell_in_memory(pointer.dtype)


def _reach(buffer: Buffer) -> int:
    """The place of the last element of a buffer in what it is part of, from its first."""
    extents = zip(buffer.type.shape, buffer.strides, strict=True)
    return sum((n - 1) * abs(stride) for n, stride in extents if n > 0)
