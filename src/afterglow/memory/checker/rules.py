"""The rules, and the walk through a program that checks them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from afterglow.memory.checker.places import (
    Access,
    Buffer,
    Place,
    dense_strides,
    window_layout,
)
from afterglow.memory.checker.ranges import dimensions_of, runs_of, with_numbers
from afterglow.memory.checker.reader import (
    Declaration,
    Free,
    Header,
    Mark,
    Run,
    Statement,
    Unreadable,
    View,
    Wait,
    read_statements,
)

_PREFETCH = "prefetch"
_WIDEST_ALIGNMENT = 8
"""Complex numbers are aligned as their halves are."""


@dataclass(frozen=True)
class Finding:
    """What is wrong, and in which line of the text."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


def check_plan(text: str) -> list[Finding]:
    """Everything that is wrong with a planned program; nothing means that it is proved right.

    One for ranges is checked as it is in a few runs, until something is wrong in one.
    """
    dimensions = dimensions_of(text)
    if not dimensions:
        return _Checker(list(read_statements(text))).run()
    for run in runs_of(dimensions):
        findings = _Checker(list(read_statements(with_numbers(text, run)))).run()
        if findings:
            extents = ", ".join(f"{name} = {extent}" for name, extent in run.items())
            return [Finding(each.line, f"with {extents}: {each.text}") for each in findings]
    return []


@dataclass
class _Flight:
    """A transfer that has begun: nobody may touch where it goes, or change where it comes from."""

    line: int
    dests: list[Place]
    sources: list[Place]

    def forbids(self, access: Access) -> bool:
        """Whether an instruction may not do this before the transfer has ended."""
        taken = [*self.dests, *self.sources] if access.writes else self.dests
        return any(access.place.meets(place) for place in taken)


@dataclass
class _Stack:
    """A stack that is open."""

    locals: list[Buffer] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    members: int = 0


