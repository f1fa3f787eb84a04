"""The functions that run a program: alone, or with the caller's own threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    select,
)
from afterglow.backends.cpu.llvm.types import POINTER
from afterglow.backends.cpu.threads.team import run_alone
from afterglow.runtime.native.convention import ALARMS, ALIGNMENT, ARENA, CONSTANTS, FIRST_OTHER
from afterglow.runtime.native.status import Status
from afterglow.types.dtype import boolean, i32, i64, u8

_MAIN = FunctionSymbol("main_0", "void", (POINTER, POINTER))


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

    def write_run(self) -> FunctionSymbol:
        """`NAME_run(io, arena, weights)`: the calling thread does it all."""
        with self.module.function(f"{self.prefix}_run") as e:
            io, arena = e.pointer("io", e.index_type), e.pointer("arena", u8)
            weights = self.weights.parameter(e)
            main, scratch = e.address_of(_MAIN, u8), self.layout.planned
            status = self._checked_run(
                *(e, io, arena, weights, []),
                lambda bases: run_alone(e, main, bases, arena + scratch),
            )
            e.return_(status)
        return e.function

    def write_run_team(self) -> FunctionSymbol:
        """`NAME_run_team(io, arena, weights, team)`: each step is handed to the team."""
        with self.module.function(f"{self.prefix}_run_team") as e:
            io, arena = e.pointer("io", e.index_type), e.pointer("arena", u8)
            weights, team = self.weights.parameter(e), e.pointer("team", e.index_type)
            status = self._checked_run(
                *(e, io, arena, weights, [team]), lambda bases: e.run(_MAIN, bases, team)
            )
            e.return_(status)
        return e.function

    def _checked_run(
        self,
        e: Emitter,
        io: Pointer,
        arena: Pointer,
        weights: Pointer,
        others: list[Pointer],
        run: Callable[[Pointer], None],
    ) -> Value:
        """Run if all pointers are as they should be; the status says which are not."""
        needed = [arena] if self.weights.embedded else [arena, weights]
        missing = e.is_null(io)
        for pointer in (*needed, *others):
            missing = missing | e.is_null(pointer)
        missing = e.branch(
            missing, lambda: [e.constant(boolean, 1)], lambda: [self._port_is_missing(e, io)]
        )[0]
        askew = e.index(0)
        for pointer in needed:
            askew = askew | e.number_of(pointer)
        status = e.branch(
            missing,
            lambda: [e.constant(i32, Status.NULL)],
            lambda: e.branch(
                differ(askew & (ALIGNMENT - 1), e.index(0)),
                lambda: [e.constant(i32, Status.ALIGNMENT)],
                lambda: [e.constant(i32, Status.OK)],
            ),
        )[0]
        bases = e.scratch(e.index_type, FIRST_OTHER + self.ports, align=16)
        if self.has_main:
            with e.when(equal(status, e.constant(i32, Status.OK)), likely=True):
                self._fill_bases(e, bases, io, arena, weights)
                run(bases)
        return status if not self.layout.alarms else self._with_alarm(e, status, arena)

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
        self, e: Emitter, bases: Pointer, io: Pointer, arena: Pointer, weights: Pointer
    ) -> None:
        e.store_pointer(bases, ARENA, arena)
        e.store_pointer(bases, CONSTANTS, weights)
        if self.layout.alarms:
            alarms = self._alarms(arena)
            e.store_pointer(bases, ALARMS, alarms)
            with e.loop(self.layout.alarms // i64.itemsize) as word:
                alarms.store(e.constant(i64, 0), word)
        with e.loop(self.ports) as port:
            pointer = e.load_pointer(io, port, u8)
            e.store_pointer(bases + FIRST_OTHER, port, pointer)
