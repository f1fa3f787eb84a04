"""Element-wise steps on the elements at one place of a shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afterglow.backends.broadcast import Strides
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.clc.code import offset
from afterglow.backends.opencl.kernels.kernel import Kernel
from afterglow.backends.pointwise import compute
from afterglow.instr import Buffer, OpInstr


def run_chain(
    kernel: Kernel,
    steps: Sequence[OpInstr],
    given: Mapping[Buffer, Value],
    places: Sequence[Value],
    strides: Mapping[Buffer, Strides],
    lanes: int = 1,
) -> dict[Buffer, Value]:
    """Compute the steps at a place, and return all values; `given` are known already.

    `lanes` elements that are neighbours along the last axis are computed at once.
    """
    values = dict(given)

    def value_of(buffer: Buffer) -> Value:
        if buffer not in values:
            values[buffer] = load(kernel, buffer, places, strides[buffer], lanes)
        return values[buffer]

    for step in steps:
        operands = [None if b is None else value_of(b) for b in step.ins]
        out = step.outs[0]
        values[out] = compute(step.op, out.type.dtype, operands)
    return values


def load(
    kernel: Kernel, buffer: Buffer, places: Sequence[Value], strides: Strides, lanes: int = 1
) -> Value:
    """The element of a buffer at a place; a scalar if it is the same in all lanes."""
    known = kernel.known(buffer)
    if known is not None:
        return known
    where = offset(kernel.code, places, strides)
    along_lanes = bool(strides) and strides[-1] != 0
    return kernel.pointer(buffer).load(where, lanes if along_lanes else 1)


def store_results(
    kernel: Kernel,
    values: Mapping[Buffer, Value],
    places: Sequence[Value],
    strides: Mapping[Buffer, Strides],
    lanes: int = 1,
) -> None:
    """Write every result that is in memory."""
    outs = [out for step in kernel.job.steps for out in step.outs]
    for out in outs:
        if out not in kernel.job.locals and out in values:
            where = offset(kernel.code, places, strides[out])
            kernel.pointer(out).store(values[out].splat(lanes), where)


def places_of(kernel: Kernel, item: Value, shape: Sequence[int]) -> list[Value]:
    """The index along each axis of an element, given its number in row-major order."""
    places: list[Value] = []
    rest: Value = item
    for extent in reversed(shape[1:]):
        if extent == 1:
            places.insert(0, kernel.code.index(0))
            continue
        places.insert(0, kernel.code.named(rest.combined("%", extent)))
        rest = kernel.code.named(rest.combined("/", extent))
    return [rest, *places] if shape else []
