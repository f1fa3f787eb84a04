"""Looking up bytes in a table that has one for each."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter.arithmetic import reinterpret, select
from afterglow.backends.cpu.llvm.emitter.conversion import convert
from afterglow.backends.cpu.llvm.emitter.pointer import Pointer
from afterglow.backends.cpu.llvm.emitter.shuffle import concat, part, shuffle, vector
from afterglow.backends.cpu.llvm.emitter.value import Value
from afterglow.types.dtype import i8, u8

_NATIVE = 64
"""Bytes that one instruction looks up, and half of those that it chooses from."""


def look_up(table: Pointer, x: Value) -> Value:
    """The entries of a table of 256 bytes, by the bits of bytes."""
    bits = reinterpret(x, u8)
    if x.lanes == 1 or not x.code.target.byte_tables:
        return vector([_entry(table, bits.lane(lane)) for lane in range(x.lanes)])
    parts = [
        _permuted(table, part(bits, start, min(_NATIVE, x.lanes - start)))
        for start in range(0, x.lanes, _NATIVE)
    ]
    return concat(*parts)


def _entry(table: Pointer, index: Value) -> Value:
    return (table + convert(index, index.code.index_type)).load()


def _permuted(table: Pointer, bits: Value) -> Value:
    """One instruction for each half of the table, and a choice by the highest bit."""
    lanes = bits.lanes
    whole = shuffle(bits, None, [*range(lanes), *[-1] * (_NATIVE - lanes)])
    quarters = [table.load(start, _NATIVE) for start in range(0, 4 * _NATIVE, _NATIVE)]
    low, high = (_chosen(whole, *quarters[half : half + 2]) for half in (0, 2))
    return part(select(reinterpret(whole, i8) < 0, high, low), 0, lanes)


def _chosen(bits: Value, first: Value, second: Value) -> Value:
    name = "@llvm.x86.avx512.vpermi2var.qi.512"
    arguments = ", ".join(value.typed for value in (first, bits, second))
    return first.derive(f"call {first.type} {name}({arguments})")
