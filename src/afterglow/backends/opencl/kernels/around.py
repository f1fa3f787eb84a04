"""What kernels of anchors share: operands computed as they are read, and epilogues."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.broadcast import chain_strides, strides_within
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.kernels.chain import load, run_chain, store_results
from afterglow.backends.opencl.kernels.kernel import Kernel
from afterglow.instr import Buffer


def read(kernel: Kernel, buffer: Buffer, places: Sequence[Value], lanes: int = 1) -> Value:
    """An element of an operand: loaded, or computed by the steps before the anchor."""
    steps = kernel.job.before
    if not any(buffer in step.outs for step in steps):
        return load(kernel, buffer, places, strides_within(buffer, buffer.type.shape), lanes)
    strides = chain_strides(steps, buffer.type.shape)
    return run_chain(kernel, steps, {}, places, strides, lanes)[buffer]


def write_result(kernel: Kernel, result: Value, places: Sequence[Value], lanes: int = 1) -> None:
    """Do the steps after the anchor to an element of its result, and write what is in memory."""
    assert kernel.job.anchor is not None
    out = kernel.job.anchor.outs[0]
    steps, shape = kernel.job.after, out.type.shape
    strides = {**chain_strides(steps, shape), out: strides_within(out, shape)}
    values = run_chain(kernel, steps, {out: result}, places, strides, lanes)
    store_results(kernel, values, places, strides, lanes)
