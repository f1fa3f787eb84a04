"""The multiply-accumulate core: every product of matrices and windows is summed up by it.

Rows of one factor meet the lines of a panel of the other, step by step along the depth, and the
products are added to sums that stay in registers. What differs between kernels is how the products
of one step are made: an element of each row times a line of vectors (`broadcast_step`), vectors of
both factors (`vector_step`), or four bytes times a line (`kernels/quantized/dots.py`). Loops,
unrolling, several sums for each element, blocks of long sums and prefetches are the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    convert,
    load_masked,
    remainder,
    smaller,
)
from afterglow.backends.cpu.micro.partial_sums import FEW_TERMS, TERMS, block_size, sum_blocks
from afterglow.backends.cpu.micro.rows import Axes, split
from afterglow.backends.cpu.micro.tile import (
    ENOUGH_SUMS,
    LINE,
    MOST_UNROLLED,
    RegisterTile,
    multiply_add,
)
from afterglow.backends.cpu.target import Target
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, u8
from afterglow.types.extent import is_ranged, largest

PAGE = 4096
"""Bytes at whose multiples hardware stops fetching ahead."""
AHEAD = 1 / 3
"""The part of the first cache that is fetched of a panel ahead of what is read."""
FEW_TILES = 32
"""So few tiles do not hide how long a panel takes to come from memory."""
MOST_WITH_REST = 4
"""Steps of a turn, at most, if they do not divide the depth."""

LoadVector = Callable[[Pointer, int], Value]
"""Loads one vector of a panel's line, given where the line begins and the number of the vector."""
LoadLine = Callable[[Pointer], Sequence[Value]]
"""Loads all vectors of a panel's line, given where it begins, in the element type of the sums."""


@dataclass(frozen=True)
class Factors:
    """Both factors of a product, from some place along the depth on.

    Each of `rows` moves by `row_step` elements from one place to the next, and `panel` by `line`
    elements. Addresses of rows are best constant offsets from one of them.
    """

    rows: Sequence[Pointer]
    panel: Pointer
    row_step: int = 1
    line: int = 1

    def at(self, place: Index) -> Factors:
        """The factors some places further along the depth."""
        return self.moved(place * self.row_step, place * self.line)

    def moved(self, row_offset: Index, panel_offset: Index) -> Factors:
        """The factors at other addresses; rows that share a beginning share the addition."""
        panel = self.panel + panel_offset
        moved: dict[str, Pointer] = {}
        for row in self.rows:
            if row.text not in moved:
                moved[row.text] = Pointer(row.code, row.dtype, row.text) + row_offset
        rows = [moved[row.text] + row.offset for row in self.rows]
        return replace(self, rows=rows, panel=panel)

    def settled(self) -> Factors:
        """The same factors, of whose addresses LLVM does not ask how they came about."""
        starts = {row.text: Pointer(row.code, row.dtype, row.text) for row in self.rows}
        known = {text: start.settled() for text, start in starts.items()}
        rows = [known[row.text] + row.offset for row in self.rows]
        return replace(self, rows=rows, panel=self.panel.settled())


Span = tuple[Value, Value]
"""The first place along a depth, and the one after the last."""
Innermost = Callable[..., list[Value]]
"""Adds the innermost axis of taps: given factors, extent, sums, and perhaps a span of places."""
Fetch = Callable[[Value, Factors], None]
"""Prefetches what is due in a turn of the innermost loop, given its first place and the factors."""
AddStep = Callable[[Factors, Sequence[Value]], list[Value]]
"""Adds the products of one step along the depth to sums, those of a row next to each other."""


def broadcast_step(dtype: DType, load: LoadLine) -> AddStep:
    """A step that multiplies one element of each row by a line of vectors, in an element type."""

    def add(at: Factors, sums: Sequence[Value]) -> list[Value]:
        vectors = load(at.panel)
        widths = {vector.lanes for vector in vectors}
        added: list[Value] = []
        for row in at.rows:
            element = convert(row.load(), dtype)
            factors = {lanes: element.splat(lanes) for lanes in widths}
            for vector in vectors:
                before = sums[len(added)]
                added.append(multiply_add(factors[vector.lanes], vector, before))
        return added

    return add


