"""When instructions run: the sequencer, and the DMA engine beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ember_chip.isa import ARRAY, Instr, compute_cycles, multiplications, transfer_cycles


@dataclass
class Section:
    """The cycles between two marks, and what the units did meanwhile."""

    mark: int
    cycles: int = 0
    products: int = 0
    array: int = 0
    vector: int = 0
    dma: int = 0

    @property
    def utilisation(self) -> float:
        """Products that the array formed, of those that it could have formed."""
        return self.products / (ARRAY * ARRAY * self.cycles) if self.cycles else 0.0


@dataclass
class Clock:
    """Counts cycles: computing takes the sequencer's time, transfers only that of the engine."""

    now: int = 0
    engine_free: int = 0
    finished: dict[int, int] = field(default_factory=dict)
    """When transfers are done, by their tags."""
    sections: list[Section] = field(default_factory=lambda: [Section(-1)])

    def tick(self, instr: Instr) -> None:
        """Let an instruction take its time."""
        section, start = self.sections[-1], self.now
        match instr.name:
            case "load" | "store":
                cycles = transfer_cycles(instr.tiles[instr.name == "load"])
                self.engine_free = max(self.engine_free, self.now) + cycles
                self.finished[instr.field("tag")] = self.engine_free
                self.now += 1
                section.dma += cycles
            case "wait":
                self.now = max(self.now + 1, self.finished[instr.field("tag")])
            case "host":
                self.now = max(self.now, self.engine_free)
            case "mark":
                self.sections.append(Section(instr.field("step")))
            case name:
                cycles = compute_cycles(instr)
                self.now += cycles
                section.products += multiplications(instr)
                if name.startswith("mm"):
                    section.array += cycles
                else:
                    section.vector += cycles
        section.cycles += self.now - start

    def finish(self) -> Section:
        """The whole run, once the engine is idle."""
        self.sections[-1].cycles += max(self.engine_free - self.now, 0)
        self.now = max(self.now, self.engine_free)
        parts = self.sections
        return Section(
            -1,
            self.now,
            sum(part.products for part in parts),
            sum(part.array for part in parts),
            sum(part.vector for part in parts),
            sum(part.dma for part in parts),
        )


def measure(program: Iterable[Instr]) -> tuple[Section, list[Section]]:
    """The cycles of a program, and those of its sections, without running it."""
    clock = Clock()
    for instr in program:
        clock.tick(instr)
    return clock.finish(), clock.sections


def one_by_one(program: Iterable[Instr]) -> Iterator[Instr]:
    """The same program, waiting for each transfer before anything else is done."""
    for instr in program:
        yield instr
        if instr.name in ("load", "store"):
            yield Instr("wait", (), instr.fields)
