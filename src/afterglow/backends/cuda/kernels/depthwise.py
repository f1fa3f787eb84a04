"""Depthwise convolutions: every channel by itself, in blocks of places and channels."""

from __future__ import annotations

import itertools

from afterglow.backends.broadcast import merge_alike
from afterglow.backends.cuda.kernels.conv_layout import ConvLayout
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.kernels.tile import REGISTERS, Extents
from afterglow.backends.cuda.kernels.tile_blocks import Numbers, load, numbers
from afterglow.backends.cuda.kernels.tile_cost import (
    BEGIN,
    END,
    LAUNCH,
    MEMORY,
    WARP,
    WARPS,
)
from afterglow.backends.cuda.kernels.tile_plans import moved_bytes, power_of_two
from afterglow.backends.cuda.kernels.tile_results import places_by_row, write_block
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.cuda.tl.code import offset
from afterglow.backends.items.chain import places_of
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import fma
from afterglow.instr import KernelPlan, OpInstr
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import FloatUnary
from afterglow.types import Array
from afterglow.types.dtype import bf16, f16, f32

PLANES = "channels"
"""The algorithm: blocks of places and channels."""
MOST_TAPS = 64
"""Places of a window up to which they are written out, one after the other."""
BLOCKS = ((16, 32), (8, 64), (32, 32), (16, 64), (64, 16), (32, 64), (64, 32), (8, 128), (128, 16))
"""Places and channels of a program, those first that are better where estimates are equal."""
BLOCK_WARPS = (4, 2)
VECTOR = 16
"""Bytes that a thread reads at once."""
PER_TAP, PER_FUNCTION, PER_STEP = 5.0, 45.0, 2.0
"""Instructions of a product, which is read, converted, added; of a function of a result; of any
other step behind."""
PER_THREAD = 65.0
"""Instructions of a thread besides."""
INSTRUCTION = 0.57e-9
"""The time of an instruction in a thread, which waits for most of those before."""
KEPT, PER_RESULT = 36, 2
"""Registers of a thread, and more for each of its results."""


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    layout = ConvLayout(step)
    return (
        layout.x.type.dtype in (f16, bf16, f32)
        and layout.is_constant
        and layout.is_depthwise
        and layout.taps <= MOST_TAPS
        and layout.x.type.size > 0
    )


def plans(job: Job, target: CudaTarget) -> list[KernelPlan]:
    """Blocks of several shapes, the best first."""
    assert job.anchor is not None
    layout = ConvLayout(job.anchor)
    found = []
    for (rows, columns), warps in itertools.product(BLOCKS, BLOCK_WARPS):
        block = (
            min(rows, power_of_two(layout.extents.rows)),
            min(columns, power_of_two(layout.groups)),
        )
        if block[0] * block[1] >= warps * 32:
            cost = target.cost_of(_seconds(block, warps, layout, job, target))
            found.append(KernelPlan(PLANES, {"tile": block, "warps": warps}, cost, packed=(1,)))
    if not found:
        block = power_of_two(layout.extents.rows), power_of_two(layout.groups)
        return [KernelPlan(PLANES, {"tile": block, "warps": 1}, target.cost_of(LAUNCH))]
    unique = {plan.variant: plan for plan in found}
    return sorted(unique.values(), key=lambda plan: plan.cost)


