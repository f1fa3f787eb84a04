"""The machine code of loops: a function that calls the kernels of a body again and again.

The values that a loop carries lie in its results, where the body updates them in place. One thread
does the whole loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from afterglow.backends.cpu.codegen.calls import Call, know_dims, scratch_of, write_calls
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    FunctionSymbol,
    Module,
    Order,
    Pointer,
    Value,
    differ,
    equal,
    load_atomic,
)
from afterglow.backends.cpu.micro.kernel import KernelFunction
from afterglow.backends.cpu.target import Target
from afterglow.instr import Buffer, OpInstr, Program
from afterglow.ops.control import Loop, Scan
from afterglow.runtime.native.convention import ALIGNMENT, FIRST_OTHER, INTERRUPT, SIGNAL_BYTES
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import boolean, i64, u8
from afterglow.types.extent import dims_of, is_ranged, largest

SHORT = 256
"""Iterations up to which a loop does not look for interrupts, if their number is known."""

RunBody = Callable[[Sequence[Pointer], Sequence[Pointer]], None]
"""Writes the body, given its inputs and outputs but those that are carried."""


@dataclass(frozen=True)
class Body:
    """The body of a loop: a planned program, and its calls with a buffer table of their own."""

    program: Program
    calls: Sequence[Call]
    dims: tuple[str, ...] = ()
    """The dimensions whose extents its calls need: those that the loop is given, and its own."""
    is_interruptible: bool = False
    """Whether loops are given a cell of interrupts, and end when there is one."""


def write_loop(
    target: Target, name: str, step: OpInstr, body: Body
) -> tuple[Module, KernelFunction]:
    """The code of a `Loop` or `Scan`, and how it is called.

    It is given the results, whose carried ones hold their first values, then the operands, the
    constants, the arena of the body, the alarms, the extents, and the cell of interrupts if it may
    be interrupted.
    """
    module = Module(target)
    function = _write_body(module, f"{name}_body", body) if own_dims(step) else None
    with module.function(name) as e:
        _write(e, step, body, function)
    return module, KernelFunction(name, units=1, work=0.0, scratch_bytes=scratch_of(body.calls))


def own_dims(step: OpInstr) -> tuple[str, ...]:
    """The dimensions that a loop's iterations tell: their number, and lengths that it carries."""
    return tuple(dim.name for extent in _own_extents(step) for dim in dims_of(extent))


def _own_extents(step: OpInstr) -> tuple[int, ...]:
    """What the number of an iteration, and then the first carried values stand for."""
    return (step.op.iteration, *step.op.lengths) if isinstance(step.op, Loop) else ()


def _write_body(module: Module, name: str, body: Body) -> FunctionSymbol:
    """A function of the calls of a body, for extents that differ from iteration to iteration."""
    program = body.program
    others = (*program.inputs, *program.outputs, *program.states)
    count = FIRST_OTHER + len(others) + body.is_interruptible
    with module.function(name) as e:
        scratch = e.pointer("scratch", u8, align=ALIGNMENT)
        bases = [e.pointer(f"base{number}", u8) for number in range(count)]
        know_dims(e, bases.__getitem__, body.dims)
        write_calls(e, body.calls, bases.__getitem__, scratch)
    return e.function


def may_run_long(step: OpInstr) -> bool:
    """Whether a loop may run long enough to look for interrupts."""
    if isinstance(step.op, Scan):
        return largest(step.op.length) > SHORT
    limit = step.required[0]
    return limit.root.data is None or int(limit.root.data.max()) > SHORT


