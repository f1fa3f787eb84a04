"""Steps: the calls that threads do between two waits for each other, and the code of steps.

A *step* finds its operands in the buffer table and calls kernels for some units of their work. It
has a *lane* for each call that runs beside the others; threads take parts of all lanes, so that
calls with few units keep many threads busy together, and wait once. One thread does the lanes one
after the other, each whole, as if each was a step.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import cached_property
from itertools import chain, groupby, zip_longest

from afterglow.backends.cpu.codegen.calls import (
    Bases,
    Call,
    bases_in,
    know_dims,
    write_calls,
)
from afterglow.backends.cpu.codegen.independence import independent_runs
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    FunctionSymbol,
    Module,
    Pointer,
    Value,
    larger,
    quotient,
    smaller,
)
from afterglow.backends.cpu.micro.cost import CHUNK
from afterglow.instr import Instr
from afterglow.memory import MOST_BESIDE
from afterglow.runtime.native.convention import MOST_CHUNKS
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import u8
from afterglow.types.extent import RangedExtent

PARTS = MOST_CHUNKS
"""Parts of equal work, about, that the lanes of a step are divided into together."""

Lane = tuple[Call, ...]
"""One call whose units threads share, or calls that one thread does in a row."""


@dataclass(frozen=True)
class Step:
    """Calls in lanes that are independent of each other."""

    lanes: tuple[Lane, ...]

    @property
    def calls(self) -> list[Call]:
        """All of them, in the order in which one thread does them."""
        return [*chain.from_iterable(self.lanes)]

    @property
    def work(self) -> float:
        """FLOPs of all lanes: for the largest extents, or as an expression."""
        works = [call.function.ranged_work for call in self.calls]
        if not any(isinstance(work, RangedExtent) for work in works):
            return sum(works)
        return sum(work if isinstance(work, RangedExtent) else int(work) for work in works)

    @property
    def chunks(self) -> int:
        """The number of pieces that it is divided into, by the most threads."""
        if len(self.lanes) == 1:
            return self.lanes[0][0].chunks if len(self.calls) == 1 else 1
        return max(1, min(MOST_CHUNKS, sum(self.parts), int(float(self.work) / CHUNK)))

    @property
    def parts(self) -> list[int]:
        """How many parts of about the same work each of several lanes has."""
        works = [sum(float(call.function.work) for call in lane) for lane in self.lanes]
        total = max(sum(works), 1.0)
        return [max(1, round(PARTS * work / total)) for work in works]

    @property
    def key(self) -> Hashable:
        """What is equal for steps that do the same: repeated functions may have other units."""
        return tuple(tuple(map(_call_key, lane)) for lane in self.lanes)


def _call_key(call: Call) -> Hashable:
    function = call.function
    return function.symbol, function.units, function.work, call.arguments, call.guards


@dataclass
class Segment:
    """Calls in a row that run without the host; `origins` are the instructions they come from."""

    calls: list[Call] = field(default_factory=list)
    origins: list[Instr] = field(default_factory=list)
    by_instruction: bool = False
    """Whether each step belongs to one instruction."""

    @cached_property
    def steps(self) -> list[Step]:
        """The calls as steps, once all are known.

        Calls of instructions that are independent run side by side, and those that are too small
        to be shared in a row.
        """
        numbered = zip(self.origins, self.calls, strict=True)
        calls = {
            origin: [call for _, call in own]
            for origin, own in groupby(numbered, key=lambda pair: pair[0])
        }
        most = 1 if self.by_instruction else MOST_BESIDE
        runs = independent_runs(calls, most)
        steps = [join_calls([calls[each] for each in run]) for run in runs]
        if self.by_instruction:
            return [step for own in steps for step in join_small(own)]
        return join_small(chain.from_iterable(steps))

    @cached_property
    def origins_of_steps(self) -> list[list[Instr]]:
        """The instructions that each step does a part of, in order."""
        places = {id(call): origin for call, origin in zip(self.calls, self.origins, strict=True)}
        return [[places[id(call)] for call in step.calls] for step in self.steps]


def join_calls(members: Sequence[Sequence[Call]]) -> list[Step]:
    """The calls of independent instructions as steps: their first ones together, and so on."""
    rows = zip_longest(*map(_rows, members), fillvalue=())
    return [Step(tuple(_lanes(chain.from_iterable(row)))) for row in rows]


def _rows(calls: Iterable[Call]) -> list[tuple[Call, ...]]:
    """The calls of an instruction in order, those together that may run beside the one before."""
    rows: list[tuple[Call, ...]] = []
    for call in calls:
        if rows and call.function.beside:
            rows[-1] = (*rows[-1], call)
        else:
            rows.append((call,))
    return rows


def _lanes(calls: Iterable[Call]) -> Iterator[Lane]:
    """A lane for each call that is shared; the others in a row, up to work worth a lane."""
    small: Lane = ()
    for call in calls:
        if call.chunks > 1:
            yield (call,)
            continue
        small = (*small, call)
        if sum(float(each.function.work) for each in small) >= CHUNK:
            yield small
            small = ()
    if small:
        yield small


def join_small(steps: Iterable[Step]) -> list[Step]:
    """Steps that are too small to be shared run in a row, as one; the others alone."""
    joined: list[Step] = []
    for step in steps:
        if step.chunks > 1:
            joined.append(step)
        elif joined and joined[-1].chunks == 1:
            joined[-1] = Step(((*joined[-1].calls, *step.calls),))
        else:
            joined.append(Step((tuple(step.calls),)))
    return joined


def write_division(e: Emitter, step: Step) -> tuple[Value, Value]:
    """The number of units and of chunks of a step; a step of one chunk is one unit."""
    chunks, work = step.chunks, step.work
    if chunks == 1:
        return e.index(1), e.index(1)
    alone = len(step.lanes) == 1
    count = e.index(step.calls[0].function.units if alone else sum(step.parts))
    if not isinstance(work, RangedExtent):
        return count, e.index(chunks)
    wanted = quotient(e.index(work), CHUNK)
    return count, larger(smaller(smaller(wanted, chunks), count), 1)


def write_step(module: Module, name: str, step: Step, dims: Sequence[str] = ()) -> FunctionSymbol:
    """The function of a step, which takes the buffer table as an argument."""
    with module.function(name) as e:
        table, scratch = e.pointer("bases", e.index_type), e.pointer("scratch", u8)
        begin, end = e.count("begin"), e.count("end")
        bases = bases_in(e, table)
        know_dims(e, bases, dims)
        if step.chunks == 1:
            write_calls(e, step.calls, bases, scratch)
        elif len(step.lanes) == 1:
            write_calls(e, step.calls, bases, scratch, (begin, end))
        else:
            _write_lanes(e, step, bases, scratch, (begin, end))
    return e.function


def _write_lanes(
    e: Emitter, step: Step, bases: Bases, scratch: Pointer, bounds: tuple[Value, Value]
) -> None:
    """Call each lane for the units that begin in its parts within the bounds."""
    first = 0
    for lane, parts in zip(step.lanes, step.parts, strict=True):
        inside = [larger(smaller(bound - first, parts), 0) for bound in bounds]
        is_shared = lane[0].chunks > 1
        units = e.index(lane[0].function.units if is_shared else 1)
        begin, end = (quotient(part * units + (parts - 1), parts) for part in inside)
        with e.when(begin < end):
            write_calls(e, lane, bases, scratch, (begin, end) if is_shared else None)
        first += parts