def vector_step(
    dtype: DType, lanes: int, lines: Sequence[int], mask: Value | None = None
) -> AddStep:
    """A step that multiplies a vector of each row by one of each line of the panel.

    `lines` are the offsets of the lines in the panel. Where the mask does not hold, nothing is
    loaded.
    """

    def load(place: Pointer) -> Value:
        loaded = place.load(0, lanes) if mask is None else load_masked(place, mask)
        return convert(loaded, dtype)

    def add(at: Factors, sums: Sequence[Value]) -> list[Value]:
        vectors = [load(at.panel + offset) for offset in lines]
        added: list[Value] = []
        for row in at.rows:
            factor = load(row)
            for vector in vectors:
                added.append(multiply_add(factor, vector, sums[len(added)]))
        return added

    return add


def fetch_panel(target: Target, line: int, unroll: int) -> Fetch:
    """What fetches a panel while it is read, given elements of a line and steps in a turn.

    A tile reads a panel so fast that a page ahead is late where the panel comes from memory.
    """
    ahead = max(PAGE, int(AHEAD * target.caches.l1) // LINE * LINE)

    def fetch(place: Value, at: Factors) -> None:
        here, itemsize = at.panel + place * line, at.panel.dtype.itemsize
        for element in range(0, unroll * line, LINE // itemsize):
            here.prefetch(ahead // itemsize + element)

    return fetch


@dataclass(frozen=True)
class Accumulation:
    """How sums are made along a depth: the steps of a loop's turn, and how many sums they go to.

    `add` adds one step, which is `step` places long; a turn of the innermost loop has `unroll` of
    them. They are added to `chains` sums of each element in turns, so that additions need not
    wait for each other. `fetch` prefetches memory at the beginning of a turn.
    """

    add: AddStep
    unroll: int
    step: int = 1
    chains: int = 1
    fetch: Fetch | None = None

    def steps(self, at: Factors, sums: Sequence[Value], count: int) -> list[Value]:
        """Add some steps, written one after the other."""
        made, size = list(sums), len(sums) // self.chains
        for number in range(count):
            first = number % self.chains * size
            own = slice(first, first + size)
            made[own] = self.add(at.at(number * self.step), made[own])
        return made

    def along(
        self, e: Emitter, at: Factors, extent: Index, sums: Sequence[Value], spread: int = 1
    ) -> list[Value]:
        """Add all places of a depth; long sums of floats in blocks.

        The terms of an element are spread over that many sums, which are added later.
        """
        turn = self.unroll * self.step
        if isinstance(extent, Value):
            many = extent - remainder(extent, turn)
            return self._rest(e, at, self._turns(e, at, sums, e.index(0), many), many, extent)
        whole = extent - extent % turn
        size = block_size(largest(whole), turn, 1 / spread)
        if size >= largest(whole) or not sums[0].dtype.is_float:
            found = self._turns(e, at, sums, e.index(0), e.index(whole))
        else:
            found = self._blocks(e, at, list(sums), whole, size)
        if is_ranged(extent):
            return self._rest(e, at, found, e.index(whole), e.index(extent))
        return self.steps(at.at(whole), found, (extent - whole) // self.step)

    def over(self, e: Emitter, taps: Axes, at: Factors, sums: list[Value]) -> list[Value]:
        """Add all taps of windows, a loop for each axis; long sums of floats in blocks.

        A panel has a line for each tap, in order.
        """
        if 0 in taps.extents:
            return sums
        if not sums[0].dtype.is_float or math.prod(taps.extents) <= FEW_TERMS:
            return fold_axes(e, taps, at, sums, partial(self.within, e))
        outer, inner = _cut(taps)
        extent, lines = inner.extents[0], math.prod(inner.extents)
        size = block_size(extent, 1 if inner.extents[1:] else self.unroll, lines / extent)
        pieces = -(-extent // size)

        def block(number: Value) -> list[Value]:
            place, piece = split(number, pieces)
            here = at.moved(outer.offset(place), place * (lines * at.line))
            first = e.index(piece) * size
            last = smaller(first + size, extent) if extent % size else first + size
            return fold_axes(e, inner, here, sums, partial(self.within, e), (first, last))

        return sum_blocks(e, math.prod(outer.extents) * pieces, sums, block)

    def _blocks(
        self, e: Emitter, at: Factors, sums: list[Value], stop: int, size: int
    ) -> list[Value]:
        """The sums of whole turns, in blocks; what sums begin with joins them at the end."""
        zeros = [value.like(0) for value in sums]

        def block(number: Value) -> list[Value]:
            first = number * size
            last = smaller(first + size, stop) if stop % size != 0 else first + size
            return self._turns(e, at, zeros, first, last)

        blocks = -(-stop // size)
        found = sum_blocks(e, e.index(blocks) if is_ranged(blocks) else blocks, zeros, block)
        return [b if a.constant == 0 else a + b for a, b in zip(sums, found, strict=True)]

    def within(
        self,
        e: Emitter,
        at: Factors,
        extent: int,
        sums: Sequence[Value],
        span: tuple[Value, Value] | None = None,
    ) -> list[Value]:
        """Add all places of a depth, or those of a span, as part of longer sums."""
        start, stop = span or (e.index(0), e.index(extent))
        whole = extent - extent % (self.unroll * self.step)
        if stop.constant == extent:
            made = self._turns(e, at, sums, start, e.index(whole))
            return self.steps(at.at(whole), made, (extent - whole) // self.step)
        end = smaller(stop, whole) if whole < extent else stop
        made = self._turns(e, at, sums, start, end)
        return made if whole == extent else self._rest(e, at, made, end, stop)

    def _turns(
        self, e: Emitter, at: Factors, sums: Sequence[Value], start: Value, stop: Value
    ) -> list[Value]:
        def body(place: Value, sums: list[Value]) -> list[Value]:
            if self.fetch is not None:
                self.fetch(place, at)
            return self.steps(at.at(place), sums, self.unroll)

        return e.fold(stop, sums, body, start=start, step=self.unroll * self.step, name="k")

    def _rest(
        self, e: Emitter, at: Factors, sums: Sequence[Value], start: Value, stop: Value
    ) -> list[Value]:
        def body(place: Value, sums: list[Value]) -> list[Value]:
            return self.steps(at.at(place), sums, 1)

        return e.fold(stop, sums, body, start=start, step=self.step, name="k")


def fold_axes(
    e: Emitter,
    taps: Axes,
    at: Factors,
    sums: list[Value],
    innermost: Innermost,
    span: tuple[Value, Value] | None = None,
) -> list[Value]:
    """Add all taps, or of the first axis those of a span: a loop for each axis but the last."""
    extent, *inner = taps.extents or (1,)
    stride, *strides = taps.strides or (0,)
    if not inner:
        here = replace(at, row_step=stride)
        return innermost(here, extent, sums, span) if span else innermost(here, extent, sums)
    rest, lines = Axes(tuple(inner), tuple(strides)), math.prod(inner)

    def body(tap: Value, sums: list[Value]) -> list[Value]:
        here = at.moved(tap * stride, tap * (lines * at.line))
        return fold_axes(e, rest, here, sums, innermost)

    start, stop = span or (e.index(0), e.index(extent))
    return e.fold(stop, sums, body, start=start, name="tap")


def _cut(taps: Axes) -> tuple[Axes, Axes]:
    """Axes that blocks are numbered by, and those within a block, of which the first may be cut."""
    axis, extents = 0, taps.extents
    while math.prod(extents[axis:]) > FEW_TERMS and 2 * math.prod(extents[axis + 1 :]) >= TERMS:
        axis += 1
    outer, inner = (
        Axes(taps.extents[part], taps.strides[part]) for part in (slice(axis), slice(axis, None))
    )
    return outer, inner


def even_unroll(extent: int, most: int, least: int) -> int:
    """Steps in one turn of a loop: between two limits and without a rest, if that can be."""
    fitting = [count for count in range(most, least - 1, -1) if extent % count == 0]
    return min(extent, fitting[0] if fitting else min(most, MOST_WITH_REST))


def join_chains(sums: Sequence[Value], chains: int) -> list[Value]:
    """Add the sums that were made for each element."""
    joined = list(sums)
    size = len(joined) // chains
    while chains > 1:
        chains = (chains + 1) // 2
        kept, added = joined[: chains * size], joined[chains * size :]
        joined = [*(a + b for a, b in zip(kept, added, strict=False)), *kept[len(added) :]]
    return joined


@dataclass(frozen=True)
class Ahead:
    """Memory to prefetch while a tile is computed: `lines` of it a turn, from `start` on."""

    start: Pointer
    lines: int
    locality: int = 2

    def fetch(self, place: Value, unroll: int) -> None:
        """Fetch what is due at a place along the depth, with that many steps in a turn."""
        lines = self.start.cast(u8) + place * (self.lines * LINE // unroll)
        for line in range(self.lines):
            lines.prefetch(line * LINE, locality=self.locality)


def each_span(e: Emitter, depth: int) -> Iterator[tuple[Value, Span]]:
    """Write a block for all blocks of a long sum, given its number and its span."""
    size = block_size(depth, MOST_UNROLLED)
    with e.loop(-(-depth // size), name="block") as number:
        first = number * size
        yield number, (first, smaller(first + size, depth) if depth % size else first + size)


def accumulate(
    e: Emitter,
    tile: RegisterTile,
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
    span: Span | None = None,
    one_chain: bool = False,
) -> list[list[Value]]:
    """The products of rows with a panel, summed along the depth: a vector for each row and vector.

    Elements of a row lie `row_step` apart, lines of the panel `panel_step`, by default one after
    the other. `dtype` is that of the sums; `load` says how a panel is read if not as it lies.
    `initial` is for earlier terms of the same sums: anything that may be much larger than they, as
    a bias, is added afterwards, where it costs one rounding. With a span, only the terms from its
    first place to its last are added, as one block of a longer sum. With `one_chain` the terms of
    every element are added in their order, however small the tile is.
    """
    chains = 1 if one_chain else _chains(tile, depth)

    def fetch(place: Value, _: Factors) -> None:
        for memory in ahead:
            memory.fetch(place, tile.unroll)

    zero, size = e.constant(dtype, 0, tile.lanes), tile.rows * tile.vectors
    first = [vector for row in initial for vector in row] if initial else [zero] * size
    step = broadcast_step(dtype, _line_loader(tile, dtype, load))
    core = Accumulation(step, tile.unroll, chains=chains, fetch=fetch if ahead else None)
    factors = Factors(rows, panel, row_step, tile.columns if panel_step is None else panel_step)
    # a small tile waits for memory: longer blocks interrupt the loads less often
    spread = 1 if chains == 1 else 2 * chains
    before = [*first, *[zero] * (size * (chains - 1))]
    if span is None:
        sums = core.along(e, factors, depth, before, spread)
    else:
        assert isinstance(depth, int)
        sums = core.within(e, factors, depth, before, span)
    return by_rows(join_chains(sums, chains), tile.vectors)


def _line_loader(tile: RegisterTile, dtype: DType, load: LoadVector | None) -> LoadLine:
    read = load or (lambda line, v: line.load(v * tile.lanes, tile.lanes))
    return lambda line: [convert(read(line, v), dtype) for v in range(tile.vectors)]


def by_rows(flat: Sequence[Value], vectors: int) -> list[list[Value]]:
    """Sums by rows, of which each has that many vectors."""
    return [list(flat[start : start + vectors]) for start in range(0, len(flat), vectors)]


def _chains(tile: RegisterTile, depth: Index) -> int:
    """How many sums are made for each element, added at the end: a small tile needs several."""
    chains = 1
    most = min(tile.unroll, largest(depth)) if isinstance(depth, int) else tile.unroll
    while 2 * chains <= most and tile.rows * tile.vectors * chains < ENOUGH_SUMS:
        chains *= 2
    return chains
