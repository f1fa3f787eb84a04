"""Masked, strided, gathered and scattered memory accesses."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter.arithmetic import smaller
from afterglow.backends.cpu.llvm.emitter.code import Code
from afterglow.backends.cpu.llvm.emitter.conversion import convert
from afterglow.backends.cpu.llvm.emitter.pointer import Index, Pointer, from_memory, to_memory
from afterglow.backends.cpu.llvm.emitter.shuffle import constant_vector
from afterglow.backends.cpu.llvm.emitter.value import Value
from afterglow.backends.cpu.llvm.types import mangle, spell, spell_in_memory
from afterglow.types.dtype import DType, boolean, i32, u8
from afterglow.types.extent import is_ranged


def lane_numbers(code: Code, dtype: DType, lanes: int, step: int = 1) -> Value:
    """0, 1, 2, … times the step, in as many lanes."""
    if is_ranged(step):
        return lane_numbers(code, dtype, lanes) * step
    return constant_vector(code, dtype, [lane * step for lane in range(lanes)])


def first_lanes(count: Value, lanes: int) -> Value:
    """The condition that holds in the first `count` lanes; in all if there are more."""
    if count.constant is not None:
        holds = [lane < count.constant for lane in range(lanes)]
        return constant_vector(count.code, boolean, holds)
    few = convert(smaller(count, lanes), i32)
    return lane_numbers(count.code, i32, lanes) < few


def load_masked(
    pointer: Pointer, mask: Value, index: Index = 0, otherwise: Value | float = 0
) -> Value:
    """Neighbouring elements where the mask holds; the others are not touched."""
    place = pointer + index
    lanes = mask.lanes
    vector = _vector(pointer.dtype, lanes)
    passed = _fallback(pointer, otherwise, lanes)
    name = f"@llvm.masked.load.{_mangled(pointer.dtype, lanes)}.p0"
    arguments = f"{place.operand()}, {_as_vector(mask)}, {passed}"
    return _loaded(pointer, f"call {vector} {name}({arguments})", lanes)


def store_masked(pointer: Pointer, value: Value, mask: Value, index: Index = 0) -> None:
    """Write the lanes where the mask holds; memory under the others is not touched."""
    place = pointer + index
    if mask.text == first_lanes(Value.of(mask.code, i32, 1), mask.lanes).text:
        # LLVM writes too much of a vector that it narrows, if it knows that one lane counts.
        place.store(value.splat(mask.lanes).lane(0))
        return
    stored = _as_vector(to_memory(pointer, value.splat(mask.lanes)))
    name = f"@llvm.masked.store.{_mangled(pointer.dtype, mask.lanes)}.p0"
    arguments = f"{stored}, {place.operand()}, {_as_vector(mask)}"
    pointer.code.perform(f"call void {name}({arguments})")


def gather(
    pointer: Pointer, indices: Value, mask: Value | None = None, otherwise: Value | float = 0
) -> Value:
    """An element for each index, where the mask holds."""
    lanes = indices.lanes
    vector = _vector(pointer.dtype, lanes)
    addresses = _addresses(pointer, indices)
    passed = _fallback(pointer, otherwise, lanes)
    name = f"@llvm.masked.gather.{_mangled(pointer.dtype, lanes)}.v{lanes}p0"
    arguments = f"{addresses}, {_as_vector(_mask(indices, mask))}, {passed}"
    return _loaded(pointer, f"call {vector} {name}({arguments})", lanes)


def scatter(pointer: Pointer, value: Value, indices: Value, mask: Value | None = None) -> None:
    """Write each lane to the element of its index, in the order of the lanes."""
    lanes = indices.lanes
    stored = _as_vector(to_memory(pointer, value.splat(lanes)))
    addresses = _addresses(pointer, indices)
    name = f"@llvm.masked.scatter.{_mangled(pointer.dtype, lanes)}.v{lanes}p0"
    arguments = f"{stored}, {addresses}, {_as_vector(_mask(indices, mask))}"
    pointer.code.perform(f"call void {name}({arguments})")


def load_strided(
    pointer: Pointer, index: Index, stride: Index, lanes: int, mask: Value | None = None
) -> Value:
    """Every stride-th element, from the index on."""
    place = pointer + index
    if mask is None and isinstance(stride, int) and stride in (0, 1):
        return place.load(0, lanes) if stride else place.broadcast(0, lanes)
    return gather(place, _steps(pointer, stride, lanes), mask)


def store_strided(
    pointer: Pointer, value: Value, index: Index, stride: Index, mask: Value | None = None
) -> None:
    """Write the lanes to every stride-th element, from the index on."""
    place = pointer + index
    if mask is None and isinstance(stride, int) and stride == 1:
        place.store(value)
        return
    scatter(place, value, _steps(pointer, stride, value.lanes), mask)


def _steps(pointer: Pointer, stride: Index, lanes: int) -> Value:
    index_type = pointer.code.index_type
    if isinstance(stride, int):
        return lane_numbers(pointer.code, index_type, lanes, stride)
    return lane_numbers(pointer.code, index_type, lanes) * convert(stride, index_type)


def _addresses(pointer: Pointer, indices: Value) -> str:
    """The address of each index: the operand `<8 x ptr> align 4 %p`."""
    element = spell_in_memory(pointer.dtype)
    wide = indices if indices.dtype is i32 else convert(indices, pointer.code.index_type)
    text = f"getelementptr {element}, ptr {pointer.address()}, {_as_vector(wide)}"
    name = pointer.code.define(text, "p")
    return f"<{indices.lanes} x ptr> align {pointer.dtype.itemsize} {name}"


def _mask(indices: Value, mask: Value | None) -> Value:
    return Value.of(indices.code, boolean, 1, indices.lanes) if mask is None else mask


def _fallback(pointer: Pointer, otherwise: Value | float, lanes: int) -> str:
    if not isinstance(otherwise, Value):
        otherwise = Value.of(pointer.code, pointer.dtype, otherwise, lanes)
    return _as_vector(to_memory(pointer, otherwise.splat(lanes)))


def _vector(dtype: DType, lanes: int) -> str:
    """LLVM's type of a vector in memory; intrinsics require a vector even for a single lane."""
    return f"<{lanes} x {spell_in_memory(dtype)}>"


def _mangled(dtype: DType, lanes: int) -> str:
    return f"v{lanes}{mangle(u8 if dtype is boolean else dtype)}"


def _as_vector(value: Value) -> str:
    """A value as a vector operand."""
    if value.lanes > 1:
        return value.typed
    vector = f"<1 x {spell(value.dtype)}>"
    name = value.code.define(f"insertelement {vector} poison, {value.typed}, i64 0")
    return f"{vector} {name}"


def _loaded(pointer: Pointer, call: str, lanes: int) -> Value:
    name = pointer.code.define(call)
    if lanes > 1:
        return from_memory(pointer, name, lanes)
    held = u8 if pointer.dtype is boolean else pointer.dtype
    scalar = f"extractelement <1 x {spell(held)}> {name}, i64 0"
    return from_memory(pointer, pointer.code.define(scalar), 1)
