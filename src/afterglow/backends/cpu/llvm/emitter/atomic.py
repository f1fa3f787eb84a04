"""Memory that several threads share: counters, flags, and the order in which others see them."""

from __future__ import annotations

from enum import Enum

from afterglow.backends.cpu.llvm.emitter.code import Code
from afterglow.backends.cpu.llvm.emitter.pointer import Index, Pointer
from afterglow.backends.cpu.llvm.emitter.value import Operand, Value
from afterglow.types.dtype import boolean


class Order(Enum):
    """The memory order of an atomic access."""

    RELAXED = "monotonic"
    ACQUIRE = "acquire"
    RELEASE = "release"
    BOTH = "acq_rel"
    SEQUENTIAL = "seq_cst"


def load_atomic(pointer: Pointer, index: Index = 0, order: Order = Order.ACQUIRE) -> Value:
    """Read an element; what was written before its release is then visible."""
    place, dtype = pointer + index, pointer.dtype
    kind = Value.of(pointer.code, dtype, 0).type
    text = f"load atomic {kind}, ptr {place.address()} {order.value}, align {dtype.itemsize}"
    return Value(pointer.code, dtype, 1, pointer.code.define(text))


def store_atomic(
    pointer: Pointer, value: Operand, index: Index = 0, order: Order = Order.RELEASE
) -> None:
    """Write an element; whoever acquires it sees all that was written before."""
    place, stored = pointer + index, _operand(pointer, value)
    text = f"store atomic {stored.typed}, ptr {place.address()} {order.value}"
    pointer.code.perform(f"{text}, align {pointer.dtype.itemsize}")


def fetch_add(
    pointer: Pointer, value: Operand, index: Index = 0, order: Order = Order.BOTH
) -> Value:
    """Add to an element and return what it was before."""
    place, added = pointer + index, _operand(pointer, value)
    text = f"atomicrmw add ptr {place.address()}, {added.typed} {order.value}"
    return Value(pointer.code, pointer.dtype, 1, pointer.code.define(text))


def exchange(
    pointer: Pointer, value: Operand, index: Index = 0, order: Order = Order.BOTH
) -> Value:
    """Write an element and return what it was before."""
    place, stored = pointer + index, _operand(pointer, value)
    text = f"atomicrmw xchg ptr {place.address()}, {stored.typed} {order.value}"
    return Value(pointer.code, pointer.dtype, 1, pointer.code.define(text))


def compare_exchange(
    pointer: Pointer, expected: Operand, value: Operand, index: Index = 0
) -> tuple[Value, Value]:
    """Write an element if it is as expected; returns what it was, and whether it was written."""
    place = pointer + index
    old, new = _operand(pointer, expected), _operand(pointer, value)
    code = pointer.code
    pair = code.define(f"cmpxchg ptr {place.address()}, {old.typed}, {new.typed} seq_cst seq_cst")
    both = f"{{ {old.type}, i1 }} {pair}"
    found = Value(code, pointer.dtype, 1, code.define(f"extractvalue {both}, 0"))
    return found, Value(code, boolean, 1, code.define(f"extractvalue {both}, 1"))


def fence(code: Code, order: Order = Order.SEQUENTIAL) -> None:
    """Keep accesses before from moving behind, and those behind from moving before."""
    code.perform(f"fence {order.value}")


_PAUSES = {
    "x86": "call void @llvm.x86.sse2.pause()",
    "aarch64": "call void @llvm.aarch64.hint(i32 1)",
    "arm": "call void @llvm.arm.hint(i32 1)",
}


def spin_pause(code: Code) -> None:
    """Tell the core that it waits in a loop, where it can be told."""
    hint = _PAUSES.get(code.target.architecture)
    if hint is not None:
        code.perform(hint)


def _operand(pointer: Pointer, value: Operand) -> Value:
    if isinstance(value, Value):
        return value
    return Value.of(pointer.code, pointer.dtype, value)
