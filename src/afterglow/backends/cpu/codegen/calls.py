"""Calls of kernels: their arguments, where those lie, and the code of calls.

The memory of a run is given by the *buffer table*: the addresses (*bases*) of the arena, the
constants, then each input, output and state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import groupby

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    FunctionSymbol,
    Pointer,
    Value,
    convert,
)
from afterglow.backends.cpu.llvm.types import POINTER, mangle
from afterglow.backends.cpu.micro.cost import CHUNK
from afterglow.backends.cpu.micro.kernel import KernelFunction
from afterglow.runtime.native.convention import (
    EXTENT_BYTES,
    EXTENTS,
    MOST_CHUNKS,
)
from afterglow.runtime.native.program import WORK_TO_SHARE
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import boolean, i64, u8
from afterglow.types.extent import Dim, RangedExtent, is_ranged, largest, smallest

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


def scratch_of(calls: Iterable[Call]) -> int:
    """Bytes of memory that each thread needs."""
    return max((call.function.scratch_bytes for call in calls), default=0)


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
