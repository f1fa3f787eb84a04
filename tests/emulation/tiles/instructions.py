"""AMX in software: code for machines with tiles runs on this one, and its instructions are counted.

Calls of the intrinsics become calls of functions that do what Intel's manual says, on registers
that lie in the caller's frame: every function begins without tiles, as a released thread does. What
the processor would refuse is noted, and does nothing. Counts are right as long as one thread runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import numpy as np

from afterglow.backends.cpu import Emitter, Module, Target, compile_module, load_host
from afterglow.backends.cpu.llvm.emitter import (
    TILE_BYTES,
    TILE_ROWS,
    Pointer,
    Value,
    convert,
    differ,
    equal,
    first_lanes,
    fma,
    load_masked,
    reinterpret,
    select,
    smaller,
    store_masked,
)
from afterglow.backends.cpu.llvm.emitter.tiles import TILES
from afterglow.backends.cpu.llvm.load import Library
from afterglow.types.dtype import f32, i32, i64, u8, u32

TILE = TILE_ROWS * TILE_BYTES
SHAPES = TILES * TILE
"""Where the shapes lie, behind the tiles, as `ldtilecfg` reads them."""
STATE = SHAPES + 64
ROW_BYTES_AT, ROWS_AT = 16, 48
LANES = TILE_BYTES // 4

COUNTS = (
    "ldtilecfg",
    "tilerelease",
    "tileloadd64",
    "tilestored64",
    "tdpbusd",
    "tdpbf16ps",
    "loaded rows",
    "stored rows",
    "multiplied rows",
    "refused",
)
"""What is counted: instructions, and the rows of tiles that they move or multiply."""
CALL = re.compile(r"call void @llvm\.x86\.(ldtilecfg|tile\w+|tdp\w+)\(([^)]*)\)")
BEGINNING = re.compile(r"^(define [^\n]*\{\nentry:\n)", re.MULTILINE)


class EmulatedTiles:
    """Compiles code for a machine with tiles so that it runs here, and counts what it does."""

    def __init__(self) -> None:
        self.functions = _library().addresses  # made here, since several threads compile at once
        self.counts: dict[str, np.ndarray] = {}
        """For each module with tiles, by its first function: how often each thing happened."""

    def compile(self, module: Module | str, target: Target) -> bytes:
        """Object code for this machine; the target is what the module was written for."""
        name, text = _name_of(module), module if isinstance(module, str) else module.text
        if CALL.search(text):
            counts = self.counts.setdefault(name, np.zeros(len(COUNTS), np.int64))
            text = emulated(text, counts, self.functions)
        return compile_module(text, target.without_tiles())

    def count(self, what: str) -> int:
        """How often something happened, in all code."""
        return sum(int(counts[COUNTS.index(what)]) for counts in self.counts.values())

    def check(self) -> None:
        """Raise if the processor would have refused an instruction."""
        refused = [name for name, counts in self.counts.items() if counts[COUNTS.index("refused")]]
        assert not refused, f"tiles of a wrong shape, or none: {', '.join(refused)}"


def with_tiles(target: Target | None = None) -> Target:
    """This machine, or another one, as if it had tiles: what else it lacks, code does not use.

    Pairs of bf16 count as slow, as they are on processors with tiles.
    """
    return replace(
        target or Target.host(),
        byte_tiles=True,
        bf16_tiles=True,
        dot_mixed_signs=True,
        dot_bf16=True,
        slow_dot_bf16=True,
    )


def emulated(text: str, counts: np.ndarray, functions: Mapping[str, int]) -> str:
    """A module in LLVM's language with calls of this file's functions instead of intrinsics."""
    state = f"ptr %tiles.state, ptr inttoptr (i64 {counts.ctypes.data} to ptr)"

    def call(name: str, arguments: str) -> str:
        return f"call void inttoptr (i64 {functions[name]} to ptr)({state}{arguments})"

    def replaced(found: re.Match[str]) -> str:
        numbers = re.sub(r"\bi8 (\d+)", r"i64 \1", found[2])
        plain = re.sub(r"ptr align \d+ ", "ptr ", numbers)
        return call(found[1], f", {plain}" if plain else "")

    room = f"  %tiles.state = alloca [{STATE} x i8], align 64\n  {call('begin', '')}\n"
    parts = re.split(r"(?=^define )", text, flags=re.MULTILINE)
    return "".join(
        BEGINNING.sub(lambda found: found[1] + room, CALL.sub(replaced, part), count=1)
        if CALL.search(part)
        else part
        for part in parts
    )


def _name_of(module: Module | str) -> str:
    if isinstance(module, Module) and module.exports:
        return module.exports[-1]
    return "module"


@cache
def _library() -> Library:
    """The functions, compiled for this machine."""
    target = Target.host().without_tiles()
    module = Module(target)
    for name, write in _WRITERS.items():
        with module.function(name) as e:
            write(_Registers(e))
    return load_host(compile_module(module, target), module.exports, target)


class _Registers:
    """The registers of a thread in memory, for the function that is being written."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        self.state = e.pointer("state", u8, align=64)
        self.counts = e.pointer("counts", i64)

    def add(self, what: str, number: Value | int = 1) -> None:
        """Count something."""
        place = self.counts + COUNTS.index(what)
        place.store(place.load() + number)

    def shape(self, tile: Value) -> tuple[Value, Value]:
        """Rows of a tile, and bytes of a row; zeros where there are no tiles."""
        rows = (self.state + SHAPES + ROWS_AT + tile).load()
        row_bytes = (self.state + SHAPES + ROW_BYTES_AT + tile * 2).load()
        return convert(rows, i64), convert(row_bytes, i64)

    def row(self, tile: Value, row: Value) -> Pointer:
        """Where a row of a tile lies."""
        return (self.state + tile * TILE + row * TILE_BYTES).aligned(TILE_BYTES)

    @contextmanager
    def where(self, allowed: Value) -> Iterator[None]:
        """Write what happens if the processor does not refuse."""
        with self.e.when(~allowed):
            self.add("refused")
        with self.e.when(allowed):
            yield


