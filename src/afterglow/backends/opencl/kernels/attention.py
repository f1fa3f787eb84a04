"""Attention without stored scores.

A work-item has a few rows of queries. It goes through the keys a tile at a time: the scores of a
tile stay in its own memory, and what was mixed of earlier values is scaled down whenever a larger
score turns up.
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.broadcast import strides_within
from afterglow.backends.items.around import lanes_of_results, write_result
from afterglow.backends.items.chain import load
from afterglow.backends.items.lanes import combine_lanes, lanes_within
from afterglow.backends.items.language import offset
from afterglow.backends.items.types import computed, is_number
from afterglow.backends.job import Job
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.kernels.lanes import join_lanes, sums_of
from afterglow.backends.opencl.kernels.table import ANCHORS
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.pointwise.vocabulary import call, equal, larger, maximum, select
from afterglow.instr import Buffer, OpInstr
from afterglow.ops.attention import Attention
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import boolean, f32

REGISTERS = {16: 16}
"""Vectors of sums at a time, by their lanes; others have `FEW_REGISTERS`."""
FEW_REGISTERS = 8
MOST_ROWS = 4
MOST_KEYS = 128
"""Keys of a tile: the scores of all rows with them stay in the first cache."""
FEW_KEYS = 32
"""The same where each row of queries has an item, whose own memory is registers."""
GROUP = 64
"""Such items of a work-group."""


@dataclass(frozen=True)
class Shape:
    """The extents of an attention, and how its work is divided."""

    queries: int
    keys: int
    width: int
    columns: int
    most_lanes: int
    """Elements of any vector at most."""
    rows: int
    """Queries of a work-item."""
    vectors: int
    """Vectors of a row that are mixed together at most."""
    block: int
    """Keys whose scores are computed together."""
    tile: int
    """Keys whose scores are there at once."""

    @staticmethod
    def of(step: OpInstr, limits: Limits) -> Shape:
        """How an attention is divided for a device."""
        q, k, v = (step.operand(i).type.shape for i in range(3))
        most = (
            limits.lanes if computed(step.outs[0].type.dtype) is f32 else max(1, limits.lanes // 2)
        )
        registers = REGISTERS.get(most, FEW_REGISTERS)
        rows = min(MOST_ROWS, registers // 4, q[2]) if limits.is_processor else 1
        vectors = _power_below(registers // rows)
        block = min(vectors, most, _power_below(k[2]))
        keys = MOST_KEYS if limits.is_processor else FEW_KEYS
        tile = _tile(k[2], block, keys)
        return Shape(q[2], k[2], q[3], v[3], most, rows, vectors, block, tile)

    @property
    def lanes(self) -> int:
        """Elements of a query, or of a key, in a vector."""
        return lanes_within(self.width, self.most_lanes)

    @property
    def column_lanes(self) -> int:
        """Elements of a value in a vector."""
        return lanes_within(self.columns, self.most_lanes)


def _power_below(number: int) -> int:
    """The largest power of two that is not above a number."""
    return 1 << (number.bit_length() - 1)


def _tile(keys: int, block: int, most: int) -> int:
    """Keys of a tile, such that those left for the last one are none or at least a block."""
    if keys <= most:
        return keys
    sizes = range(most, most // 2 - 1, -block)
    return next((n for n in sizes if keys % n == 0 or keys % n >= block), keys)


def _accepts(step: OpInstr, limits: Limits) -> bool:
    q, k, v = (step.operand(i) for i in range(3))
    dense = all(b.strides[-1] == 1 for b in (q, k, v))
    return dense and is_number(q.type.dtype) and k.type.shape[2] > 0


@ANCHORS.declare(Attention, accepts=_accepts)
def write_attention(job: Job, limits: Limits) -> KernelSource:
    """Rows of queries by rows of queries, for each head."""
    step = job.anchor
    assert step is not None
    return _Rows(Kernel(job, limits), Shape.of(step, limits)).write()


class _Rows:
    """What one work-item does."""

    def __init__(self, kernel: Kernel, shape: Shape) -> None:
        self.kernel, self.code, self.shape = kernel, kernel.code, shape
        step = kernel.step
        assert isinstance(step.op, Attention)
        self.step, self.op = step, step.op
        self.dtype = computed(step.outs[0].type.dtype)
        batch, heads = step.outs[0].type.shape[:2]
        together = 1 if kernel.limits.is_processor else min(GROUP, kernel.limits.work_group)
        groups = -(-shape.queries // (shape.rows * together))
        kernel.items, kernel.group = (groups * together, heads, batch), (together, 1, 1)
        self.is_whole = kernel.items[0] * shape.rows == shape.queries
        code = self.code
        self.first = code.named(code.work_item(0) * shape.rows)
        self.head, self.image = code.work_item(1), code.work_item(2)
        self.rows = [self._row(number) for number in range(shape.rows)]
        self.pitch = self._padded(shape.tile)
        self.scores = code.private(self.dtype, shape.rows * self.pitch)
        self.mixed = code.private(self.dtype, shape.rows * shape.columns)
        lowest = code.constant(self.dtype, float("-inf"))
        self.peaks = [code.variable(lowest) for _ in self.rows]
        self.totals = [code.variable(code.constant(self.dtype, 0)) for _ in self.rows]

    def _row(self, number: int) -> Value:
        """A row of the item; the last one in place of those that there are not."""
        row, queries = self.first + number, self.shape.queries
        if not self.is_whole:
            row = Value(self.code, row.dtype, 1, f"min({row.text}, {queries - 1})")
        return self.code.named(row)

    def write(self) -> KernelSource:
        """All keys, tile by tile, then the results."""
        shape, code = self.shape, self.code
        for place in range(0, shape.rows * shape.columns, shape.column_lanes):
            self.mixed.store(code.constant(self.dtype, 0, shape.column_lanes), place)
        whole, rest = divmod(shape.keys, shape.tile)
        if whole == 1:
            self._write_tile(code.index(0), shape.tile)
        else:
            with code.loop(whole * shape.tile, step=shape.tile) as start:
                self._stop_after_last(start)
                self._write_tile(start, shape.tile)
        if rest:
            self._write_tile(code.index(whole * shape.tile), rest)
        self._write_results()
        return self.kernel.finish()

    @property
    def _ahead(self) -> int:
        """How many keys come before the first query, if later ones are hidden."""
        return self.shape.keys - self.shape.queries

    @property
    def _is_causal(self) -> bool:
        return self.op.causal and self.shape.queries > 1

    def _stop_after_last(self, start: Value) -> None:
        """Leave the loop once no row sees a key of a tile."""
        if self._is_causal:
            last = self.rows[-1] + self._ahead
            self.code.perform(f"if ({start.text} > {last.text}) break;")

    def _write_tile(self, start: Value, count: int) -> None:
        code, shape = self.code, self.shape
        with code.block(""):
            with code.loop(count, step=shape.block) as j:
                self._write_scores(start, self._block_start(j, count))
            self._pad(count)
            factors = [self._weigh(number, count) for number in range(shape.rows)]
            self._mix(start, count, factors)

    def _block_start(self, j: Value, count: int) -> Value:
        """Where a block begins: the last one reaches back, so that it ends with the tile."""
        block = self.shape.block
        if count % block == 0:
            return j
        return self.code.named(Value(self.code, j.dtype, 1, f"min({j.text}, {count - block})"))

    def _write_scores(self, start: Value, j: Value) -> None:
        """The scores of all rows with the keys of a block."""
        code, shape = self.code, self.shape
        keys = [self._start_of(1, start + j + t) for t in range(shape.block)]
        queries = [self._start_of(0, row) for row in self.rows]
        zero = code.constant(self.dtype, 0, shape.lanes)
        sums = [[code.variable(zero) for _ in keys] for _ in queries]
        q, k = (self.kernel.numbers(self.step.operand(i)) for i in range(2))
        with code.fused_loop(shape.width, step=shape.lanes) as d:
            columns = [k.load(key + d, shape.lanes) for key in keys]
            for row, query in zip(sums, queries, strict=True):
                numbers = q.load(query + d, shape.lanes)
                for total, column in zip(row, columns, strict=True):
                    code.perform(f"{total.text} += {numbers.text} * {column.text};")
        for number, row in enumerate(sums):
            scores = self._masked(sums_of(row) * self.op.scale, number, start + j)
            self.scores.store(scores, j + number * self.pitch)

    def _start_of(self, operand: int, place: Value) -> Value:
        """Where a query, a key or a value of this head lies."""
        buffer, heads = self.step.operand(operand), self.step.outs[0].type.shape[1]
        shared = heads // buffer.type.shape[1]
        head = self.head if shared == 1 else self.head.combined("/", shared)
        return self.code.named(offset(self.code, [self.image, head, place], buffer.strides[:3]))

    def _masked(self, scores: Value, number: int, key: Value) -> Value:
        """Scores of a row with the keys from one on, with the mask and what is hidden."""
        lowest, row = float("-inf"), self.rows[number]
        mask = self.step.optional(3)
        if mask is not None:
            seen = self._mask_at(mask, [self.image, self.head, row, key])
            scores = select(seen, scores, lowest) if seen.dtype is boolean else scores + seen
        if self._is_causal:
            last = self.code.named(row + self._ahead)
            scores = select(join_lanes(self._block_from(key)) <= last, scores, lowest)
        return scores

    def _mask_at(self, mask: Buffer, places: Sequence[Value]) -> Value:
        """The mask of the keys of a block."""
        shape = (*self.step.outs[0].type.shape[:2], self.shape.queries, self.shape.keys)
        strides = strides_within(mask, shape)
        if strides[-1] in (0, 1):
            return load(self.kernel, mask, places, strides, self.shape.block)
        *outer, key = places
        each = (load(self.kernel, mask, [*outer, k], strides) for k in self._block_from(key))
        return join_lanes([*each])

    def _block_from(self, key: Value) -> list[Value]:
        """The numbers of the keys of a block."""
        return [self.code.named(key + t) for t in range(self.shape.block)]

    def _pad(self, count: int) -> None:
        """Fill the last vector of scores of a tile with what has no weight."""
        lowest = self.code.constant(self.dtype, float("-inf"))
        for row in range(self.shape.rows):
            for place in range(count, self._padded(count)):
                self.scores.store(lowest, row * self.pitch + place)

    def _padded(self, count: int) -> int:
        lanes = self.shape.most_lanes
        return -(-count // lanes) * lanes

    def _weigh(self, number: int, count: int) -> Value:
        """Turn the scores of a row into weights; the factor of what was mixed before."""
        code, lanes, start = self.code, self.shape.most_lanes, number * self.pitch
        peak = code.variable(code.constant(self.dtype, float("-inf"), lanes))
        with code.loop(self._padded(count), step=lanes) as j:
            code.assign(peak, larger(self.scores.load(j + start, lanes), peak))
        highest = larger(combine_lanes(code, peak, larger), self.peaks[number])
        base = select(equal(highest, float("-inf")), highest.like(0), highest)
        factor = call("exp_down", self.peaks[number] - base)
        total = code.variable(code.constant(self.dtype, 0, lanes))
        with code.loop(self._padded(count), step=lanes) as j:
            weights = call("exp_down", self.scores.load(j + start, lanes) - base)
            self.scores.store(weights, j + start)
            code.assign(total, total + weights)
        added = combine_lanes(code, total, lambda a, b: a + b)
        code.assign(self.totals[number], self.totals[number] * factor + added)
        code.assign(self.peaks[number], highest)
        return factor

    def _mix(self, start: Value, count: int, factors: Sequence[Value]) -> None:
        """Add the values of a tile, each times its weight, to what was mixed before."""
        code, lanes, columns = self.code, self.shape.column_lanes, self.shape.columns
        v = self.step.operand(2)
        first, values = self._start_of(2, start), self.kernel.numbers(v)
        vectors = lanes_within(columns // lanes, self.shape.vectors)
        with code.loop(columns, step=vectors * lanes) as column:
            places = [column + n * lanes for n in range(vectors)]
            sums = [
                [
                    code.variable(self.mixed.load(place + row * columns, lanes) * factor)
                    for place in places
                ]
                for row, factor in enumerate(factors)
            ]
            with code.fused_loop(count) as j:
                mixed_in = [values.load(first + j * v.strides[2] + p, lanes) for p in places]
                for number, row in enumerate(sums):
                    weight = self.scores.load(j + number * self.pitch)
                    for total, value in zip(row, mixed_in, strict=True):
                        code.perform(f"{total.text} += {weight.text} * {value.text};")
            for number, row in enumerate(sums):
                for total, place in zip(row, places, strict=True):
                    self.mixed.store(total, place + number * columns)

    def _write_results(self) -> None:
        """What was mixed, by the sum of all weights; none for rows that there are not."""
        code, shape = self.code, self.shape
        lanes = lanes_of_results(self.kernel, shape.column_lanes)
        for number, row in enumerate(self.rows):
            bound = "" if self.is_whole else self._exists(number)
            with code.block(bound):
                total = maximum(self.totals[number], self.totals[number].like(1))
                with code.loop(shape.columns, step=lanes) as column:
                    mixed = self.mixed.load(column + number * shape.columns, lanes)
                    places = [self.image, self.head, row, column]
                    write_result(self.kernel, mixed / total, places, lanes)

    def _exists(self, number: int) -> str:
        return f"if ({(self.first + number).text} < {self.shape.queries})"
