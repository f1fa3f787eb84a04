"""Jobs made by hand, run by the emulator and compiled, so that a kernel is tested by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from afterglow.backends.cuda.compile import Compiled, compile_kernels
from afterglow.backends.cuda.kernels.kernel import KernelSource
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.target import CudaTarget, kind_of
from afterglow.backends.job import Job
from afterglow.backends.launched.parameters import Counters, Packed, Table, elements_of
from afterglow.graph import Op, run_op
from afterglow.instr import Buffer, KernelPlan, OpInstr, Region
from afterglow.types import Array, DType, TensorType
from tests.backends.cuda.emulate import run_kernel

TARGET = kind_of("sm_90")


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

    def add(self, op: Op, *operands: Buffer | None, anchor: bool = False) -> Buffer:
        """A step, of which the first result is returned."""
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
        for out, array in zip(outs, run_op(op, _wide(arrays, op), results), strict=True):
            self.wanted[out] = array
        self.steps.append(step)
        if anchor:
            self.anchor = step
        return outs[0]

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


def _wide(arrays: Sequence[Array | None], op: Op) -> list[Array | None]:
    return list(arrays)


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
        memory[result] = np.full(result.type.shape, 77).astype(result.type.dtype.numpy)
    for buffer in job.scratch:
        memory[buffer] = np.full(buffer.type.shape, 0x7F, np.uint8)
    arrays = []
    for parameter in source.parameters:
        match parameter:
            case Buffer():
                arrays.append(memory[parameter])
            case Counters(count):
                arrays.append(np.zeros(count, np.int32))
            case Packed(buffer, _, pack):
                arrays.append(pack(elements_of(buffer)))
            case Table(data):
                arrays.append(np.array(data))
            case _:
                raise AssertionError(parameter)
    run_kernel(source.text, source.name, arrays, source.grid, types=source.types)
    for parameter, array in zip(source.parameters, arrays, strict=True):
        assert not isinstance(parameter, Counters) or not array.any()
    for result in made.results():
        right = made.wanted[result]
        np.testing.assert_allclose(
            np.asarray(memory[result], right.dtype).astype("f8"),
            right.astype("f8"),
            rtol=tolerance,
            atol=tolerance,
        )
    return source


def compiled(*sources: KernelSource, arch: int = 90) -> list[Compiled]:
    """The machine code of kernels, and facts about each."""
    found = compile_kernels(sources, kind_of(f"sm_{arch}"))
    return [found[source.name] for source in sources]