def _begin(r: _Registers) -> None:
    """No tiles."""
    r.e.zero(r.state + SHAPES, TILE_BYTES)


def _set_shapes(r: _Registers) -> None:
    """All tiles get shapes, and zeros as elements."""
    shapes = r.e.pointer("shapes", u8)
    r.add("ldtilecfg")
    allowed = equal(shapes.load(), 1)
    ends = (1, ROW_BYTES_AT), (ROW_BYTES_AT + 2 * TILES, ROWS_AT), (ROWS_AT + TILES, TILE_BYTES)
    for place in (place for end in ends for place in range(*end)):
        allowed = allowed & equal(shapes.load(place), 0)
    for tile in range(TILES):
        rows, row_bytes = shapes.load(ROWS_AT + tile), shapes.load(ROW_BYTES_AT + 2 * tile)
        fits = (rows <= TILE_ROWS) & (row_bytes <= TILE_BYTES)
        allowed = allowed & fits & equal(shapes.load(ROW_BYTES_AT + 2 * tile + 1), 0)
        allowed = allowed & equal(smaller(rows, 1), smaller(row_bytes, 1))
    with r.where(allowed):
        r.e.zero(r.state, SHAPES)
        r.e.copy(r.state + SHAPES, shapes, TILE_BYTES)


def _release(r: _Registers) -> None:
    """No tiles again."""
    r.add("tilerelease")
    _begin(r)


def _load(r: _Registers) -> None:
    """Rows of a tile come from memory, zeros behind them."""
    tile, place, stride = r.e.count("tile"), r.e.pointer("place", u8), r.e.count("stride")
    rows, row_bytes = r.shape(tile)
    r.add("tileloadd64")
    r.add("loaded rows", rows)
    with r.where(differ(rows, 0)):
        r.e.zero(r.row(tile, rows * 0), TILE)
        with r.e.loop(rows) as row:
            loaded = load_masked(place + row * stride, first_lanes(row_bytes, TILE_BYTES))
            r.row(tile, row).store(loaded)


