"""Cases of ops as kernels that serve all backends, in the emulator of CUDA and in its compiler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from afterglow.backends.cuda.compile.compiler import job_of
from afterglow.backends.cuda.compile.worker import compile_job
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.table import write_elementwise
from afterglow.backends.cuda.target import kind_of
from afterglow.backends.cuda.tl.types import HELD
from afterglow.backends.fusion import can_join, refusal_of
from afterglow.backends.items.anchors import Anchor, AnchorTable
from afterglow.backends.items.families import SHARED
from afterglow.backends.job import Job
from afterglow.backends.launched.parameters import Alarm, Packed, Table, elements_of
from afterglow.graph import run_op
from afterglow.instr import Buffer, OpInstr, Region, Stack
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add, Neg
from afterglow.support.lazy_dataclass import dataclass
from afterglow.testing.arrays import assert_close
from afterglow.testing.cases import Case
from afterglow.types import Array, TensorType
from afterglow.types.dtype import bf16, f16, f32
from tests.backends.cuda.emulate import _MACHINE, _MEMORY

TARGET = kind_of("sm_90")
TABLE: AnchorTable[Any, KernelSource] = AnchorTable(Kernel, SHARED)
"""What serves all backends, without what CUDA has of its own."""
LEAST_TOLERANCE = 1e-5
_TOLERANCES = {f16: 2e-3, bf16: 2e-2}
MODES = ("plain", "strided", "backwards", "constant", "after", "before")
"""Whole operands, parts of larger ones, constants; and with steps around the op."""


@dataclass(frozen=True, eq=False)
class Work:
    """A step or a stack with what is in memory, and what it has to compute."""

    step: OpInstr | Stack
    memory: dict[Buffer, Array]
    results: tuple[Buffer, ...]
    wanted: Sequence[Array]
    tolerance: float


def works_of(case: Case, modes: Sequence[str] = MODES) -> Iterator[tuple[str, Work]]:
    """A case in several ways, those of them that there are."""
    for mode in modes:
        types = case.results()
        if mode == "after" and (len(types) != 1 or not types[0].dtype.is_float):
            continue
        if mode == "before" and not (case.types and _is_f32(case.types[0])):
            continue
        yield mode, _work(case, mode)


def _is_f32(type: TensorType | None) -> bool:
    return type is not None and type.dtype is f32


def _work(case: Case, mode: str) -> Work:
    memory: dict[Buffer, Array] = {}
    arrays = case.inputs()
    ins = [
        None if array is None else _operand(f"x{n}", np.asarray(array), mode, n, memory)
        for n, array in enumerate(arrays)
    ]
    outs = tuple(Buffer(f"y{n}", type, Region.OUTPUT) for n, type in enumerate(case.results()))
    tolerance = max(
        case.tolerance,
        LEAST_TOLERANCE,
        *(_TOLERANCES.get(b.type.dtype, 0) for b in (*outs, *ins) if b is not None),
    )
    step = OpInstr(case.op, outs, tuple(ins))
    if mode == "after":
        return _followed(step, arrays, memory, tolerance)
    if mode == "before":
        return _led(step, arrays, memory, tolerance)
    return Work(step, memory, outs, run_op(case.op, arrays, case.results()), tolerance)


def _operand(
    name: str, array: Array, mode: str, number: int, memory: dict[Buffer, Array]
) -> Buffer:
    type = TensorType.of(array)
    if mode == "constant" and number:
        return Buffer(name, type, Region.CONSTANT, data=array)
    if mode not in ("strided", "backwards") or not type.rank:
        buffer = Buffer(name, type, Region.INPUT)
        memory[buffer] = np.ascontiguousarray(array)
        return buffer
    return _part(name, array, type, memory, backwards=mode == "backwards")


def _part(
    name: str, array: Array, type: TensorType, memory: dict[Buffer, Array], *, backwards: bool
) -> Buffer:
    """Every other element of a larger operand, along the last axis from the last to the first."""
    room, strides = 2, []
    for extent in reversed(type.shape):
        strides.insert(0, room)
        room *= max(extent, 1)
    start = 1
    if backwards:
        start += strides[-1] * max(type.shape[-1] - 1, 0)
        strides[-1] *= -1
    base = Buffer(f"{name} whole", type.with_shape((room + 3,)), Region.INPUT)
    memory[base] = np.zeros(room + 3, array.dtype)
    buffer = Buffer(name, type, Region.INPUT, base=base, start=start, strides=strides)
    buffer.of(memory[base])[...] = array
    return buffer


def _followed(
    step: OpInstr, arrays: Sequence[Array | None], memory: dict[Buffer, Array], tolerance: float
) -> Work:
    """relu(step + other)."""
    type = step.outs[0].type
    found, total = Buffer("found", type, Region.ARENA), Buffer("total", type, Region.ARENA)
    out, other = Buffer("out", type, Region.OUTPUT), Buffer("other", type, Region.INPUT)
    random = np.random.default_rng(0).standard_normal(type.shape)
    memory[other] = np.asarray(random.astype(type.dtype.numpy))
    body = (
        OpInstr(step.op, (found,), step.ins),
        OpInstr(Add(), (total,), (found, other)),
        OpInstr(Relu(), (out,), (total,)),
    )
    (right,) = run_op(step.op, arrays, [type])
    wanted = np.maximum(right.astype("f8") + memory[other].astype("f8"), 0)
    stack = Stack(body, (found, total))
    return Work(stack, memory, (out,), [wanted.astype(type.dtype.numpy)], tolerance)


def _led(
    step: OpInstr, arrays: Sequence[Array | None], memory: dict[Buffer, Array], tolerance: float
) -> Work:
    """The step, of its first operand with the sign turned."""
    x = step.operand(0)
    turned = Buffer("turned", x.type, Region.ARENA)
    body = (OpInstr(Neg(), (turned,), (x,)), OpInstr(step.op, step.outs, (turned, *step.ins[1:])))
    assert arrays[0] is not None
    right = run_op(step.op, [-arrays[0], *arrays[1:]], [b.type for b in step.outs])
    return Work(Stack(body, (turned,)), memory, step.outs, right, tolerance)


def kernel_of(step: OpInstr | Stack) -> KernelSource | None:
    """The kernel of a step or a stack; None if none serves all backends."""
    job = Job.of(step)
    held = all(b.type.dtype in HELD for s in job.steps for b in (*s.outs, *s.ins) if b is not None)
    if job.is_empty or not held:
        return None
    anchor: Anchor[Any, KernelSource] | None = None
    if job.anchor is not None:
        anchor = TABLE.find(job.anchor, TARGET)
        if anchor is None:
            return None
    if refusal_of(job, lambda step: True) or not can_join(job, anchor):
        return None
    return write_elementwise(job, TARGET) if anchor is None else anchor.write(job, TARGET)


def check(work: Work) -> KernelSource | None:
    """Run a kernel by the emulator, if there is one, and compare all results."""
    source = kernel_of(work.step)
    if source is None:
        return None
    for buffer in work.results:
        work.memory[buffer] = np.full(buffer.type.shape, 77).astype(buffer.type.dtype.numpy)
    run(source, work.memory)
    assert_close([work.memory[b] for b in work.results], list(work.wanted), work.tolerance)
    return source


def run(source: KernelSource, memory: dict[Buffer, Array]) -> list[Array]:
    """Run a kernel on the arrays of whole buffers, which it writes; its alarms."""
    blocks: list[int] = []
    alarms: list[Array] = []

    def adopted(array: Array) -> int:
        blocks.append(_MEMORY.adopt(array))
        return blocks[-1]

    def address(parameter: Any) -> int:
        match parameter:
            case Buffer():
                root = parameter.root
                if root not in memory:
                    assert root.data is not None
                    memory[root] = np.array(root.data)
                return adopted(memory[root]) + parameter.start * parameter.type.dtype.itemsize
            case Packed(buffer, _, pack):
                return adopted(np.ascontiguousarray(pack(elements_of(buffer))))
            case Table(data):
                return adopted(np.array(data))
            case Alarm():
                alarms.append(np.zeros(2, np.int64))
                return adopted(alarms[-1])
        raise AssertionError(parameter)

    kernel = _MACHINE.load(source.name, source.text, source.types)
    try:
        addresses = [address(parameter) for parameter in source.parameters]
        _MACHINE.launch(kernel, source.grid, addresses)
    finally:
        for block in set(blocks):
            _MEMORY.release(block)
    return alarms


def compiled(source: KernelSource) -> bytes:
    """The machine code of a kernel, by the compiler in this process."""
    facts, code = compile_job(job_of(source, TARGET))
    assert facts["scratch"] == 0
    return code
