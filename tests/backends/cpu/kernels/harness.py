"""Runs the kernel of one op, alone or with element-wise steps around it, on given arrays."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np

from afterglow.backends.cpu import Target, compile_module, load_host
from afterglow.backends.cpu.codegen.constants import Constants
from afterglow.backends.cpu.codegen.write import can_write, plans_for, write_kernel
from afterglow.backends.cpu.llvm.compile import Compile
from afterglow.backends.cpu.llvm.load import Library
from afterglow.backends.cpu.micro.kernel import (
    Alarm,
    Kernel,
    KernelFunction,
    Operand,
    Packed,
    Storage,
    Table,
    Workspace,
)
from afterglow.backends.job import Job
from afterglow.backends.policy import DEFAULT, Policy
from afterglow.graph import Op, run_op
from afterglow.graph.op import result_types
from afterglow.instr import Buffer, Copy, OpInstr, Region, Stack
from afterglow.testing.cases.case import Case
from afterglow.types import Array, DType, TensorType

GAP = 3
"""Elements between the rows of a buffer with gaps."""


def best_kernel(job: Job, target: Target, policy: Policy = DEFAULT) -> Kernel:
    """The kernel of a job by the plan that a policy picks, or else the best."""
    plans = plans_for(job, target, policy)
    picked = policy.variants.get(job.key)
    plan = next((plan for plan in plans if plan.variant == picked), plans[0])
    return write_kernel(job, target, plan)


def has_kernel(job: Job, target: Target) -> bool:
    """Whether there is a kernel for a job; ops of which there is none for it are lowered."""
    return can_write(job) and bool(plans_for(job, target, DEFAULT))


def waits_in(kernel: Kernel) -> int:
    """How often threads wait for each other between the phases of a kernel."""
    return sum(not function.beside for function in kernel.functions) - 1


class Bench:
    """Buffers with arrays behind them, and steps on them.

    >>> bench = Bench()
    >>> x, w = bench.input(a), bench.constant(b)
    >>> y = bench.step(MatMul(), x, w)             # y is a local: the next step is fused with it
    >>> z = bench.step(Relu(), y, stored=True)
    >>> bench.check(pieces=3)                      # runs the kernel, compares with `Op.evaluate`
    """

    def __init__(self, target: Target | None = None) -> None:
        self.target = target or Target.host()
        self.compile: Compile = compile_module
        self.runs_on = self.target
        self.policy = DEFAULT
        self.memory: dict[Buffer, Array] = {}
        self.steps: list[OpInstr] = []
        self.values: dict[Buffer, Array] = {}

    def input(self, array: Array, *, gaps: bool = False) -> Buffer:
        """An operand; with gaps, its rows do not lie one after the other."""
        return self._buffer(array, Region.INPUT, gaps=gaps)

    def constant(self, array: Array) -> Buffer:
        """An operand known when the code is made."""
        return self._buffer(array, Region.CONSTANT, gaps=False)

    def step(
        self, op: Op, *operands: Buffer | None, stored: bool = False, gaps: bool = False
    ) -> Buffer:
        """Compute an op; its (first) result is a local unless it is stored."""
        return self.steps_of(op, *operands, stored=stored, gaps=gaps)[0]

    def steps_of(
        self, op: Op, *operands: Buffer | None, stored: bool = True, gaps: bool = False
    ) -> list[Buffer]:
        """Compute an op with any number of results."""
        types = result_types(op.infer(*(None if b is None else b.type for b in operands)))
        arrays = [None if b is None else self.values[b] for b in operands]
        outs = []
        for type, value in zip(types, run_op(op, arrays, list(types)), strict=True):
            region = Region.OUTPUT if stored else Region.LOCAL
            out = self._buffer(np.zeros(type.shape, type.dtype.numpy), region, gaps=gaps)
            self.values[out] = np.asarray(value)
            outs.append(out)
        self.steps.append(OpInstr(op, tuple(outs), operands))
        return outs

    def case(self, case: Case, *, constant: bool, gaps: bool = False) -> None:
        """Compute the op of a case; `constant`, its operands are, but for the first one."""
        operands: list[Buffer | None] = []
        for index, array in enumerate(case.inputs()):
            if array is None:
                operands.append(None)
            elif constant and index:
                operands.append(self.constant(array))
            else:
                operands.append(self.input(array, gaps=gaps and index == 0))
        self.step(case.op, *operands, stored=True, gaps=gaps)

    def job(self) -> Job:
        """All steps as one job."""
        if len(self.steps) == 1:
            return Job.of(self.steps[0])
        locals = tuple(b for s in self.steps for b in s.outs if b.region is Region.LOCAL)
        return Job.of(Stack(tuple(self.steps), locals))

    def run(self, pieces: int = 1) -> list[Array]:
        """Run the kernel, its units in so many pieces, the last piece first; the stored results."""
        job = self.job()
        assert can_write(job), f"no kernel for {job.key}"
        self._run(job, pieces)
        return [self._array(b) for b in self._stored()]

    def check(self, pieces: int = 1, *, rtol: float = 1e-5, atol: float = 1e-6) -> None:
        """Run it, compare every stored result with what the ops mean."""
        for buffer, result in zip(self._stored(), self.run(pieces), strict=True):
            wanted = self.values[buffer]
            assert result.dtype == wanted.dtype
            assert result.shape == wanted.shape
            if np.issubdtype(wanted.dtype, np.integer) or wanted.dtype == bool:
                np.testing.assert_array_equal(result, wanted)
            else:
                wide = np.result_type(np.float32, wanted.dtype)
                scale = np.abs(
                    wanted.astype(wide),
                    where=np.isfinite(wanted.astype(wide)),
                    out=np.zeros(wanted.shape, wide),
                )
                np.testing.assert_allclose(
                    result.astype(wide),
                    wanted.astype(wide),
                    rtol=rtol,
                    atol=atol * max(1.0, scale.max(initial=0.0)),
                )

    def copy(self, dest: Buffer, src: Buffer, pieces: int = 1) -> None:
        """Run the kernel of a copy."""
        self._run(Job.of(Copy(dest, src)), pieces)

    def _run(self, job: Job, pieces: int) -> None:
        kernel = self._kernel(job)
        code = self.compile(kernel.module, kernel.target)
        library = load_host(code, kernel.module.exports, self.runs_on)
        _run(kernel, library, self.memory, pieces)

    def _kernel(self, job: Job) -> Kernel:
        return best_kernel(job, self.target, self.policy)

    def _stored(self) -> list[Buffer]:
        return [b for s in self.steps for b in s.outs if b.region is Region.OUTPUT]

    def _buffer(self, array: Array, region: Region, *, gaps: bool) -> Buffer:
        array = np.asarray(array)
        type = TensorType(DType.of(array.dtype), array.shape)
        name = f"b{len(self.memory)}"
        if region is Region.CONSTANT:
            buffer = Buffer(name, type, region, data=np.ascontiguousarray(array))
        elif gaps and array.ndim > 1:
            strides = [1]
            for extent in reversed(array.shape[1:]):
                strides.insert(0, strides[0] * extent + GAP)
            whole = Buffer(
                f"{name}.whole", TensorType(type.dtype, (strides[0] * array.shape[0],)), region
            )
            buffer = Buffer(name, type, region, base=whole, strides=strides)
        else:
            buffer = Buffer(name, type, region)
        size = buffer.root.type.size
        self.memory[buffer] = np.zeros(size, array.dtype)
        self._array(buffer)[...] = array
        self.values[buffer] = array
        return buffer

    def _array(self, buffer: Buffer) -> Array:
        return buffer.of(self.memory[buffer])


def _run(kernel: Kernel, library: Library, memory: dict[Buffer, Array], pieces: int) -> None:
    workspaces = {name: _room(storage) for name, storage in kernel.needs.workspace.items()}
    needed = sum(storage.nbytes for storage in kernel.needs.scratch.values())
    for function in _beside_reversed(kernel.functions):
        assert function.scratch_bytes <= needed
        kept = [
            _address(kernel, parameter, memory, workspaces) for parameter in function.parameters
        ]
        pointers = [array.ctypes.data + extra for array, extra in kept]
        kinds = [
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_int64,
            *[ctypes.c_void_p] * len(pointers),
        ]
        call = library.function(function.symbol, *kinds)
        borders = [piece * function.units // pieces for piece in range(pieces + 1)]
        for begin, end in reversed(list(itertools.pairwise(borders))):
            scratch = _aligned(function.scratch_bytes)
            call(scratch.ctypes.data, begin, end, *pointers)


def _beside_reversed(functions: list[KernelFunction]) -> list[KernelFunction]:
    """The phases of a kernel; of those that may run beside each other, the last one first."""
    ordered: list[KernelFunction] = []
    first = 0
    for function in functions:
        first = first if function.beside else len(ordered)
        ordered.insert(first, function)
        used = [p for each in ordered[first:] for p in each.parameters if isinstance(p, Workspace)]
        assert len(used) == len({*used}), "phases side by side use one workspace"
    return ordered


def _address(
    kernel: Kernel, parameter: object, memory: dict[Buffer, Array], workspaces: dict[str, Array]
) -> tuple[Array, int]:
    match parameter:
        case Operand(number):
            buffer = kernel.job.buffers[number]
            return memory[buffer], buffer.start * buffer.type.dtype.itemsize
        case Packed(number):
            constants = Constants()
            constants.packed(kernel.job.buffers[number], parameter)
            return _copied(constants.block()), 0
        case Table(data):
            return _copied(data), 0
        case Alarm():
            return np.zeros(2, np.int64), 0
        case Workspace(name):
            return workspaces[name], 0
    raise TypeError(f"no memory for {parameter}")


def _room(storage: Storage) -> Array:
    return _aligned(storage.nbytes)


def _copied(data: Array) -> Array:
    raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    copy = _aligned(raw.nbytes)
    copy[: raw.nbytes] = raw
    return copy


def _aligned(size: int) -> Array:
    whole = np.full(size + 64, 0xFF, np.uint8)  # NaN, if somebody reads before writing
    start = -whole.ctypes.data % 64
    return whole[start : start + size]