def _store(r: _Registers) -> None:
    """Rows of a tile go to memory."""
    tile, place, stride = r.e.count("tile"), r.e.pointer("place", u8), r.e.count("stride")
    rows, row_bytes = r.shape(tile)
    r.add("tilestored64")
    r.add("stored rows", rows)
    with r.where(differ(rows, 0)), r.e.loop(rows) as row:
        stored = r.row(tile, row).load(0, TILE_BYTES)
        store_masked(place + row * stride, stored, first_lanes(row_bytes, TILE_BYTES))


Add = Callable[[list[Value], Value, Value], list[Value]]
"""Adds the products of a word of a with the words of a row of b to some sums."""


def _product(r: _Registers, name: str, sums: int, add: Add, end: Callable[..., Value]) -> None:
    """Every row of a meets all rows of b."""
    total, a, b = (r.e.count(operand) for operand in ("total", "a", "b"))
    (rows, row_bytes), (rows_a, bytes_a), (rows_b, bytes_b) = map(r.shape, (total, a, b))
    r.add(name)
    r.add("multiplied rows", rows)
    allowed = differ(rows, 0) & differ(total, a) & differ(total, b) & differ(a, b)
    allowed = allowed & equal(rows, rows_a) & equal(row_bytes, bytes_b)
    allowed = allowed & equal(bytes_a, rows_b * 4) & equal(row_bytes & 3, 0)
    with r.where(allowed), r.e.loop(rows) as row:
        zeros = [r.e.constant(i32, 0, LANES)] * sums
        words = r.row(a, row).cast(i32)

        def add_word(k: Value, so_far: list[Value]) -> list[Value]:
            word = words.load(k).splat(LANES)
            return add(so_far, word, r.row(b, k).cast(i32).load(0, LANES))

        added = r.e.fold(rows_b, zeros, add_word)
        place = r.row(total, row).cast(i32)
        place.store(end(place.load(0, LANES), *added))


def _add_bytes(sums: list[Value], a: Value, b: Value) -> list[Value]:
    """Four products of unsigned and signed bytes, in integers that wrap around."""
    (total,) = sums
    for place in range(4):
        left = (a >> (8 * place)) & 0xFF
        total = total + left * ((b << (24 - 8 * place)) >> 24)
    return [total]


def _add_pair(sums: list[Value], a: Value, b: Value) -> list[Value]:
    """Products of even elements and of odd ones, each rounded once as it is added to its sum."""
    pairs = ((a << 16, b << 16), (a & -65536, b & -65536))
    return [
        _bits(_flushed(fma(_float(left), _float(right), _float(total))))
        for total, (left, right) in zip(sums, pairs, strict=True)
    ]


def _end_of_pairs(total: Value, even: Value, odd: Value) -> Value:
    """The two sums are added, and then to what was there."""
    return _bits(_flushed(_float(total) + _flushed(_float(even) + _float(odd))))


def _float(bits: Value) -> Value:
    """Floats by their bits, with subnormal numbers taken for zero."""
    return _flushed(reinterpret(bits, f32))


def _bits(x: Value) -> Value:
    return reinterpret(x, i32)


def _flushed(x: Value) -> Value:
    """Zeros of the same sign for subnormal numbers."""
    bits = reinterpret(x, u32)
    sign = bits & 0x80000000
    return reinterpret(select(equal(bits & 0x7F800000, 0), sign, bits), f32)


_WRITERS: dict[str, Callable[[_Registers], None]] = {
    "begin": _begin,
    "ldtilecfg": _set_shapes,
    "tilerelease": _release,
    "tileloadd64": _load,
    "tilestored64": _store,
    "tdpbusd": lambda r: _product(r, "tdpbusd", 1, _add_bytes, lambda total, sum: total + sum),
    "tdpbf16ps": lambda r: _product(r, "tdpbf16ps", 2, _add_pair, _end_of_pairs),
}
