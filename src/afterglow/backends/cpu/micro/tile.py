"""The register tile: rows of one matrix times a panel of another, summed up in registers.

A tile is `rows` by `vectors` accumulators. Each step along the depth loads the vectors of one line
of the panel, and multiplies them by one element of each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    convert,
    fma,
    remainder,
    smaller,
)
from afterglow.backends.cpu.micro.partial_sums import block_size, sum_blocks
from afterglow.backends.cpu.target import Target
from afterglow.types.dtype import DType, f32, f64, i32, i64, u8, u32, u64

LINE = 64
"""Bytes that a prefetch brings."""
MOST_UNROLLED = 4
"""Steps along the depth in one turn of the loop, at most."""
ENOUGH_PRODUCTS = 48
"""Multiplications in one turn of the loop that hide what the loop itself costs."""
ENOUGH_SUMS = 8
"""Accumulators that hide the latency of an addition."""

Body = Callable[[Value, list[Value]], list[Value]]
"""Adds the products of some steps along the depth to sums, given where they begin."""
LoadVector = Callable[[Pointer, int], Value]
"""Loads one vector of a panel's line, given where the line begins and the number of the vector."""


@dataclass(frozen=True)
class Tile:
    """Extents of a tile: rows, vectors in a row, lanes in a vector."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """Elements in a row."""
        return self.vectors * self.lanes

    @property
    def unroll(self) -> int:
        """Steps along the depth in one turn of the loop."""
        steps = MOST_UNROLLED
        while steps > 2 and self.rows * self.vectors * steps >= 2 * ENOUGH_PRODUCTS:
            steps //= 2
        return steps

    def with_rows(self, rows: int) -> Tile:
        """As wide, but with that many rows."""
        return Tile(rows, self.vectors, self.lanes)


@dataclass(frozen=True)
class Ahead:
    """Memory to fetch while a tile is computed: `lines` of it a turn, from `start` on."""

    start: Pointer
    lines: int
    locality: int = 2

    def fetch(self, place: Value, unroll: int) -> None:
        """Fetch what is due at a place along the depth, with so many steps in a turn."""
        lines = self.start.cast(u8) + place * (self.lines * LINE // unroll)
        for line in range(self.lines):
            lines.prefetch(line * LINE, locality=self.locality)


def sum_type(dtype: DType) -> DType:
    """In which type products of elements are summed up.

    Narrow floats are rounded at the end only; narrow integers wrap around then as well as before.
    """
    if dtype.is_float:
        return f64 if dtype is f64 else f32
    if dtype.is_signed:
        return i64 if dtype.bits > 32 else i32
    return u64 if dtype.bits > 32 else u32


def multiply_add(a: Value, b: Value, c: Value) -> Value:
    """a * b + c; of floats rounded once where the machine can."""
    return fma(a, b, c) if c.dtype.is_float else a * b + c


def most_rows(target: Target, vectors: int, dtype: DType) -> int:
    """How many rows a tile may have so that it and what it is computed from stay in registers."""
    few = target.vector_bits <= dtype.bits and dtype.is_integer
    registers = 8 if few else target.vector_registers
    products = 0 if target.fma and dtype.is_float else 1
    return max(1, (registers - vectors - 1 - products) // vectors)


@dataclass(frozen=True)
class Run:
    """Tiles of one height: numbers `first` to `last - 1`; tile j begins at row j * rows + shift."""

    rows: int
    first: int
    last: int
    shift: int


def split_rows(rows: int, most: int) -> list[Run]:
    """As few tiles as cover all rows, as even as can be: high ones first, then lower by a row."""
    tiles = -(-rows // most)
    if tiles == 0:
        return []
    low, high_tiles = divmod(rows, tiles)
    high = Run(low + 1, 0, high_tiles, 0)
    return [run for run in (high, Run(low, high_tiles, tiles, high_tiles)) if run.last > run.first]


def accumulate(
    e: Emitter,
    tile: Tile,
    rows: Sequence[Pointer],
    panel: Pointer,
    depth: Index,
    dtype: DType,
    *,
    row_step: int = 1,
    panel_step: int | None = None,
    load: LoadVector | None = None,
    initial: Sequence[Sequence[Value]] | None = None,
    ahead: Sequence[Ahead] = (),
) -> list[list[Value]]:
    """The products of rows with a panel, summed along the depth: a vector for each row and vector.

    `rows` are where rows begin (constant offsets of one address are best), with elements
    `row_step` apart; lines of the panel lie `panel_step` elements apart, by default one after the
    other. `dtype` is that of the sums; `load` says how a panel is read if not as it lies. Long
    sums are made in blocks. `initial` is for earlier terms of the same sums: anything that may be
    much larger than they, as a bias, is added afterwards, where it costs one rounding.
    """
    step = tile.columns if panel_step is None else panel_step
    read = load or (lambda line, v: line.load(v * tile.lanes, tile.lanes))
    chains = _chains(tile, depth)
    zero = e.constant(dtype, 0, tile.lanes)
    first = [list(row) for row in initial] if initial else [[zero] * tile.vectors] * tile.rows
    others = [[zero] * tile.vectors] * (tile.rows * (chains - 1))
    sums = [vector for row in (*first, *others) for vector in row]

    def turn(place: Index, sums: list[Value], count: int) -> list[Value]:
        sums = list(sums)
        lines, lefts = panel + place * step, _advanced(rows, place * row_step)
        for copy in range(count):
            line = lines + copy * step
            vectors = [convert(read(line, v), dtype) for v in range(tile.vectors)]
            chain = copy % chains * tile.rows
            for number, left in enumerate(lefts):
                factor = convert(left.load(copy * row_step), dtype).splat(tile.lanes)
                start = (chain + number) * tile.vectors
                for v, vector in enumerate(vectors):
                    sums[start + v] = multiply_add(factor, vector, sums[start + v])
        return sums

    def body(place: Value, sums: list[Value]) -> list[Value]:
        for memory in ahead:
            memory.fetch(place, tile.unroll)
        return turn(place, sums, tile.unroll)

    if isinstance(depth, Value):
        many = depth - remainder(depth, tile.unroll)
        sums = e.fold(many, sums, body, step=tile.unroll, name="k")
        sums = e.fold(depth, sums, lambda place, sums: turn(place, sums, 1), start=many, name="k")
        return _joined(sums, tile, chains)
    whole = depth - depth % tile.unroll
    # a small tile waits for memory: longer blocks interrupt the loads less often
    spread = 1 if chains == 1 else 2 * chains
    sums = fold_blocks(e, whole, sums, body, step=tile.unroll, chains=spread)
    sums = turn(whole, sums, depth - whole)
    return _joined(sums, tile, chains)


def fold_blocks(
    e: Emitter, stop: int, sums: list[Value], body: Body, *, step: int, chains: int
) -> list[Value]:
    """Carry sums along the depth; long ones of floats in blocks.

    The terms of an element are spread over so many `chains`, that is sums which are added later.
    """
    size = block_size(stop, step, 1 / chains)
    if size >= stop or not sums[0].dtype.is_float:
        return e.fold(stop, sums, body, step=step, name="k")
    zeros = [value.like(0) for value in sums]

    def block(number: Value) -> list[Value]:
        first = number * size
        last = smaller(first + size, stop) if stop % size else first + size
        return e.fold(last, zeros, body, start=first, step=step, name="k")

    found = sum_blocks(e, -(-stop // size), zeros, block)
    return [b if a.constant == 0 else a + b for a, b in zip(sums, found, strict=True)]


def _chains(tile: Tile, depth: Index) -> int:
    """How many sums are made for each element, added at the end: a small tile needs several."""
    chains = 1
    most = min(tile.unroll, depth) if isinstance(depth, int) else tile.unroll
    while 2 * chains <= most and tile.rows * tile.vectors * chains < ENOUGH_SUMS:
        chains *= 2
    return chains


def _advanced(rows: Sequence[Pointer], count: Index) -> list[Pointer]:
    """All addresses moved on; those that share a beginning share the addition."""
    moved: dict[str, Pointer] = {}
    for row in rows:
        if row.text not in moved:
            moved[row.text] = Pointer(row.code, row.dtype, row.text) + count
    return [moved[row.text] + row.offset for row in rows]


def _joined(sums: list[Value], tile: Tile, chains: int) -> list[list[Value]]:
    size = tile.rows * tile.vectors
    while chains > 1:
        chains //= 2
        half = size * chains
        sums = [a + b for a, b in zip(sums[:half], sums[half:], strict=True)]
    return [sums[row * tile.vectors : (row + 1) * tile.vectors] for row in range(tile.rows)]