def _write(e: Emitter, step: OpInstr, body: Body, function: FunctionSymbol | None) -> None:
    scratch, _, _ = e.pointer("scratch", u8, align=ALIGNMENT), e.count("begin"), e.count("end")
    outs = [e.pointer(f"out{number}", u8) for number in range(len(step.outs))]
    ins = [e.pointer(f"in{number}", u8) for number in range(len(step.ins))]
    constants = e.pointer("constants", u8, align=ALIGNMENT)
    arena = e.pointer("arena", u8, align=ALIGNMENT)
    memory = [arena, constants, e.pointer("alarms", u8), e.pointer("extents", u8)]
    know_dims(e, memory.__getitem__, body.dims)
    given = len(body.dims) - len(own_dims(step))
    if function is not None:
        memory[-1] = _with_own_dims(e, memory[-1], given, len(body.dims))
    cells = [e.pointer("interrupts", u8)] if body.is_interruptible else []
    carried = outs[: len(body.program.states)]

    def run_body(inputs: Sequence[Pointer], outputs: Sequence[Pointer]) -> None:
        bases = [*memory, *inputs, *outputs, *carried, *cells]
        if function is None:
            write_calls(e, body.calls, bases.__getitem__, scratch)
            return
        numbers = zip(_own_extents(step), (inputs[0], *carried), strict=False)
        told = [number for extent, number in numbers if is_ranged(extent)]
        for place, number in enumerate(told, start=given):
            (memory[-1].cast(i64) + place).store(number.cast(i64).load())
        e.run(function, scratch, *bases)

    looked_at = cells if may_run_long(step) else []
    match step.op:
        case Loop(_, count):
            _write_while(e, ins[:2], ins[2 + count :], run_body, looked_at)
        case Scan(_, length, count, scanned, reverse):
            parts = [(ins[i], step.operand(i)) for i in range(count, count + scanned)]
            stacked = list(zip(outs, step.outs, strict=True))[count:]

            def iterate(i: Value) -> None:
                """Run the body on the parts of an iteration."""
                i = e.index(length) - 1 - i if reverse else i
                inputs = [*(_part(*part, i) for part in parts), *ins[count + scanned :]]
                run_body(inputs, [_part(*part, i) for part in stacked])

            _write_count(e, length, iterate, looked_at)


def _with_own_dims(e: Emitter, extents: Pointer, given: int, count: int) -> Pointer:
    """A table of the extents that a loop is given, with places for those of its own dimensions."""
    table = e.scratch(i64, count)
    for place in range(given):
        (table + place).store((extents.cast(i64) + place).load())
    return table.cast(u8)


def _write_count(
    e: Emitter, length: int, iterate: Callable[[Value], None], cells: Sequence[Pointer]
) -> None:
    """Iterate a known number of times, or until there is an interrupt."""
    if not cells:
        with e.loop(length, name="iteration") as i:
            iterate(i)
        return

    def step(state: list[Value]) -> list[Value]:
        iterate(state[0])
        return [state[0] + 1]

    def goes_on(state: list[Value]) -> Value:
        return (state[0] < length) & ~_is_interrupted(e, cells[0])

    e.iterate([e.index(0)], step, while_=goes_on)


def _is_interrupted(e: Emitter, cell: Pointer) -> Value:
    """Whether an interrupt is among the signals in a cell."""

    def look() -> list[Value]:
        return e.fold(
            SIGNAL_BYTES,
            [e.constant(boolean, 0)],
            lambda place, found: [found[0] | equal((cell + place).load(), INTERRUPT)],
        )

    first = load_atomic(cell, order=Order.RELAXED)
    none: list[Value] = [e.constant(boolean, 0)]
    return e.branch(differ(first, 0), look, lambda: none, likely=False)[0]


def _write_while(
    e: Emitter,
    control: Sequence[Pointer],
    captured: Sequence[Pointer],
    run_body: RunBody,
    cells: Sequence[Pointer],
) -> None:
    limit, condition = control[0].cast(i64).load(), control[1].cast(boolean).load()
    number, goes_on = e.scratch(i64, 1), e.scratch(boolean, 1)

    def iterate(state: list[Value]) -> list[Value]:
        number.store(state[0])
        run_body([number.cast(u8), *captured], [goes_on.cast(u8)])
        return [state[0] + 1, goes_on.load()]

    def proceeds(state: list[Value]) -> Value:
        wanted = state[1] & (state[0] < limit)
        return wanted & ~_is_interrupted(e, cells[0]) if cells else wanted

    e.iterate([e.constant(i64, 0), condition], iterate, while_=proceeds)


def _part(start: Pointer, buffer: Buffer, iteration: Value) -> Pointer:
    """Where one part of a buffer along its first axis begins."""
    return start + iteration * (buffer.strides[0] * buffer.type.dtype.itemsize)
