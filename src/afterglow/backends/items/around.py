"""What kernels of anchors share: operands computed as they are read, and epilogues."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.broadcast import chain_strides, strides_within
from afterglow.backends.items.chain import (
    as_declared,
    load,
    run_chain,
    store_results,
)
from afterglow.backends.items.language import Kernel
from afterglow.backends.items.types import computed
from afterglow.backends.pointwise.value import ValueT
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import Buffer


def read(
    kernel: Kernel[ValueT], buffer: Buffer, places: Sequence[ValueT], lanes: int = 1
) -> ValueT:
    """An element of an operand: loaded, or computed by the steps before the anchor."""
    if not _is_computed(kernel, buffer):
        strides = strides_within(buffer, buffer.type.shape)
        return load(kernel, buffer, places, strides, lanes, to_move=True)
    return as_declared(_computed(kernel, buffer, places, lanes), buffer)


def read_number(
    kernel: Kernel[ValueT], buffer: Buffer, places: Sequence[ValueT], lanes: int = 1
) -> ValueT:
    """The same to compute with: floats of 16 bits become f32."""
    if not _is_computed(kernel, buffer):
        return load(kernel, buffer, places, strides_within(buffer, buffer.type.shape), lanes)
    value = _computed(kernel, buffer, places, lanes)
    return convert(value, computed(value.dtype))


def _is_computed(kernel: Kernel[ValueT], buffer: Buffer) -> bool:
    return any(buffer in step.outs for step in kernel.job.before)


def _computed(
    kernel: Kernel[ValueT], buffer: Buffer, places: Sequence[ValueT], lanes: int
) -> ValueT:
    """An element of what the steps before the anchor make."""
    steps = kernel.job.before
    strides = chain_strides(steps, buffer.type.shape)
    return run_chain(kernel, steps, {}, places, strides, lanes)[buffer]


def write_result(
    kernel: Kernel[ValueT], result: ValueT, places: Sequence[ValueT], lanes: int = 1
) -> None:
    """Do the steps after the anchor to an element of its result, and write what is in memory."""
    assert kernel.job.anchor is not None
    out = kernel.job.anchor.outs[0]
    steps, shape = kernel.job.after, out.type.shape
    strides = {**chain_strides(steps, shape), out: strides_within(out, shape)}
    values = run_chain(kernel, steps, {out: result}, places, strides, lanes)
    store_results(kernel, values, places, strides, lanes)


def lanes_of_results(kernel: Kernel[ValueT], lanes: int) -> int:
    """So many, if the steps after the anchor read and write vectors of results, else one."""
    job = kernel.job
    assert job.anchor is not None
    out = job.anchor.outs[0]
    strides = chain_strides(job.after, out.type.shape)
    results = [out, *(each for step in job.after for each in step.outs)]
    used = {b for step in job.after for b in (*step.outs, *step.ins) if b is not None}
    wide = any(b.type.dtype.bits > computed(out.type.dtype).bits for b in used)
    written = all(b.strides[-1] == 1 for b in results if b not in job.locals)
    alike = all(each[-1] in (0, 1) for each in strides.values())
    return lanes if written and alike and not wide else 1
