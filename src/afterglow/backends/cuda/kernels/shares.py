"""Programs that share the terms of the same sums: the last one to end adds up what all found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.tl import Pointer, Value
from afterglow.backends.cuda.tl.value import Shape

FROM_L2 = ', cache_modifier=".cg"'
"""What other multiprocessors wrote is not in the cache of this one."""


def share_of(kernel: Kernel, steps: int, splits: int) -> tuple[Value | int, Value | int]:
    """The iterations of a program: from the first, to before the last."""
    if splits == 1:
        return 0, steps
    code, each = kernel.code, -(-steps // splits)
    first = code.named(code.program(1) * each)
    end = first + each
    return first, code.named(end) if steps % splits == 0 else code.smaller(end, steps)


@contextmanager
def last_of(
    kernel: Kernel, sums: Sequence[Value], block: Value, blocks: int, splits: int
) -> Iterator[list[Value]]:
    """Statements for the program that ends last of those of a block, with the sums of all.

    They are added in the order of the programs, whichever ends last: runs give equal bits.
    """
    code, room = kernel.code, sum(_size(each.shape) for each in sums)
    counters = kernel.counters(blocks)
    first = code.named(block * (splits * room))
    memory = kernel.scratch(0, sums[0].dtype).shifted(first)
    own = memory.shifted(code.program(1) * room)
    starts = [sum(_size(each.shape) for each in sums[:n]) for n in range(len(sums))]
    places = [_places(kernel, each.shape) for each in sums]
    for each, place, start in zip(sums, places, starts, strict=True):
        own.store(each, place + start)
    code.perform("tl.debug_barrier()")
    ended = code.fresh("ended")
    code.perform(
        f'{ended} = tl.atomic_add({counters.name} + {block.text}, 1, sem="acq_rel")'
    )
    with code.block(f"if {ended} == {splits - 1}:"):
        totals = [
            _all(memory, place + start, room, splits)
            for place, start in zip(places, starts, strict=True)
        ]
        counters.store(code.constant(counters.dtype, 0), block)
        yield totals


def _all(memory: Pointer, place: Value, room: int, splits: int) -> Value:
    total = memory.load(place, options=FROM_L2)
    for share in range(1, splits):
        total = total + memory.load(place + share * room, options=FROM_L2)
    return total


def _places(kernel: Kernel, shape: Shape) -> Value:
    """The place of each number of a block, row by row."""
    code = kernel.code
    if len(shape) == 1:
        return code.range(shape[0])
    rows, columns = shape
    down, across = code.range(rows), code.range(columns)
    return code.named(code.along(down, 0, 2) * columns + code.along(across, 1, 2))


def _size(shape: Shape) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size
