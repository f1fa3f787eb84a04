"""The functions that run a program: alone, or with the caller's own threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from afterglow.backends.cpu.bundle.code import ArenaLayout
from afterglow.backends.cpu.bundle.weights import Weights
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    FunctionSymbol,
    Module,
    Pointer,
    Value,
    differ,
    equal,
    remainder,
    select,
)
from afterglow.backends.cpu.llvm.types import POINTER
from afterglow.backends.cpu.threads.team import run_alone
from afterglow.runtime.native.convention import (
    ALARMS,
    ALIGNMENT,
    ARENA,
    CONSTANTS,
    EXTENTS,
    FIRST_OTHER,
)
from afterglow.runtime.native.status import Status
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import boolean, i32, i64, u8
from afterglow.types.extent import Dim

_MAIN = FunctionSymbol("main_0", "void", (POINTER, POINTER))


@dataclass(frozen=True)
class Given:
    """What the caller of a run passes; of a program without dimensions there are no extents."""

    io: Pointer
    arena: Pointer
    weights: Pointer
    extents: Pointer | None


@dataclass(frozen=True)
class EntryWriter:
    """Writes the public functions of one program into the module of its main function."""

    module: Module
    prefix: str
    ports: int
    """How many inputs, outputs and states there are."""
    layout: ArenaLayout
    weights: Weights
    has_main: bool
    """Whether there is anything to do."""
    dims: Sequence[Dim] = ()
    """The dimensions whose extents a run is given, in order."""

    def write_run(self) -> FunctionSymbol:
        """`NAME_run(io, arena, weights, extents)`: the calling thread does it all."""
        with self.module.function(f"{self.prefix}_run") as e:
            given = self._parameters(e)
            main, scratch = e.address_of(_MAIN, u8), given.arena + self.layout.planned
            status = self._checked_run(
                e, given, [], lambda bases: run_alone(e, main, bases, scratch)
            )
            e.return_(status)
        return e.function

    def write_run_team(self) -> FunctionSymbol:
        """`NAME_run_team(io, arena, weights, extents, team)`: the team gets each step."""
        with self.module.function(f"{self.prefix}_run_team") as e:
            given, team = self._parameters(e), e.pointer("team", e.index_type)
            status = self._checked_run(e, given, [team], lambda bases: e.run(_MAIN, bases, team))
            e.return_(status)
        return e.function

    def _parameters(self, e: Emitter) -> Given:
        io, arena = e.pointer("io", e.index_type), e.pointer("arena", u8)
        weights = self.weights.parameter(e)
        return Given(io, arena, weights, e.pointer("extents", i64) if self.dims else None)

    def _checked_run(
        self, e: Emitter, given: Given, others: list[Pointer], run: Callable[[Pointer], None]
    ) -> Value:
        """Run if pointers and extents are as they should be; the status says what is not."""
        extents = e.scratch(i64, len(self.dims), align=16) if self.dims else None
        status = self._checked(e, given, others, extents)
        bases = e.scratch(e.index_type, FIRST_OTHER + self.ports, align=16)
        if self.has_main:
            with e.when(equal(status, e.constant(i32, Status.OK)), likely=True):
                self._fill_bases(e, bases, given, extents)
                run(bases)
        return status if not self.layout.alarms else self._with_alarm(e, status, given.arena)

    def _checked(
        self, e: Emitter, given: Given, others: list[Pointer], extents: Pointer | None
    ) -> Value:
        """The status of what is given, of which the extents are copied."""
        io, needed = given.io, [given.arena]
        if not self.weights.embedded:
            needed.append(given.weights)
        missing = e.is_null(io)
        for pointer in (*needed, *others, *([given.extents] if given.extents else [])):
            missing = missing | e.is_null(pointer)
        missing = e.branch(
            missing, lambda: [e.constant(boolean, 1)], lambda: [self._port_is_missing(e, io)]
        )[0]
        askew = e.index(0)
        for pointer in needed:
            askew = askew | e.number_of(pointer)
        return e.branch(
            missing,
            lambda: [e.constant(i32, Status.NULL)],
            lambda: e.branch(
                differ(askew & (ALIGNMENT - 1), e.index(0)),
                lambda: [e.constant(i32, Status.ALIGNMENT)],
                lambda: [self._take_extents(e, given.extents, extents)],
            ),
        )[0]

    def _take_extents(self, e: Emitter, given: Pointer | None, copy: Pointer | None) -> Value:
        """Copy the extents, so that nobody changes them during the run; whether they are valid."""
        if given is None or copy is None:
            return e.constant(i32, Status.OK)
        valid = e.constant(boolean, 1)
        for place, dim in enumerate(self.dims):
            extent = given.load(place)
            copy.store(extent, place)
            valid = valid & (extent >= dim.low) & (extent <= dim.high)
            if dim.step > 1:
                valid = valid & equal(remainder(extent, dim.step), extent.like(0))
        return select(valid, e.constant(i32, Status.OK), e.constant(i32, Status.EXTENT))

    def _with_alarm(self, e: Emitter, status: Value, arena: Pointer) -> Value:
        """The status of a run after which one looks whether an index was out of range."""

        def looked() -> list[Value]:
            raised = self._alarms(arena).load()
            bad, good = e.constant(i32, Status.INDEX), e.constant(i32, Status.OK)
            return [select(differ(raised, raised.like(0)), bad, good)]

        return e.branch(equal(status, e.constant(i32, Status.OK)), looked, lambda: [status])[0]

    def _alarms(self, arena: Pointer) -> Pointer:
        return (arena + self.layout.before_alarms).cast(i64).aligned(ALIGNMENT)

    def _port_is_missing(self, e: Emitter, io: Pointer) -> Value:
        def ask(index: Value, state: list[Value]) -> list[Value]:
            return [state[0] | e.is_null(e.load_pointer(io, index, u8))]

        return e.fold(self.ports, [e.constant(boolean, 0)], ask)[0]

    def _fill_bases(
        self, e: Emitter, bases: Pointer, given: Given, extents: Pointer | None
    ) -> None:
        e.store_pointer(bases, ARENA, given.arena)
        e.store_pointer(bases, CONSTANTS, given.weights)
        if extents is not None:
            e.store_pointer(bases, EXTENTS, extents)
        if self.layout.alarms:
            alarms = self._alarms(given.arena)
            e.store_pointer(bases, ALARMS, alarms)
            with e.loop(self.layout.alarms // i64.itemsize) as word:
                alarms.store(e.constant(i64, 0), word)
        with e.loop(self.ports) as port:
            pointer = e.load_pointer(given.io, port, u8)
            e.store_pointer(bases + FIRST_OTHER, port, pointer)
