"""The steps after a product, done to blocks of its results."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.broadcast import Strides, chain_strides, merge_alike, strides_within
from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.tl import Value
from afterglow.backends.items.chain import places_of, run_chain, store_results
from afterglow.instr import Buffer


def write_block(
    kernel: Kernel, result: Value, fixed: Sequence[Value], row: Value, column: Value
) -> None:
    """Do the steps after the anchor to a block of its result, and write what is in memory.

    `fixed` are the places along the first axes, the same in the whole block; `row` counts the
    places along the others but the last, and `column` is the place there.
    """
    steps, out = kernel.job.after, kernel.step.outs[0]
    extents, strides = _merged(kernel, len(fixed))
    places = [*fixed, *places_of(kernel, row, extents), column]
    values = run_chain(kernel, steps, {out: result}, places, strides)
    store_results(kernel, values, places, strides)


def _merged(kernel: Kernel, fixed: int) -> tuple[tuple[int, ...], dict[Buffer, Strides]]:
    """The axes of rows, as few as all operands allow, and the strides in the shape with those."""
    job, out = kernel.job, kernel.step.outs[0]
    shape = out.type.shape
    every = {**chain_strides(job.after, shape), out: strides_within(out, shape)}
    held = {buffer: own for buffer, own in every.items() if buffer not in job.locals}
    rows = slice(fixed, len(shape) - 1)
    extents, merged = merge_alike(shape[rows], [own[rows] for own in held.values()])
    pairs = zip(held.items(), merged, strict=True)
    return extents, {b: (*own[:fixed], *of_rows, own[-1]) for (b, own), of_rows in pairs}
