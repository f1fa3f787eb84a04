"""Element-wise steps, alone, in stacks and behind products; moves and reductions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any, TypeAlias

from ember_chip.isa import SCRATCHPAD_BYTES, VECTOR_CYCLES, Instr, View, dense

from afterglow.instr import Buffer, Copy, OpInstr, Region
from ember_backend.emitter import KINDS, Emitter, Job, clipped, tiles

_FLAGS = {"and", "or", "not"}
_INTEGERS = {"add", "sub", "mul", "max", "min", "abs", "neg", "equal", "less", "less_equal"}
TILE = 32768
"""Bytes of a tile that is reduced."""
REDUCED = {"reduce_sum": ("add", 0.0), "reduce_max": ("max", -inf), "reduce_prod": ("mul", 1.0)}
"""What reductions combine by, and start from."""


@dataclass(eq=False)
class Temp:
    """A value of every element of a tile, in the scratchpad."""

    kind: str


Operand: TypeAlias = Buffer | Temp | float
"""A buffer is loaded from DRAM, in the shape of tiles."""


def distinct(buffer: Buffer, extents: Sequence[int]) -> list[int]:
    """The extents of what is loaded for a tile: what is broadcast is loaded once."""
    return [n if stride else 1 for n, stride in zip(extents, buffer.strides, strict=True)]


def is_vector(step: OpInstr) -> bool:
    """Whether a vector instruction has the name of an op, and computes with its elements."""
    name, kinds = step.op.mnemonic, [KINDS.get(b.type.dtype, "") for b in step.ins if b is not None]
    one = kinds[-1] if kinds and len({*kinds[name == "where" :]}) == 1 else ""
    if name in ("cast", "where"):
        return bool(one and one != "bf16" and KINDS.get(step.outs[0].type.dtype, "bf16") != "bf16")
    if one == "f32":
        return name in VECTOR_CYCLES.keys() - _FLAGS
    return name in {"bool": _FLAGS, "i32": _INTEGERS}.get(one, ())


class Pointwise:
    """Vector instructions that compute tiles of one shape, and what of it goes to DRAM."""

    def __init__(self, e: Emitter, shape: Sequence[int], sums: Temp | None = None) -> None:
        self.e, self.shape, self.sums = e, tuple(shape), sums
        self.steps: list[tuple[str, Temp, list[Operand]]] = []
        self.values: dict[Buffer, Operand] = {}
        """What buffers hold: results, numbers that are known, or elements in DRAM."""
        self.stored: dict[Buffer, Operand] = {}

    def add(self, step: OpInstr) -> bool:
        """Compute a step, if the vector unit can."""
        out = step.outs[0]
        if not is_vector(step) or out.type.shape != self.shape:
            return False
        ins = [self.operand(b) for b in step.required]
        if all(isinstance(x, float) for x in ins):  # of which type they are, only tiles tell
            ins = [b.broadcast(self.shape) for b in step.required]
        self.result(out, self.then(step.op.mnemonic, *ins, kind=KINDS[out.type.dtype]))
        return True

    def operand(self, buffer: Buffer) -> Operand:
        """What a buffer holds."""
        data, is_constant = buffer.root.data, buffer.region is Region.CONSTANT
        if buffer not in self.values and is_constant and buffer.type.size == 1:
            self.values[buffer] = float(data.reshape(-1)[buffer.start])
        return self.values.setdefault(buffer, buffer.broadcast(self.shape))

    def then(self, name: str, *ins: Operand, kind: str = "f32") -> Temp:
        """One more instruction."""
        self.steps.append((name, Temp(kind), list(ins)))
        return self.steps[-1][1]

    def result(self, out: Buffer, value: Temp) -> None:
        """A buffer holds a value now, which is stored unless the buffer is local."""
        self.values[out] = value
        if out.region is not Region.LOCAL:
            self.stored[out] = value

    def sources(self) -> list[Buffer]:
        """What is loaded, each once."""
        used = [x for _, _, ins in self.steps for x in ins] + [*self.stored.values()]
        return list(dict.fromkeys(x for x in used if isinstance(x, Buffer)))

    def registers(self) -> dict[Temp, int]:
        """A tile of the scratchpad for each value; one that is not needed any more is reused."""
        last = {x: index for index, (_, out, ins) in enumerate(self.steps) for x in (out, *ins)}
        found, free = {} if self.sums is None else {self.sums: 0}, list[int]()
        for index, (_, out, ins) in enumerate(self.steps):
            ended = (
                x for x in dict.fromkeys(ins) if last[x] == index and x not in self.stored.values()
            )
            free += [found[x] for x in ended if isinstance(x, Temp)]
            found[out] = free.pop() if free else len({*found.values()})
        return found

    def held(self) -> tuple[int, int]:
        """Bytes of the scratchpad for each element of two tiles, and for each column."""
        wide = [x for x in self.sources() if any(x.strides[:-1])]
        return 8 * (len({*self.registers().values()}) + len(wide)), 16 * len(self.sources())

    def layout(self, most: Sequence[int]) -> tuple[dict[Operand, int], int]:
        """Where values of tiles that are not larger go, and the bytes of one tile."""
        room, registers = -(-4 * prod(most) // 64) * 64, self.registers()
        places: dict[Operand, int] = {temp: n * room for temp, n in registers.items()}
        end = room * len({*registers.values()})
        for x in self.sources():
            size = x.type.dtype.itemsize * prod(distinct(x, most))
            places[x], end = end, end + -(-size // 64) * 64
        return places, end

    def job(self, starts: Any, extents: Any, place: int, places: dict[Operand, int]) -> Job:
        """The work on one tile, in the scratchpad from `place` on."""
        job, where, shape = Job(), dict[Operand, View](), tuple(extents)[-6:]
        for x, offset in places.items():
            if isinstance(x, Temp):
                where[x] = View(x.kind, shape, place + offset, dense(shape))
                continue
            dram = self.e.tile(x, starts, distinct(x, extents))
            inside = View(dram.dtype, dram.shape, place + offset, dense(dram.shape))
            job.loads.append((inside, dram))
            steps = zip(inside.strides, dram.strides, strict=True)
            where[x] = replace(inside, shape=shape, strides=tuple(i if s else 0 for i, s in steps))
        for name, out, ins in self.steps:
            operands = (x if isinstance(x, float) else where[x] for x in ins)
            job.work.append(Instr(f"v.{name}", (where[out], *operands)))
        for out, value in self.stored.items():
            job.stores.append((self.e.tile(out, starts, extents), where[value]))
        return job

    def jobs(self) -> Iterator[Job]:
        """Tile by tile, in two halves of the scratchpad."""
        most = SCRATCHPAD_BYTES // 8
        while 2 * self.layout(tiles(self.shape, most)[0])[1] > SCRATCHPAD_BYTES:
            most //= 2
        extents, starts = tiles(self.shape, most)
        places, room = self.layout(extents)
        for number, start in enumerate(starts):
            yield self.job(start, clipped(start, extents, self.shape), number % 2 * room, places)


def move(e: Emitter, copy: Copy) -> Iterator[Job]:
    """Copy elements, in whatever order they lie in DRAM."""
    work = Pointwise(e, copy.dest.type.shape)
    work.stored[copy.dest] = copy.src
    return work.jobs()


def reduce(e: Emitter, step: OpInstr) -> Iterator[Job]:
    """Combine along axes: tiles of what is kept, and inside of what is combined."""
    x, out, (name, begin) = step.operand(0), step.outs[0], REDUCED[step.op.mnemonic]
    axes = {axis % x.type.rank for axis in step.op.axes}
    kept = [axis for axis in range(x.type.rank) if axis not in axes]
    order, inner, slot = [*kept, *sorted(axes)], len(kept), 0
    shape = [x.type.shape[axis] for axis in order]
    x = x.along(shape, [x.strides[axis] for axis in order])
    steps = [out.strides[axis if step.op.keepdims else i] for i, axis in enumerate(kept)]
    kind, (most, starts) = KINDS[x.type.dtype], tiles(shape, TILE // 4)
    begin = max(begin, -(2.0**31)) if kind == "i32" else begin
    for number, start in enumerate(starts):
        extents, opens = tuple(clipped(start, most, shape)), not any(start[inner:])
        slot += opens
        tile = View(kind, extents, number % 2 * TILE, dense(extents))
        total = View(kind, extents[:inner], (2 + slot % 2) * TILE, dense(extents[:inner]))
        spread = replace(total, shape=extents, strides=total.strides + (0,) * len(axes))
        job = Job(loads=[(tile, e.tile(x, start, extents))])
        job.work += [Instr("v.copy", (total, begin))] * opens + [Instr(f"r.{name}", (spread, tile))]
        if clipped(start, shape, shape)[inner:] == [*extents[inner:]]:  # nothing is left
            result = out.along(shape[:inner], steps)
            job.stores.append((e.tile(result, start[:inner], extents[:inner]), total))
        yield job
