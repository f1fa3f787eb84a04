"""Tiles in DRAM, and transfers that are overlapped with what is computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

from ember_chip.isa import MOST_AXES, Instr, View

from afterglow.backends.blocks import Blocks
from afterglow.instr import Buffer
from afterglow.types.dtype import bf16, boolean, f32, i8, i32, u8

KINDS = {f32: "f32", i32: "i32", i8: "i8", u8: "u8", boolean: "bool", bf16: "bf16"}
"""Element types that the chip computes with."""
_MOVED = {1: "u8", 2: "bf16", 4: "i32", 8: "u64", 16: "u128"}
"""As what other elements are moved, by their bytes."""


@dataclass
class Job:
    """A tile of work: what is filled, loaded, computed and stored, in this order."""

    fills: list[Instr] = field(default_factory=list)
    loads: list[tuple[View, View]] = field(default_factory=list)
    work: list[Instr] = field(default_factory=list)
    stores: list[tuple[View, View]] = field(default_factory=list)


class Emitter:
    """The code of a program."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.code: list[Instr] = []
        self.queued = self.waited = 0

    def emit(self, name: str, *operands: View | float, **fields: int) -> None:
        """Add an instruction."""
        self.code.append(Instr(name, operands, tuple(fields.items())))

    def tile(self, buffer: Buffer, starts: Sequence[int], shape: Sequence[int]) -> View:
        """Elements of a buffer in DRAM, from a start on; the shape is of the last axes."""
        dtype, (base, place) = buffer.type.dtype, self.blocks.place(buffer)
        place += sum(i * s for i, s in zip(starts, buffer.strides, strict=True)) * dtype.itemsize
        last, kind = min(len(shape), MOST_AXES), KINDS.get(dtype) or _MOVED[dtype.itemsize]
        strides = buffer.strides[len(starts) - last :]
        return View(kind, tuple(shape[len(shape) - last :]), place, strides, base)

    def overlap(self, jobs: Iterable[Job]) -> None:
        """Queue the loads of each job before the work of the one before, and wait in between.

        The queue is in order: whoever waits for a job's loads waits for stores before them too.
        """
        todo = [*jobs, Job()]
        if any(job.fills for job in todo):
            self.wait(self.queued)
        ready = self._load(todo[0])
        for job, following in pairwise(todo):
            needed, ready = ready, self._load(following)
            self.wait(needed)
            self.code += job.work
            self._queue("store", job.stores)

    def wait(self, tag: int) -> None:
        """Wait for a transfer, unless that was done."""
        if tag > self.waited:
            self.emit("wait", tag=tag)
            self.waited = tag

    def _load(self, job: Job) -> int:
        self.code += job.fills
        self._queue("load", job.loads)
        return self.queued

    def _queue(self, name: str, transfers: Iterable[tuple[View, View]]) -> None:
        for target, source in transfers:
            self.queued += 1
            self.emit(name, target, source, tag=self.queued)


def tiles(shape: Sequence[int], most: int) -> tuple[list[int], list[tuple[int, ...]]]:
    """The extents of tiles of at most so many elements, and where they start, in order."""
    extents: list[int] = []
    for place, n in enumerate(reversed(shape)):
        extents.insert(0, max(1, min(n, most)) if place < MOST_AXES else 1)
        most = most // n if extents[0] == n else 1
    ranges = (range(0, n, extent) for n, extent in zip(shape, extents, strict=True))
    return extents, list(product(*ranges))


def clipped(start: Sequence[int], extents: Sequence[int], shape: Sequence[int]) -> list[int]:
    """The extents of a tile that begins somewhere, as far as the shape goes."""
    return [min(extent, n - i) for i, extent, n in zip(start, extents, shape, strict=True)]
