"""`memcpy`, `memmove` and `memset`, for programs that have no C library.

Code generation calls them by these names. They are local to the object, so that a program that has
its own, or several bundles, keeps them apart.
"""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import Emitter, Module, Pointer, Value, convert, remainder
from afterglow.types.dtype import i32, u8, u32, u64

MEMORY_FUNCTIONS = ("memcpy", "memmove", "memset")
"""Their names."""


def write_memory_functions(module: Module) -> None:
    """Define all three."""
    with module.function("memcpy") as e:
        to, source, count = e.pointer("to", u8), e.pointer("from", u8), e.count("count")
        _copy_forward(e, to, source, count)
        e.return_pointer(to)
    with module.function("memmove") as e:
        to, source, count = e.pointer("to", u8), e.pointer("from", u8), e.count("count")
        _move(e, to, source, count)
        e.return_pointer(to)
    with module.function("memset") as e:
        to, byte, count = e.pointer("to", u8), e.argument("byte", i32), e.count("count")
        _fill(e, to, convert(byte, u8), count)
        e.return_pointer(to)


def _copy_forward(e: Emitter, to: Pointer, source: Pointer, count: Value) -> None:
    """Right also for places that overlap, if the destination is the lower one."""
    lanes = e.lanes(u8)
    whole = count - remainder(count, lanes)
    with e.loop(whole, step=lanes) as index:
        to.store(source.load(index, lanes), index)
    with e.loop(count, start=whole) as index:
        to.store(source.load(index), index)


def _copy_backward(e: Emitter, to: Pointer, source: Pointer, count: Value) -> None:
    lanes = e.lanes(u8)
    rest = remainder(count, lanes)
    with e.loop(count - rest, step=lanes) as index:
        place = count - index - lanes
        to.store(source.load(place, lanes), place)
    with e.loop(rest) as index:
        place = rest - index - 1
        to.store(source.load(place), place)


def _move(e: Emitter, to: Pointer, source: Pointer, count: Value) -> None:
    def forward() -> list[Value]:
        _copy_forward(e, to, source, count)
        return []

    def backward() -> list[Value]:
        _copy_backward(e, to, source, count)
        return []

    # The distance without a sign is small only if the destination lies inside the source.
    distance = e.number_of(to) - e.number_of(source)
    inside = _below(e, distance, count)
    e.branch(inside, backward, forward)


def _below(e: Emitter, a: Value, b: Value) -> Value:
    """Whether one number without a sign is less than another."""
    kind = u64 if e.target.pointer_bits == 64 else u32
    return convert(a, kind) < convert(b, kind)


def _fill(e: Emitter, to: Pointer, byte: Value, count: Value) -> None:
    lanes = e.lanes(u8)
    whole = count - remainder(count, lanes)
    many = byte.splat(lanes)
    with e.loop(whole, step=lanes) as index:
        to.store(many, index)
    with e.loop(count, start=whole) as index:
        to.store(byte, index)
