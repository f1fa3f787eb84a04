"""Programs that share the terms of the same sums: the last one to end adds up what all found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.kernels.last_arriver import last_program, load_shared
from afterglow.backends.cuda.tl import Pointer, Value
from afterglow.backends.cuda.tl.value import Shape


def share_of(
    kernel: Kernel, steps: int, splits: int, own: Value | None = None
) -> tuple[Value | int, Value | int]:
    """The iterations of a program: from the first, to before the last; of so many, or its own."""
    if splits == 1:
        return 0, steps if own is None else own
    code, each = kernel.code, -(-steps // splits)
    first = code.named(code.program(1) * each)
    end = first + each
    if own is None and steps % splits == 0:
        return first, code.named(end)
    return first, code.smaller(end, steps if own is None else own)


@contextmanager
def last_of(
    kernel: Kernel, sums: Sequence[Value], block: Value, blocks: int, splits: int
) -> Iterator[list[Value]]:
    """Statements for the program that ends last of those of a block, with the sums of all.

    They are added in the order of the programs, whichever ends last: runs give equal bits.
    """
    code, sizes = kernel.code, [math.prod(each.shape) for each in sums]
    room = sum(sizes)
    memory = kernel.scratch(0, sums[0].dtype).shifted(code.named(block * (splits * room)))
    own = memory.shifted(code.named(code.program(1) * room))
    places = [
        code.named(_places(kernel, each.shape) + sum(sizes[:number]))
        for number, each in enumerate(sums)
    ]
    for each, place in zip(sums, places, strict=True):
        own.store(each, place)
    with last_program(kernel, block, blocks, splits):
        yield [_all(memory, place, room, splits) for place in places]


def _all(memory: Pointer, place: Value, room: int, splits: int) -> Value:
    """What all programs found, in their order."""
    total = load_shared(memory, place)
    for share in range(1, splits):
        total = total + load_shared(memory, place + share * room)
    return total


def _places(kernel: Kernel, shape: Shape) -> Value:
    """The place of each number of a block, row by row."""
    code = kernel.code
    if len(shape) == 1:
        return code.range(shape[0])
    rows, columns = shape
    down, across = code.range(rows), code.range(columns)
    return code.along(down, 0, 2) * columns + code.along(across, 1, 2)
