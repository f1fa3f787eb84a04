"""Long sums in blocks: each block is summed up by itself, and then joins the total.

The rounding error of a sum grows with the number of its terms. With blocks it is that of a block
and of the few additions of blocks: about the same however long the sum is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Pointer, Value, equal

TERMS = 256
"""Terms of a block, about."""
FEW_TERMS = TERMS * 3 // 2
"""Terms up to which a sum is a single block."""


def block_size(indices: int, step: int = 1, terms: float = 1) -> int:
    """The number of indices in a block, given the terms that each adds: all if terms are few.

    Blocks are as even as whole steps allow.
    """
    if indices * terms <= FEW_TERMS:
        return max(1, indices)
    blocks = max(1, round(indices * terms / TERMS))
    even = -(-indices // blocks)
    return -(-even // step) * step


def sum_blocks(
    e: Emitter, blocks: Index, zeros: Sequence[Value], block: Callable[[Value], Sequence[Value]]
) -> list[Value]:
    """The sums of all blocks, given how to write the sums of the one with some number.

    There is at least one block. The total lies in memory, since registers are full while a block
    is summed up; of the last block it is added to what is in registers.
    """
    if blocks == 1:
        return list(block(e.index(0)))
    sizes = [zero.lanes for zero in zeros]
    total = e.scratch(zeros[0].dtype, sum(sizes))
    places = [total + start for start in (0, *accumulate(sizes[:-1]))]

    def step(number: Value, sums: list[Value]) -> Sequence[Value]:
        with e.when(equal(number, 1)):
            _store(places, sums)
        if not isinstance(blocks, int) or blocks > 2:
            with e.when(number > 1):
                _store(places, _added(places, sums))
        return block(number)

    sums = e.fold(blocks, zeros, step, name="block")
    if isinstance(blocks, int):
        return _added(places, sums)
    return e.branch(blocks > 1, lambda: _added(places, sums), lambda: sums)


def _store(places: Sequence[Pointer], sums: Sequence[Value]) -> None:
    for place, value in zip(places, sums, strict=True):
        place.store(value)


def _added(places: Sequence[Pointer], sums: Sequence[Value]) -> list[Value]:
    return [place.load(0, value.lanes) + value for place, value in zip(places, sums, strict=True)]
