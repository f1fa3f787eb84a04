"""How long a product takes in tiles, about: seconds, from measurements on an H200.

A program goes through a chain: it begins, its first operands arrive, then each iteration takes
the time of a load divided by the loads on their way, or that of asking for it and multiplying, then
the epilogue. Programs that a multiprocessor holds at once go through their chains side by side,
until its arithmetic, its way to the cache or the memory is busy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from afterglow.backends.cuda.kernels.tile import (
    IEEE,
    MOST_REGISTERS,
    PARTIALS,
    REGISTERS,
    SUM_BYTES,
    Extents,
    Tile,
)
from afterglow.backends.cuda.target import CudaTarget
from afterglow.support.lazy_dataclass import dataclass

LAUNCH = 1.0e-6
"""A kernel in a graph that does nothing."""
BEGIN, END = 0.8e-6, 0.4e-6
"""Until the first operands are there; after the last product, until results are written."""
READ_MORE = 0.3e-6
"""Longer, where the epilogue reads as many elements as it writes."""
LOAD = 0.5e-6
"""From asking for a block until it was multiplied."""
STEP, ISSUE = 0.02e-6, 6e-9
"""An iteration of a program that waits for nothing, and each vector that a thread asks for."""
SHARING, SHARE = 0.55e-6, 0.09e-6
"""What programs that share terms take longer, and for each of them."""
CACHE_RATE = 100e9
"""Bytes a second that one multiprocessor gets from the cache while all ask for some."""
ALONE_RATE = 160e9
"""The same, if others ask for none."""
RESULT_RATE, WARP_RESULT_RATE = 23e9, 9.6e9
"""Bytes a second that epilogues of a multiprocessor read and write, and those of a warp alone."""
WIDE, NARROW = 0.87, 0.16
"""The part of the peak of tensor cores that loops reach, by groups of warps or single ones."""
PLAIN = 0.5
"""The part of the peak that loops reach without tensor cores."""
LIGHT = 8
"""Operations on a result behind the product that the rates of epilogues cover."""
MEMORY = 0.85
"""The part of the bandwidth of the memory that is reached."""
SLOWEST = 6.0
"""How many times longer reading takes an element at a time, than by whole vectors."""
VECTOR = 16
"""Bytes that a thread reads at once at best."""
WARP, WARPS = 32, 64
"""Threads of a warp; warps of a multiprocessor."""
REGISTER_BYTES = 4
OTHER_REGISTERS = 64
"""Registers of a thread besides sums."""
UNPACKED_TERMS = 32
"""Terms of stored matrices that are multiplied at once: those of f32 are in registers."""


@dataclass(frozen=True)
class Work:
    """What a product is, as far as its time depends on that."""

    extents: Extents
    unit: int
    """Terms that are in one piece: all, or the channels at one place."""
    steps: Callable[[int], int]
    """Iterations, in blocks of so many terms."""
    bytes: tuple[int, float]
    """Of an element of the left operand, and of the right one, as they are read."""
    moved: int
    """Bytes of all that is read and written."""
    read_more: int = 0
    """Bytes that the epilogue reads for each result, besides what it reads for all."""
    vector: int = VECTOR
    """Bytes of the left operand that are read at once."""
    line: int = 0
    """Terms of each block, if they cannot be chosen."""
    least_terms: int = 16
    """Terms of the smallest block."""
    packs: Callable[[int], int] = lambda terms: 0
    """Bytes that the right operand takes if it is read from a copy; 0 if it is not."""
    right: int = 0
    """Bytes of the right operand."""
    operations: int = 0
    """Of the epilogue on each result."""
    unpacking: int = 0
    """Operations on each element of the right operand before it is multiplied."""

    @property
    def is_single(self) -> bool:
        """Whether it multiplies f32."""
        return self.bytes[0] == 4


def block_bytes(tile: Tile, work: Work) -> int:
    """The operands of an iteration."""
    left, right = work.bytes
    return int(tile.terms * (tile.rows * left + tile.columns * right))


def shared_bytes(tile: Tile, work: Work) -> int:
    """Shared memory of a program, about: operands on their way, or sums that change threads."""
    unpacked = tile.terms * tile.columns * work.bytes[0] if work.unpacking else 0
    return max(tile.stages * block_bytes(tile, work) + unpacked, tile.rows * tile.columns * 4)


def registers(tile: Tile, work: Work) -> int:
    """Registers of a thread, about."""
    results = tile.rows * tile.columns // (tile.warps * WARP)
    early = results * work.read_more // REGISTER_BYTES if tile.early else 0
    factors = 0
    if work.unpacking and work.is_single:
        factors = int(2 * UNPACKED_TERMS * math.sqrt(results))
    return results + early + factors + OTHER_REGISTERS


def fits(tile: Tile, work: Work, target: CudaTarget) -> bool:
    """Whether a program has the memory that it needs."""
    return (
        shared_bytes(tile, work) <= target.shared_bytes and registers(tile, work) <= MOST_REGISTERS
    )


def seconds(tile: Tile, work: Work, target: CudaTarget) -> float:
    """The time of a kernel."""
    programs = tile.blocks(work.extents) * tile.splits
    steps = -(-work.steps(tile.terms) // tile.splits)
    end = _end(tile, work, target)
    chain = BEGIN + max(0, steps - 1) * _step_alone(tile, work, target) + end
    together = _together(tile, work, target)
    waves = -(-programs // (target.units * together))
    each = -(-programs // target.units)
    results = tile.rows * tile.columns * (work.bytes[0] + work.read_more)
    busy = each * (steps * _iteration(tile, work, target) + results / RESULT_RATE)
    after = each * _operating(tile, work, target)
    # tensor cores go on for another program meanwhile, if there is one
    busy = busy + after if together == 1 else max(busy, after)
    memory = work.moved / (target.bandwidth * MEMORY)
    return LAUNCH + max(waves * chain, max(busy, memory) + BEGIN + end)


def _step_alone(tile: Tile, work: Work, target: CudaTarget) -> float:
    """The time from one iteration of a program to its next one, if others leave it alone."""
    waiting = LOAD / max(1, tile.stages - 1)
    arriving = block_bytes(tile, work) / ALONE_RATE
    asked = (block_bytes(tile, work) + _slow_bytes(tile, work)) / VECTOR
    asking = ISSUE * asked / (tile.warps * WARP)
    return max(waiting, arriving, STEP + asking + _arithmetic(tile, work, target))


def _end(tile: Tile, work: Work, target: CudaTarget) -> float:
    """The time of an epilogue, and of sums that are shared: all programs write them at once."""
    late = work.read_more if not tile.early else 0
    results = tile.rows * tile.columns * (work.bytes[0] + late)
    partials = _partial_bytes(tile, work) / (target.bandwidth * MEMORY)
    own = END + (READ_MORE if late else 0) + results / (tile.warps * WARP_RESULT_RATE)
    own += _operating(tile, work, target)
    return own + _sharing(tile) + partials


def _operating(tile: Tile, work: Work, target: CudaTarget) -> float:
    """The time of the operations of an epilogue on a multiprocessor; rates count two in each."""
    operations = tile.rows * tile.columns * max(0, work.operations - LIGHT)
    return 2 * operations * target.units / target.flops


def _sharing(tile: Tile) -> float:
    """The time of writing shares, and of the last program, which reads all of them."""
    if tile.splits == 1:
        return 0.0
    size = tile.rows * tile.columns * SUM_BYTES
    written, read = size / CACHE_RATE, size / ALONE_RATE
    return SHARING + written + tile.splits * (SHARE + read)


def _partial_bytes(tile: Tile, work: Work) -> int:
    return 2 * tile.plan(work.extents, 0).workspace.get(PARTIALS, 0)


def _iteration(tile: Tile, work: Work, target: CudaTarget) -> float:
    """The time of an iteration on a multiprocessor that has enough to do."""
    asked = block_bytes(tile, work) + _slow_bytes(tile, work)
    return max(_arithmetic(tile, work, target), asked / CACHE_RATE)


def _arithmetic(tile: Tile, work: Work, target: CudaTarget) -> float:
    """The time of the products of an iteration on a multiprocessor."""
    flops = 2.0 * tile.rows * tile.columns * tile.terms
    unpacking = 2.0 * tile.columns * tile.terms * work.unpacking / target.flops
    return (flops / _rate(tile, work, target) + unpacking) * target.units


def _slow_bytes(tile: Tile, work: Work) -> float:
    """Bytes that whole vectors would read in the time that narrow ones take longer."""
    slow = min(SLOWEST, VECTOR / work.vector) - 1
    return slow * tile.rows * tile.terms * work.bytes[0]


def _rate(tile: Tile, work: Work, target: CudaTarget) -> float:
    """Operations a second of all multiprocessors."""
    if work.is_single and tile.precision == IEEE:
        return PLAIN * target.flops
    by_groups = tile.rows >= 64 and tile.warps % 4 == 0
    reached = target.tensor_flops * (WIDE if by_groups else NARROW)
    scale = 2.0 / work.bytes[0]
    return reached * scale / (3 if work.is_single and tile.precision == "tf32x3" else 1)


def _together(tile: Tile, work: Work, target: CudaTarget) -> int:
    """Programs that a multiprocessor holds at once."""
    by_shared = target.shared_bytes // max(shared_bytes(tile, work), 1)
    by_registers = REGISTERS // (registers(tile, work) * WARP * tile.warps)
    return max(1, min(by_shared, by_registers, WARPS // tile.warps))
