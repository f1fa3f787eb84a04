"""Calls of kernels: their arguments, the steps that they are grouped in, and the code of steps.

The memory of a run is given by the *buffer table*: the addresses (*bases*) of the arena, the
constants, then each input, output and state. A *step* finds its operands there and calls kernels
for some units of their work.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import field
from itertools import accumulate, groupby

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    FunctionSymbol,
    Module,
    Pointer,
    Value,
    convert,
    larger,
    quotient,
    smaller,
)
from afterglow.backends.cpu.llvm.types import POINTER, mangle
from afterglow.backends.cpu.micro.cost import CHUNK
from afterglow.backends.cpu.micro.kernel import KernelFunction
from afterglow.instr import Instr
from afterglow.runtime.native.convention import (
    CHUNKS_OF_SHARE,
    EXTENT_BYTES,
    EXTENTS,
    MOST_SHARES,
)
from afterglow.runtime.native.program import WORK_TO_SHARE
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import boolean, i64, u8
from afterglow.types.extent import Dim, RangedExtent, is_ranged, largest, smallest

MOST_CHUNKS = MOST_SHARES * CHUNKS_OF_SHARE
"""Chunks of a step at most: a team of fewer threads makes fewer of it."""

Place = tuple[int, int]
"""A base by its number, and bytes from there on."""
Bases = Callable[[int], Pointer]
"""The address of a base, by its number."""


@dataclass(frozen=True)
class Guard:
    """A condition of a call: a boolean in memory, and the value that it must have."""

    place: Place
    wanted: bool


@dataclass(frozen=True)
class Call:
    """A call of a kernel's function, with an address for each parameter.

    It runs if all its guards hold.
    """

    function: KernelFunction
    arguments: tuple[Place, ...]
    guards: tuple[Guard, ...] = ()

    @property
    def chunks(self) -> int:
        """The number of pieces that its units are divided into, by the most threads.

        Of ranged units it is the most: `write_division` has the code count them. Of stretches it is
        their number by a power of two, so that fewer threads can divide between stretches.
        """
        most = min(largest(self.function.units), MOST_CHUNKS, int(self.function.work / CHUNK))
        stretches = self.function.stretches
        if 0 < stretches <= most:
            return stretches << (most // stretches).bit_length() - 1
        return max(1, most)


@dataclass
class Segment:
    """Calls in a row that run without the host; `origins` are the instructions they come from."""

    calls: list[Call] = field(default_factory=list)
    origins: list[Instr] = field(default_factory=list)
    by_instruction: bool = False
    """Whether each step belongs to one instruction."""

    def steps(self) -> list[list[Call]]:
        """Calls that are too small to be shared run in a row, as one step; the others alone."""
        if not self.by_instruction:
            return group_calls(self.calls)
        numbered = groupby(zip(self.origins, self.calls, strict=True), key=lambda pair: pair[0])
        return [step for _, own in numbered for step in group_calls([call for _, call in own])]

    def instruction_of_steps(self) -> list[Instr]:
        """The first instruction of each step."""
        ends = accumulate(map(len, self.steps()))
        return [self.origins[first] for first in (0, *ends)[:-1]]


def scratch_of(calls: Iterable[Call]) -> int:
    """Bytes of memory that each thread needs."""
    return max((call.function.scratch_bytes for call in calls), default=0)


def group_calls(calls: Sequence[Call]) -> list[list[Call]]:
    """Calls that are too small to be shared run in a row, as one step; the others alone."""
    groups: list[list[Call]] = []
    for call in calls:
        small = call.chunks == 1
        if small and groups and groups[-1][-1].chunks == 1:
            groups[-1].append(call)
        else:
            groups.append([call])
    return groups


def step_key(calls: Sequence[Call]) -> Hashable:
    """What is equal for steps that do the same: repeated functions may have other units each."""
    return tuple(
        (call.function.symbol, call.function.units, call.function.work, call.arguments, call.guards)
        for call in calls
    )


def write_division(e: Emitter, calls: Sequence[Call]) -> tuple[Value, Value]:
    """The number of units and of chunks of a step; a step of one chunk is one unit."""
    chunks, function = calls[0].chunks, calls[0].function
    if chunks == 1:
        return e.index(1), e.index(1)
    count, work = e.index(function.units), function.ranged_work
    if not isinstance(work, RangedExtent):
        return count, e.index(chunks)
    wanted = quotient(e.index(work), CHUNK)
    return count, larger(smaller(smaller(wanted, chunks), count), 1)


def work_of_calls(calls: Iterable[Call]) -> float:
    """FLOPs of calls; as an expression if extents of a run decide whether threads share them."""
    functions = [call.function for call in calls]
    works = [f.ranged_work if f.share is None else f.share for f in functions]
    if not any(map(is_ranged, works)):
        return sum(works)
    total = 0
    for work in works:
        total += work if isinstance(work, RangedExtent) else int(work)
        if smallest(total) >= WORK_TO_SHARE:  # a long expression would tell no more
            return sum(map(float, works))
    return total


def bases_in(e: Emitter, table: Pointer) -> Bases:
    """The addresses that a buffer table holds."""
    return lambda number: e.load_pointer(table, number, u8)


def know_dims(e: Emitter, bases: Bases, dims: Sequence[str]) -> None:
    """Tell a function where the extents of dimensions lie."""

    def value(dim: Dim) -> Value:
        place = bases(EXTENTS) + dims.index(dim.name) * EXTENT_BYTES
        return convert(place.cast(i64).load(), e.index_type)

    e.dim_value = value


def write_step(
    module: Module, name: str, calls: Sequence[Call], dims: Sequence[str] = ()
) -> FunctionSymbol:
    """The function of a step, which takes the buffer table as an argument."""
    with module.function(name) as e:
        table, scratch = e.pointer("bases", e.index_type), e.pointer("scratch", u8)
        begin, end = e.count("begin"), e.count("end")
        bounds = None if calls[0].chunks == 1 else (begin, end)
        bases = bases_in(e, table)
        know_dims(e, bases, dims)
        write_calls(e, calls, bases, scratch, bounds)
    return e.function


def write_calls(
    e: Emitter,
    calls: Sequence[Call],
    bases: Bases,
    scratch: Pointer,
    bounds: tuple[Value, Value] | None = None,
) -> None:
    """Write calls one after the other: for units within the bounds, or for all units of each."""
    for guards, guarded in groupby(calls, lambda call: call.guards):
        with ExitStack() as inside:
            for guard in guards:
                inside.enter_context(e.when(_holds(guard, bases)))
            for call in guarded:
                begin, end = bounds or (e.index(0), e.index(call.function.units))
                operands = [bases(base) + offset for base, offset in call.arguments]
                e.run(_declared(e, call), scratch, begin, end, *operands)


def _holds(guard: Guard, bases: Bases) -> Value:
    base, offset = guard.place
    flag = (bases(base) + offset).cast(boolean).load()
    return flag if guard.wanted else ~flag


def _declared(e: Emitter, call: Call) -> FunctionSymbol:
    count = mangle(e.index_type)
    operands = [POINTER] * len(call.arguments)
    return e.module.declare(call.function.symbol, "void", [POINTER, count, count, *operands])
