"""Jobs made by hand, run by the emulator and compiled, so that a kernel is tested by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from afterglow.backends.cuda.compile import Compiled, compile_kernels
from afterglow.backends.cuda.kernels.families import ANCHORS
from afterglow.backends.cuda.kernels.kernel import KernelSource
from afterglow.backends.cuda.target import CudaTarget, kind_of
from afterglow.backends.job import Job
from afterglow.backends.launched.parameters import (
    Alarm,
    Counters,
    Packed,
    Parameter,
    Table,
    elements_of,
)
from afterglow.graph import Op, run_op
from afterglow.instr import Buffer, KernelPlan, OpInstr, Region
from afterglow.types import Array, DType, TensorType
from tests.backends.cuda.emulate import run_kernel

TARGET = kind_of("sm_90")

EACH_ARCH = pytest.mark.parametrize("arch", [90, pytest.param(80, marks=pytest.mark.slow)])
"""Kinds of GPU that kernels are compiled for."""


def array(*shape: int, dtype: str = "f4") -> Array:
    """Numbers around zero, the same each time."""
    random = np.random.default_rng(sum(shape))
    numbers = random.standard_normal(shape)
    if np.dtype(dtype).kind != "f":
        numbers = np.abs(numbers * 9) if np.dtype(dtype).kind == "u" else numbers * 9
    return np.asarray(numbers.astype(dtype))


class Made:
    """A job that grows step by step, with the arrays of what is in memory."""

    def __init__(self) -> None:
        self.arrays: dict[Buffer, Array] = {}
        self.wanted: dict[Buffer, Array] = {}
        self.steps: list[OpInstr] = []
        self.anchor: OpInstr | None = None

    def given(self, array: Array, *, order: Sequence[int] | None = None) -> Buffer:
        """An operand in memory, whose axes lie there in an order."""
        order = range(array.ndim) if order is None else order
        held = np.ascontiguousarray(array.transpose(order))
        strides = [0] * array.ndim
        for place, axis in enumerate(order):
            strides[axis] = held.strides[place] // array.itemsize
        type = TensorType(DType.of(array.dtype), array.shape)
        root = Buffer(f"x{len(self.arrays)}", TensorType(type.dtype, held.shape), Region.INPUT)
        buffer = Buffer(root.name, type, Region.INPUT, base=root, start=0, strides=tuple(strides))
        self.arrays[buffer] = held
        self.wanted[buffer] = array
        return buffer

    def constant(self, array: Array) -> Buffer:
        """An operand that is known when the program is compiled."""
        data = np.ascontiguousarray(array)
        type = TensorType(DType.of(array.dtype), array.shape)
        buffer = Buffer(f"c{len(self.arrays)}", type, Region.CONSTANT, data=data)
        self.arrays[buffer] = self.wanted[buffer] = data
        return buffer

    def add(
        self, op: Op, *operands: Buffer | None, anchor: bool = False, computed: bool = True
    ) -> Buffer:
        """A step, of which the first result is returned; it may be too long to compute."""
        arrays = [None if b is None else self.wanted[b] for b in operands]
        types = [None if b is None else b.type for b in operands]
        found = op.infer(*types)
        results = found if isinstance(found, tuple) else (found,)
        outs = tuple(
            Buffer(f"y{len(self.steps)}_{n}", type, Region.ARENA) for n, type in enumerate(results)
        )
        for out in outs:
            out.address = 0
        step = OpInstr(op, outs, operands)
        if computed:
            self.wanted.update(zip(outs, run_op(op, arrays, results), strict=True))
        self.steps.append(step)
        if anchor:
            self.anchor = step
        return outs[0]

    def into(self, operand: Buffer) -> None:
        """Have the last step write its result over one of its operands."""
        step = self.steps[-1]
        self.wanted[operand] = self.wanted.pop(step.outs[0])
        step.outs = (operand,)

    def job(self) -> Job:
        """All steps: what only steps read is local."""
        assert self.anchor is not None
        at = self.steps.index(self.anchor)
        read = {b for step in self.steps for b in step.ins}
        locals = frozenset(b for step in self.steps for b in step.outs if b in read)
        return Job(self.anchor, tuple(self.steps[:at]), tuple(self.steps[at + 1 :]), locals)

    def results(self) -> list[Buffer]:
        """What is written."""
        hidden = self.job().locals
        return [b for step in self.steps for b in step.outs if b not in hidden]


def plans(made: Made, target: CudaTarget = TARGET) -> Sequence[KernelPlan]:
    """The plans of a job."""
    job = made.job()
    assert job.anchor is not None
    found = ANCHORS.find(job.anchor, target)
    assert found is not None
    assert found.plans is not None
    return found.plans(job, target)


def written(
    job: Job, change: Callable[[KernelPlan], KernelPlan] | None, target: CudaTarget, number: int
) -> tuple[Job, KernelSource]:
    """The kernel of a job by one of its plans, with the workspace of that."""
    assert job.anchor is not None
    found = ANCHORS.find(job.anchor, target)
    assert found is not None
    if found.plans is None:
        return job, found.write(job, target)
    plan = found.plans(job, target)[number]
    plan = plan if change is None else change(plan)
    scratch = tuple(
        Buffer(name, TensorType(DType.of(np.dtype("u1")), (size,)), Region.ARENA)
        for name, size in plan.workspace.items()
    )
    for buffer in scratch:
        buffer.address = 0
    job = replace(job, scratch=scratch)
    return job, found.write(job, target, plan)


def check(
    made: Made,
    tolerance: float = 1e-5,
    change: Callable[[KernelPlan], KernelPlan] | None = None,
    target: CudaTarget = TARGET,
    number: int = 0,
) -> KernelSource:
    """Run the kernel of a job by the emulator, and compare all results with the definition."""
    job, source = written(made.job(), change, target, number)
    memory = dict(made.arrays)
    for result in made.results():
        unwritten = np.full(result.type.shape, 77).astype(result.type.dtype.numpy)
        memory.setdefault(result, unwritten)
    for buffer in job.scratch:
        memory[buffer] = np.full(buffer.type.shape, 0x7F, np.uint8)
    arrays = [_array_of(parameter, memory) for parameter in source.parameters]
    run_kernel(source.text, source.name, arrays, source.grid, types=source.types)
    for parameter, array in zip(source.parameters, arrays, strict=True):
        assert not isinstance(parameter, (Counters, Alarm)) or not array.any()
    for result in made.results():
        right = made.wanted[result]
        np.testing.assert_allclose(
            np.asarray(memory[result], right.dtype).astype("f8"),
            right.astype("f8"),
            rtol=tolerance,
            atol=tolerance,
        )
    return source


def _array_of(parameter: Parameter, memory: Mapping[Buffer, Array]) -> Array:
    """What a parameter of a kernel points to."""
    match parameter:
        case Buffer():
            return memory[parameter]
        case Counters(count):
            return np.zeros(count, np.int32)
        case Packed(buffer, _, pack):
            return np.ascontiguousarray(pack(elements_of(buffer)))
        case Table(data):
            return np.array(data)
    return np.zeros(2, np.int64)


def source_for(made: Made, arch: int) -> KernelSource:
    """The kernel of a job by its best plan, as it is written for an architecture."""
    return written(made.job(), None, kind_of(f"sm_{arch}"), 0)[1]


def compiled(*sources: KernelSource, arch: int = 90) -> list[Compiled]:
    """The machine code of kernels, and facts about each."""
    found = compile_kernels(sources, kind_of(f"sm_{arch}"))
    return [found[source.name] for source in sources]
