"""The steps after a product, done to blocks of its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from afterglow.backends.broadcast import Strides, chain_strides, merge_alike, strides_within
from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.cuda.tl.types import computed
from afterglow.backends.items.chain import load, places_of, run_chain, store_results
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import Buffer
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Places:
    """Where the results of a block are: along some axes, with the strides of what lies there."""

    along: Sequence[Value]
    strides: Mapping[Buffer, Strides]
    masks: Sequence[Value] = ()
    """Which of them there are, besides the rows and columns that there are."""


def write_block(
    kernel: Kernel, result: Value, places: Places, early: Mapping[Buffer, Value] | None = None
) -> None:
    """Do the steps after the anchor to a block of its result, and write what is in memory.

    What was read `early` is not read again.
    """
    out = kernel.step.outs[0]
    known = {b: convert(value, computed(value.dtype)) for b, value in (early or {}).items()}
    given = {**known, out: result}
    with ExitStack() as stack:
        for mask in places.masks:
            stack.enter_context(kernel.code.when(mask))
        values = run_chain(kernel, kernel.job.after, given, places.along, places.strides)
        store_results(kernel, values, places.along, places.strides)


def read_early(kernel: Kernel, buffers: Sequence[Buffer], places: Places) -> dict[Buffer, Value]:
    """What the steps after the anchor read of some buffers."""
    with ExitStack() as stack:
        for mask in places.masks:
            stack.enter_context(kernel.code.when(mask))
        return {
            buffer: load(kernel, buffer, places.along, places.strides[buffer], to_move=True)
            for buffer in buffers
        }


def read_by_element(job: Job) -> list[Buffer]:
    """What the steps after the anchor read an element of for each result."""
    shape = _shape(job)
    return [b for b, own in _read(job) if all(s for s, n in zip(own, shape, strict=True) if n > 1)]


def read_by_column(job: Job) -> list[Buffer]:
    """What the steps after the anchor read an element of for each column."""
    return [buffer for buffer, own in _read(job) if own[-1] and not any(own[:-1])]


def operations_after(job: Job, target: CudaTarget) -> int:
    """How many operations the steps after the anchor take for each result, about."""
    if not job.after:
        return 0
    assert job.anchor is not None
    kernel, out = Kernel(job, target), job.anchor.outs[0]
    strides = chain_strides(job.after, out.type.shape)
    result = kernel.code.variable(kernel.code.constant(computed(out.type.dtype), 0))
    kernel.code.wait()
    begun = len(kernel.code.lines)
    places = [kernel.code.index(0)] * out.type.rank
    run_chain(kernel, job.after, {out: result}, places, strides)
    return len(kernel.code.lines) - begun


def _read(job: Job) -> Iterator[tuple[Buffer, Strides]]:
    """What the steps after the anchor read to compute with, and its strides among results."""
    made = {out for step in job.steps for out in step.outs}
    moved = {b for step in job.after if step.op.moves_only for b in step.ins}
    for buffer, own in chain_strides(job.after, _shape(job)).items():
        if buffer not in made and buffer not in moved:
            yield buffer, own


def _shape(job: Job) -> tuple[int, ...]:
    assert job.anchor is not None
    return job.anchor.outs[0].type.shape


def places_by_axis(kernel: Kernel, along: Sequence[Value], masks: Sequence[Value] = ()) -> Places:
    """The places of a block, which are given along each axis of the result."""
    return Places(along, _strides(kernel), masks)


def places_by_row(kernel: Kernel, fixed: Sequence[Value], row: Value, column: Value) -> Places:
    """The places of a block, along as few axes as all that is read and written allows.

    `fixed` are those along the first axes, the same in the whole block; `row` counts the places
    along the others but the last, and `column` is the place there.
    """
    shape, held = kernel.step.outs[0].type.shape, _strides(kernel)
    first = len(fixed)
    rows = slice(first, len(shape) - 1)
    extents, merged = merge_alike(shape[rows], [own[rows] for own in held.values()])
    strides = {
        buffer: (*own[:first], *of_rows, own[-1])
        for (buffer, own), of_rows in zip(held.items(), merged, strict=True)
    }
    return Places([*fixed, *places_of(kernel, row, extents), column], strides)


def _strides(kernel: Kernel) -> dict[Buffer, Strides]:
    """The strides among results of all that the epilogue reads and writes in memory."""
    job, out = kernel.job, kernel.step.outs[0]
    shape = out.type.shape
    every = {**chain_strides(job.after, shape), out: strides_within(out, shape)}
    return {buffer: own for buffer, own in every.items() if buffer not in job.locals}
