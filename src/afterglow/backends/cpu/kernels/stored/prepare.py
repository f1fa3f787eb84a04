"""The phase before a product that puts rows into their form, and sums up their spans."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.stored.panels import CHUNK, StoredPanels
from afterglow.backends.cpu.kernels.stored.row_forms import FloatRows, RowForm
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    absolute,
    larger,
    reduce_max,
    reduce_sum,
    rint,
    vector,
)
from afterglow.backends.cpu.micro.fusion import SourceRow
from afterglow.backends.cpu.micro.kernel import Phase, Storage
from afterglow.ops.rounded_rows import LEAST_PEAK, ROUNDED_PEAK
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32
from afterglow.types.extent import largest

MOST_LANES = 8
"""Lanes of the vectors in which rows are read."""


@dataclass(frozen=True)
class PreparedRows:
    """Rows in a form; `rounded_block` neighbours, unless 0, are rounded to 8 bits together first.

    `factors` has what results of a row or, of rounded integers, those of a chunk are multiplied by;
    `sums` what is added to the products of a span because of zero points; `totals` the sums of the
    numbers of a span, for the minimums.
    """

    panels: StoredPanels
    form: RowForm
    rounded_block: int

    @property
    def line(self) -> int:
        """Elements of a row in its form."""
        return self.panels.chunks * self.form.size

    @property
    def spans(self) -> int:
        """Spans of a row."""
        return self.panels.chunks * self.panels.spans

    @property
    def factors(self) -> int:
        """Factors of a row: one, or one for each chunk that is an integer times its own."""
        return self.panels.chunks if self.has_chunk_factors else int(self.form.is_relative)

    @property
    def has_chunk_factors(self) -> bool:
        """Whether the products of a chunk are multiplied by a factor of the row."""
        return self.rounded_block > 0 and not isinstance(self.form, FloatRows)

    @property
    def has_sums(self) -> bool:
        """Whether products are corrected, since what is stored as 0 stands for another number."""
        return self.panels.zero is not None or self.panels.middle != self.form.shift

    def workspace(self, rows: int) -> dict[str, Storage]:
        """Memory for rows and what is known of them."""
        counts = {"factors": self.factors}
        counts["sums"] = self.spans * self.has_sums
        counts["totals"] = self.spans * (self.panels.minimum is not None)
        made = {name: Storage(f32, largest(rows) * n) for name, n in counts.items() if n}
        return {"rows": Storage(self.form.dtype, largest(rows) * self.line), **made}


@dataclass(frozen=True)
class ChunkRange:
    """Neighbouring chunks: `whole` ones and, if it has the last of the row, one that may not be."""

    first: Index
    whole: int
    has_last: bool = False


@dataclass(frozen=True)
class _Scaling:
    """What numbers are multiplied by, and the integers that they become afterwards, if rounded."""

    factor: Value
    scale: Value | None


class RowsPhase:
    """The function that puts rows into their form; a unit is a row."""

    def __init__(self, p: Phase, prepared: PreparedRows) -> None:
        self.p, self.e, self.own = p, p.e, prepared
        self.panels, self.form = prepared.panels, prepared.form
        self.source = p.source(0)
        self.lanes = min(MOST_LANES, self.panels.span)
        names = p.kernel.needs.workspace
        self.places = {name: p.workspace(name) for name in prepared.workspace(1) if name in names}

    def write(self) -> None:
        """Write all of it."""
        depth, block = self.panels.depth, self.own.rounded_block
        with self.p.units() as row:
            given = self.source.row(row)
            if block <= CHUNK:
                whole = ChunkRange(0, depth // CHUNK, depth % CHUNK > 0)
                self._put_all(given, row, whole, self._row_scaling(given, row, whole))
                return
            blocks, chunks = depth // block, block // CHUNK
            with self.e.loop(blocks, name="block") as number:
                self._put_block(given, row, ChunkRange(number * chunks, chunks))
            left = depth % block
            if left:
                rest = ChunkRange(blocks * chunks, left // CHUNK, left % CHUNK > 0)
                self._put_block(given, row, rest)

    def _put_block(self, given: SourceRow, row: Value, chunks: ChunkRange) -> None:
        """Write chunks that are rounded together."""
        peak, nothing = self._peak_of(given, chunks)
        self._put_all(given, row, chunks, _rounding(peak, nothing))

    def _put_all(
        self, given: SourceRow, row: Value, chunks: ChunkRange, scaling: _Scaling | None
    ) -> None:
        """Write chunks; without a scaling, each has its own or none."""
        with self.e.loop(chunks.whole, name="chunk") as number:
            chunk = chunks.first + number
            self._put(self._loaded(given, chunk * CHUNK), row, chunk, scaling)
        if chunks.has_last:
            self._put(self._last(given), row, chunks.first + chunks.whole, scaling)

    def _loaded(self, given: SourceRow, first: Index) -> list[Value]:
        """The numbers of a chunk."""
        return [given.load(first + at, self.lanes) for at in range(0, CHUNK, self.lanes)]

    def _last(self, given: SourceRow) -> list[Value]:
        """The numbers of the last chunk, with zeros after them."""
        depth, zero = self.panels.depth, self.e.constant(f32, 0)
        first = depth - depth % CHUNK
        each = [given.load(first + at) if first + at < depth else zero for at in range(CHUNK)]
        return [vector(each[at : at + self.lanes]) for at in range(0, CHUNK, self.lanes)]

    def _row_scaling(self, given: SourceRow, row: Value, whole: ChunkRange) -> _Scaling | None:
        """What a whole row is multiplied by, if anything; results are multiplied by its inverse."""
        if not self.form.is_relative:
            return None
        peak, nothing = self._peak_of(given, whole)
        factor, inverse = self.form.factor(peak)
        self.places["factors"].store(inverse + nothing, row)
        return _Scaling(factor, None)

    def _peak_of(self, given: SourceRow, chunks: ChunkRange) -> tuple[Value, Value]:
        """The largest of all numbers without their signs; and 0, or NaN if one is not finite."""

        def found(xs: list[Value], before: list[Value]) -> list[Value]:
            return [_peak(xs, before[0]), _added([before[1], *(x * 0.0 for x in xs)])]

        def body(number: Value, before: list[Value]) -> list[Value]:
            return found(self._loaded(given, (chunks.first + number) * CHUNK), before)

        zero = self.e.constant(f32, 0, self.lanes)
        both = self.e.fold(chunks.whole, [zero, zero], body, name="chunk")
        peak, nothing = found(self._last(given), both) if chunks.has_last else both
        return reduce_max(peak), reduce_sum(nothing)

    def _put(self, xs: list[Value], row: Value, chunk: Index, scaling: _Scaling | None) -> None:
        """Write a chunk, and what is known of it."""
        if scaling is None and self.own.rounded_block:
            scaling = _rounding_of(xs)
        scale = None
        if scaling is not None:
            xs, scale = [x * scaling.factor.splat(self.lanes) for x in xs], scaling.scale
        if self.own.rounded_block:
            xs = [rint(x) for x in xs]
        if self.own.has_chunk_factors and scale is not None:
            self._place("factors", row, chunk, self.panels.chunks).store(scale)
        elif scale is not None:
            xs = [x * scale.splat(self.lanes) for x in xs]
        to = self._place("rows", row, chunk * self.form.size, self.own.line)
        for number, x in enumerate(xs):
            self.form.store(x, to + number * self.lanes)
        self._sum_up(xs, row, chunk, scale if self.own.has_chunk_factors else None)

    def _sum_up(self, xs: list[Value], row: Value, chunk: Index, scale: Value | None) -> None:
        """Write what products are corrected by, for each span."""
        if not ("sums" in self.places or "totals" in self.places):
            return
        size = self.panels.span // self.lanes
        for span in range(self.panels.spans):
            total = reduce_sum(_added(xs[span * size : (span + 1) * size]))
            at = chunk * self.panels.spans + span
            if "sums" in self.places:
                zero = 1 if self.panels.zero is not None else self.panels.middle - self.form.shift
                self._place("sums", row, at, self.own.spans).store(total * float(-zero))
            if "totals" in self.places:
                real = total if scale is None else total * scale
                self._place("totals", row, at, self.own.spans).store(real)

    def _place(self, name: str, row: Value, at: Index, line: int) -> Pointer:
        return self.places[name] + row * line + at


def _rounding(peak: Value, nothing: Value) -> _Scaling:
    """How numbers are rounded to 8 bits, see `round_rows`; `nothing` is 0, or NaN to spread it."""
    most = larger(peak, LEAST_PEAK)
    return _Scaling(most.like(ROUNDED_PEAK) / most, most / ROUNDED_PEAK + nothing)


def _rounding_of(xs: list[Value]) -> _Scaling:
    """How the numbers of a chunk are rounded."""
    nothing = reduce_sum(_added([x * 0.0 for x in xs]))
    return _rounding(reduce_max(_peak(xs, absolute(xs[0]))), nothing)


def _peak(xs: list[Value], peak: Value) -> Value:
    """The largest of some numbers in each lane, without their signs, and of what was found."""
    for x in xs:
        peak = larger(peak, absolute(x))
    return peak


def _added(xs: list[Value]) -> Value:
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total
