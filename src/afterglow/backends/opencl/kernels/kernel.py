"""A kernel of one job while it is being written: its memory, its work-items, its text."""

from __future__ import annotations

import hashlib

from afterglow.backends.items.kernel_memory import KernelMemory
from afterglow.backends.items.language import Team
from afterglow.backends.job import Job
from afterglow.backends.launched.parameters import Parameter
from afterglow.backends.opencl.clc import Code, Pointer, Value
from afterglow.backends.opencl.clc.types import spell_in_memory
from afterglow.backends.opencl.kernels.team import WorkGroup
from afterglow.backends.opencl.limits import Limits
from afterglow.instr import Buffer
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType

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


class Kernel(KernelMemory[Value, Pointer]):
    """Writes one kernel. Pointers are declared as they are asked for."""

    def __init__(self, job: Job, limits: Limits) -> None:
        super().__init__(job)
        self.limits = limits
        self.code = Code(double=limits.double, index_type=self.index_type, inlines=limits.inlines)
        self.items: tuple[int, ...] = (1,)
        self.group: tuple[int, ...] = (1,)

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

    def numbers(self, buffer: Buffer) -> Pointer:
        """The same to compute with: floats of 16 bits are read and written as f32."""
        return self.pointer(buffer).numbers

    def _new_pointer(self, dtype: DType, name: str, *, is_constant: bool) -> Pointer:
        return Pointer(self.code, dtype, name)

    def _number(self, dtype: DType, number: float) -> Value:
        return self.code.constant(dtype, number)

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