class _Checker:
    """Walks through the statements, keeping what is live and what is written."""

    def __init__(self, statements: Sequence[tuple[int, Statement]]) -> None:
        self.statements = statements
        self.units = _units(statement for _, statement in statements)
        self.findings: list[Finding] = []
        self.line = 0
        self.memories: dict[str, int] = {}
        self.buffers: dict[str, Buffer] = {}
        self.places: dict[str, Place | None] = {}
        self.live: dict[Buffer, None] = {}
        self.flights: list[_Flight] = []
        self.stack: _Stack | None = None
        self.closed = False

    def run(self) -> list[Finding]:
        for line, statement in self.statements:
            self.line = line
            if self.closed:
                self._report("this stands after the end of the program")
                break
            self._see(statement)
        self._finish()
        return self.findings

    def _report(self, text: str) -> None:
        self.findings.append(Finding(self.line, text))

    def _see(self, statement: Statement) -> None:
        match statement:
            case Header(memories):
                self.memories.update(memories)
            case Declaration():
                self._declare(statement)
            case View():
                self._claim(statement.name, self._view(statement))
            case Free(name):
                self._free(name)
            case Wait(names):
                self._wait(names)
            case Run():
                self._run(statement)
            case Mark(opens, scratch):
                self._mark(opens, scratch)
            case Unreadable(text):
                self._report(f"this line is not understood: {text}")

    def _finish(self) -> None:
        for buffer in self.live:
            self._report(f"{buffer.name} is never freed")
        for flight in self.flights:
            self._report(f"nobody waits for the transfer that began in line {flight.line}")
        for buffer in self.buffers.values():
            gap = buffer.written.gap(buffer.place().extent)
            if buffer.kind == "output" and gap is not None:
                self._report(f"output {buffer.name} is not written{_where(buffer, gap)}")
        if not self.closed:
            self._report("the program has no end")

    def _claim(self, name: str, place: Place | None) -> bool:
        if name in self.places:
            self._report(f"{name} is declared twice")
            return False
        self.places[name] = place
        return True

    def _declare(self, declared: Declaration) -> None:
        buffer = Buffer(declared, self.units[declared.name])
        if not self._claim(buffer.name, buffer.place()):
            return
        self.buffers[buffer.name] = buffer
        if buffer.kind == "alloc":
            self._allocate(buffer)
        elif buffer.kind == "local":
            self._hide(buffer)

    def _allocate(self, buffer: Buffer) -> None:
        name, memory = buffer.name, buffer.memory
        start, end = buffer.addresses()
        if buffer.address is None:
            self._report(f"{name} has no address")
        elif memory not in self.memories:
            self._report(f"{name} lies in an arena that is not declared")
        elif end > self.memories[memory]:
            size = self.memories[memory]
            self._report(f"{name} takes bytes {start} to {end} of an arena of {size}")
        if start % min(buffer.form.element_bytes, _WIDEST_ALIGNMENT):
            self._report(f"{name} at {start} is not aligned to its elements")
        for other in self.live:
            low, high = other.addresses()
            if memory == other.memory and max(start, low) < min(end, high):
                self._report(f"{name} at {start} overlaps {other.name}, which is live at {low}")
        self.live[buffer] = None

    def _hide(self, buffer: Buffer) -> None:
        if self.stack is None:
            self._report(f"{buffer.name} is local, but not in a stack")
        else:
            self.stack.locals.append(buffer)
        if buffer.address is not None:
            self._report(f"{buffer.name} is local, but has an address")

    def _view(self, view: View) -> Place | None:
        """Where a view lies, if that makes sense."""
        buffer = self.buffers.get(view.of)
        if buffer is None:
            self._report(f"{view.of} is not declared")
            return None
        layout = view.layout or (0, dense_strides(view.form.shape))
        if view.window is not None:
            layout = window_layout(view.window, view.form.shape, buffer.form.shape) or (0, ())
        start, strides = layout
        if len(strides) != len(view.form.shape):
            self._report(f"what {view.name} takes of {view.of} does not have its shape")
            return None
        place = Place.of(view.name, buffer, view.form, start, strides)
        extent, unit = place.extent, buffer.unit
        if extent.start < 0 or extent.end > buffer.written.size:
            self._report(
                f"{view.name} takes bytes {extent.start * unit} to {extent.end * unit} "
                f"of {view.of}, which has {buffer.form.nbytes}"
            )
            return None
        return place

    def _free(self, name: str) -> None:
        place = self.places.get(name)
        if place is not None and name not in self.buffers:  # a view: it holds nothing any more
            place.buffer.written.remove(place.extent)
            return
        buffer = self.buffers.get(name)
        if buffer is None or buffer not in self.live:
            self._report(f"{name} is freed, but it is not live")
            return
        if any(flight.forbids(Access("out", buffer.place(), 0)) for flight in self.flights):
            self._report(f"{name} is freed while a transfer needs it")
        del self.live[buffer]
        buffer.ended = "after it was freed"

    def _wait(self, names: Sequence[str]) -> None:
        for name in names:
            flight = next((f for f in self.flights if any(d.name == name for d in f.dests)), None)
            if flight is None:
                self._report(f"{name} is waited for, but no transfer goes there")
                continue
            self.flights.remove(flight)
            for dest in flight.dests:
                dest.buffer.written.add(dest.extent)

    def _mark(self, opens: bool, scratch: Sequence[str]) -> None:
        if opens and self.stack is not None:
            self._report("a stack cannot hold a stack")
        elif opens:
            self.stack = _Stack()
            if scratch:
                self._run(Run("stack", tuple(("scratch", name) for name in scratch)))
        elif self.stack is not None:
            self._check_together(self.stack.accesses)
            for buffer in self.stack.locals:
                buffer.ended = "outside its stack"
            self.stack = None
        else:
            self.closed = True

    def _run(self, step: Run) -> None:
        member = self.stack.members if self.stack else 0
        places = [(word, self._operand(name)) for word, name in step.operands]
        accesses = [Access(word, place, member) for word, place in places if place is not None]
        for access in accesses:
            self._check(access)
        for access in accesses:
            self._record(access, lasting=step.word != _PREFETCH)
        if step.word == _PREFETCH:
            dests = [access.place for access in accesses if access.writes]
            sources = [access.place for access in accesses if not access.writes]
            self.flights.append(_Flight(self.line, dests, sources))
        if self.stack is None:
            self._check_together(accesses)
        else:
            self.stack.accesses.extend(accesses)
            self.stack.members += 1

    def _operand(self, name: str) -> Place | None:
        place = self.places.get(name)
        if name not in self.places:
            self._report(f"{name} is not declared")
        elif place is not None and place.buffer.ended:
            self._report(f"{name} is used {place.buffer.ended}")
            return None
        return place

    def _check(self, access: Access) -> None:
        place, buffer = access.place, access.place.buffer
        if access.writes and buffer.is_read_only:
            self._report(f"{place.name} is written, but it is {buffer.kind} memory")
        gap = buffer.written.gap(place.extent) if access.reads else None
        if gap is not None:
            self._report(f"{place.name} is read before it is written{_where(buffer, gap)}")
            buffer.written.add(place.extent)  # say it once
        if any(flight.forbids(access) for flight in self.flights):
            self._report(f"{place.name} is used while a transfer needs it")

    def _record(self, access: Access, *, lasting: bool) -> None:
        """What an access leaves in memory: what is asked for in advance is not there yet."""
        if access.writes and access.word != "scratch" and lasting:
            access.place.buffer.written.add(access.place.extent)
        elif access.writes:
            access.place.buffer.written.remove(access.place.extent)

    def _check_together(self, accesses: Sequence[Access]) -> None:
        """Rule 7, for what one instruction or one stack does."""
        by_buffer: dict[Buffer, list[Access]] = {}
        for access in accesses:
            by_buffer.setdefault(access.place.buffer, []).append(access)
        for together in by_buffer.values():
            for pair in combinations(together, 2):
                self._check_pair(*pair)

    def _check_pair(self, one: Access, other: Access) -> None:
        for written, used in ((one, other), (other, one)):
            if written.disturbs(used):
                names = f"{written.place.name} is written while {used.place.name}"
                self._report(f"{names}, which shares memory with it, is used")
                return


def _where(buffer: Buffer, gap: int) -> str:
    """Which element is missing, unless it is the first, and so perhaps all."""
    if not gap:
        return ""
    return f": element {gap * buffer.unit // buffer.form.element_bytes} of {buffer.name} is not"


def _units(statements: Iterable[Statement]) -> dict[str, int]:
    """The bytes of the narrowest element in which each buffer is seen."""
    units: dict[str, int] = {}
    for statement in statements:
        match statement:
            case Declaration(_, name, form) | View(_, name, form):
                units[name] = min(units.get(name, form.element_bytes), form.element_bytes)
    return units