def _seconds(
    block: tuple[int, int], warps: int, layout: ConvLayout, job: Job, target: CudaTarget
) -> float:
    """The time of a kernel: of its instructions, of the memory, of a program after the other."""
    rows, columns = block
    threads, results = warps * WARP, rows * columns
    programs = -(-layout.extents.rows // rows) * -(-layout.groups // columns)
    # neighbours in a vector that lie apart in memory are several reads
    vectors = max(1, VECTOR // (columns * layout.x.type.dtype.itemsize))
    each = layout.taps * PER_TAP + _instructions_behind(job)
    issued = results * each * vectors + threads * PER_THREAD
    busy = -(-programs // target.units) * issued / (target.flops / target.units / 2)
    chain = BEGIN + END + (results / threads * each + PER_THREAD) * INSTRUCTION
    registers = KEPT + PER_RESULT * results // threads
    together = max(1, min(WARPS // warps, REGISTERS // (registers * threads)))
    waves = -(-programs // (target.units * together))
    memory = moved_bytes(job) / (target.bandwidth * MEMORY)
    return LAUNCH + max(waves * chain, max(busy, memory) + chain)


def _instructions_behind(job: Job) -> float:
    """Instructions that the steps behind take for each result."""
    functions = sum(isinstance(step.op, FloatUnary) for step in job.after)
    return functions * PER_FUNCTION + (len(job.after) - functions) * PER_STEP


@ANCHORS.declare(Conv, accepts=_accepts, plans=plans)
def write_depthwise(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """A program for some places and some channels."""
    kernel = Kernel(job, target)
    _Planes(kernel, plan).write()
    return kernel.finish()


class _Planes:
    """What a program of a depthwise convolution does."""

    def __init__(self, kernel: Kernel, plan: KernelPlan) -> None:
        self.kernel, self.code = kernel, kernel.code
        self.layout = ConvLayout(kernel.step)
        block, warps = plan.settings["tile"], plan.settings["warps"]
        assert isinstance(block, tuple)
        assert isinstance(warps, int)
        self.block = block
        kernel.warps = warps
        self.extents = Extents(self.layout.extents.rows, self.layout.groups, self.layout.taps)

    def write(self) -> None:
        """All products of the windows, then the steps behind."""
        code, kernel = self.code, self.kernel
        rows, columns = self._begin()
        total = self._sums(rows, columns)
        kernel.release_dependents()
        for axis, each in enumerate((rows, columns)):
            if not each.exact:
                code.mask(each.inside(axis))
        places = places_by_row(kernel, [], rows.along(0), columns.along(1))
        write_block(kernel, total, places)

    def _begin(self) -> tuple[Numbers, Numbers]:
        """The places and channels of a program: neighbours have the same channels."""
        code, kernel, (height, width) = self.code, self.kernel, self.block
        down, across = -(-self.extents.rows // height), -(-self.extents.columns // width)
        kernel.grid = (down * across, 1, 1)
        program = code.program()
        if across == 1:
            row, column = program, code.index(0)
        else:
            row = code.named(program.combined("/", across))
            column = code.named(program.combined("%", across))
        return (
            numbers(code, row, height, self.extents.rows),
            numbers(code, column, width, self.extents.columns),
        )

    def _sums(self, rows: Numbers, columns: Numbers) -> Value:
        code, layout, kernel = self.code, self.layout, self.kernel
        channel, of_channels = columns.read(contiguous=True, axis=1)
        row, _ = rows.read(contiguous=False, axis=0)
        extents, (steps,) = merge_alike(layout.shape[:-1], [layout.step_strides])
        first = offset(code, places_of(kernel, row, extents), steps) - layout.begin
        base = code.named(code.named(first) + channel * layout.x.strides[-1])
        inside = self._inside(row)
        x = kernel.numbers(layout.x)
        factors = kernel.packed(layout.weight, "taps first", _taps_first).numbers
        # a factor for each place, though all have the same: threads then have those they need
        everywhere = code.named(channel + code.zeros((self.block[0], 1)))
        total = self._bias(everywhere, of_channels)
        for number, tap in enumerate(itertools.product(*map(range, layout.windows.kernel))):
            distances = zip(tap, layout.windows.dilations, layout.x.strides[1:-1], strict=True)
            shift = sum(t * dilation * stride for t, dilation, stride in distances)
            masks = [inside[axis, t] for axis, t in enumerate(tap) if (axis, t) in inside]
            value = load(x, base + shift, [*masks, *of_channels])
            place = everywhere + number * self.extents.columns
            total = fma(value, load(factors, place, of_channels), total)
        return total

    def _bias(self, channel: Value, masks: list[Value]) -> Value:
        """What sums begin with."""
        bias = self.kernel.step.optional(2)
        if bias is None:
            return self.code.constant(f32, 0)
        return load(self.kernel.numbers(bias), channel * bias.strides[0], masks)

    def _inside(self, row: Value) -> dict[tuple[int, int], Value]:
        """Whether a place of windows along an axis is in x, for those that may not be."""
        layout, code = self.layout, self.code
        where = places_of(self.kernel, row, layout.shape[:-1])[1:]
        windows, found = layout.windows, {}
        for axis, place in enumerate(where):
            if not layout.reaches_beyond(axis):
                continue
            corner = code.named(place * windows.strides[axis] - windows.begins[axis])
            for tap in range(windows.kernel[axis]):
                seen = code.named(corner + tap * windows.dilations[axis])
                found[axis, tap] = (seen >= 0) & (seen < layout.spatial[axis])
        return found


def _taps_first(data: Array) -> Array:
    return data.reshape(data.shape[0], -1).T
