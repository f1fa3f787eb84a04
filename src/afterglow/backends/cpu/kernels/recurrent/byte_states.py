"""Recurrent products of bytes: states are quantized before each step, each by its own range.

Weights lie in panels of some hidden units with all their gates, [panel][quad of states][gate][unit]
[4], as `kernels/quantized/dots.py` reads them. The sum of (h - a) (w - b) is that of h w, less a
times the sum of the weights of a column, less b times the sum of h - a.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.backends.cpu.kernels.quantized.dots import QUAD, dots_of, read_type
from afterglow.backends.cpu.kernels.recurrent.problem import RecurrentProblem
from afterglow.backends.cpu.llvm.emitter import (
    Pointer,
    Value,
    clamp,
    convert,
    equal,
    first_lanes,
    larger,
    reduce_max,
    reduce_min,
    reduce_sum,
    rint,
    select,
    smaller,
)
from afterglow.backends.cpu.micro.accumulate import Accumulation, Factors, by_rows, even_unroll
from afterglow.backends.cpu.micro.kernel import KernelNeeds, Phase, Storage
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.rows import Row
from afterglow.backends.cpu.micro.tile import RegisterTile
from afterglow.backends.cpu.target import Target
from afterglow.ops.quantized_lstm import GATES, MOST, QuantizedLSTM
from afterglow.types import Array
from afterglow.types.dtype import f32, i8, i32, u8

MOST_QUADS = 4
"""Quads of a state in one turn of the innermost loop."""
SIGN = 128
"""What signed bytes are less than unsigned ones."""


def byte_needs(problem: RecurrentProblem, panels: Panels, target: Target) -> KernelNeeds:
    """The bytes of states, and of each its scale, zero point and share of the weights'."""
    batch = problem.batch
    stored = read_type(target, u8, constant=False)
    return KernelNeeds(
        {
            "bytes": Storage(stored, batch * _stride(panels)),
            "scales": Storage(f32, batch),
            "points": Storage(i32, batch),
            "shifts": Storage(i32, batch),
        },
        packed=(1,),
    )


def _stride(panels: Panels) -> int:
    """How far apart the bytes of states lie: whole quads."""
    return -(-panels.padded // QUAD) * QUAD


class ByteProduct:
    """States as bytes times weights that are bytes; see `products.StateProduct`."""

    def __init__(
        self, p: Phase, problem: RecurrentProblem, op: QuantizedLSTM, panels: Panels
    ) -> None:
        self.p, self.e, self.problem, self.panels = p, p.e, problem, panels
        self.weight_point = op.recurrence_zero_point
        self.dots, recurrence = dots_of(p.target), problem.given["recurrence"]
        self.bytes = p.workspace("bytes")
        self.scales, self.points = p.workspace("scales"), p.workspace("points")
        self.shifts = p.workspace("shifts")
        name = f"{self.dots.name}{panels.width}"
        self.weights = p.packed(recurrence, name, self._pack, self.dots.weight)
        self.column_sums = p.packed(recurrence, f"sums{panels.width}", self._pack_sums, i32)
        scale = problem.given["scale"]
        self.weight_scales = Row(p.pointer(scale), scale.strides[0])

    @property
    def quads(self) -> int:
        """Quads of a state."""
        return -(-self.problem.width // QUAD)

    def prepare(self, source: Pointer, first: Value, rows: int) -> None:
        """Quantize neighbouring states."""
        with self.e.loop(rows, name="row") as number:
            row = first + number
            self._quantize(source + row * self.panels.padded, row)

    def _quantize(self, state: Pointer, row: Value) -> None:
        low, high = self._range(state)
        scale = (high - low) / MOST
        scale = select(equal(scale, 0.0), scale.like(1.0), scale)
        point = clamp(rint((0.0 - low) / scale), 0.0, MOST)
        total = self._write_bytes(state, row, scale, point)
        zero = convert(point, i32)
        self.scales.store(scale, row)
        self.points.store(zero - self._sign, row)
        self.shifts.store((total - zero * self.problem.width) * self.weight_point, row)

    @property
    def _sign(self) -> int:
        return SIGN if self.bytes.dtype is i8 else 0

    def _range(self, state: Pointer) -> tuple[Value, Value]:
        """The least and the largest number of a state, or 0."""
        lanes = self.panels.lanes
        zero = self.e.constant(f32, 0, lanes)

        def add(unit: Value, found: Sequence[Value]) -> list[Value]:
            x = self._load(state, unit)
            return [smaller(found[0], x), larger(found[1], x)]

        low, high = self.e.fold(self.panels.padded, [zero, zero], add, step=lanes, name="unit")
        return (low, high) if lanes == 1 else (reduce_min(low), reduce_max(high))

    def _load(self, state: Pointer, unit: Value) -> Value:
        """Some numbers of a state, 0 where it has none."""
        lanes = self.panels.lanes
        x = state.load(unit, lanes)
        if self.panels.padded == self.problem.width:
            return x
        return select(first_lanes(self.e.index(self.problem.width) - unit, lanes), x, 0.0)

    def _write_bytes(self, state: Pointer, row: Value, scale: Value, point: Value) -> Value:
        """Write the bytes of a state, and return the sum of the unsigned ones."""
        lanes, to = self.panels.lanes, self.bytes + row * _stride(self.panels)
        step, zero = scale.splat(lanes), point.splat(lanes)

        def write(unit: Value, sums: Sequence[Value]) -> list[Value]:
            x = clamp(rint(self._load(state, unit) / step) + zero, 0.0, MOST)
            number = convert(x, i32)
            to.store(convert(number - self._sign, self.bytes.dtype), unit)
            beyond = self.panels.padded != self.problem.width
            if beyond:
                inside = first_lanes(self.e.index(self.problem.width) - unit, lanes)
                number = select(inside, number, 0)
            return [sums[0] + number]

        zeros = [self.e.constant(i32, 0, lanes)]
        (total,) = self.e.fold(self.panels.padded, zeros, write, step=lanes, name="unit")
        return total if lanes == 1 else reduce_sum(total)

    def sums(
        self, tile: RegisterTile, source: Pointer, row: Value, panel: Value
    ) -> list[list[Value]]:
        """See `products.StateProduct`."""
        line = tile.columns * QUAD
        start = self.bytes + row * _stride(self.panels)
        rows = [start + r * _stride(self.panels) for r in range(tile.rows)]
        weights = self.weights + panel * (self.quads * line)
        zeros = [self.e.constant(i32, 0, tile.lanes)] * (tile.rows * tile.vectors)

        def add(at: Factors, sums: Sequence[Value]) -> list[Value]:
            return self.dots.add(sums, at.rows, at.panel, tile.vectors)

        core = Accumulation(add, even_unroll(self.quads, min(MOST_QUADS, self.quads), 2))
        found = core.along(self.e, Factors(rows, weights, QUAD, line), self.quads, zeros)
        return self._real(tile, by_rows(found, tile.vectors), row, panel)

    def _real(
        self, tile: RegisterTile, sums: list[list[Value]], row: Value, panel: Value
    ) -> list[list[Value]]:
        """Sums of products of bytes as real numbers."""
        made: list[list[Value]] = [[] for _ in sums]
        facts = [
            [part.load(row + r).splat(tile.lanes) for r in range(len(sums))]
            for part in (self.points, self.shifts, self.scales)
        ]
        for v in range(tile.vectors):
            column = self.column_sums.load(panel * tile.columns + v * tile.lanes, tile.lanes)
            scale = self._weight_scale(panel, v)
            for r, found in enumerate(sums):
                point, shift, step = (fact[r] for fact in facts)
                whole = found[v] - column * point
                whole = whole - shift if self.weight_point else whole
                made[r].append(convert(whole, f32) * (step * scale))
        return made

    def _weight_scale(self, panel: Value, vector: int) -> Value:
        """The scales of the weights of one vector of a panel."""
        gate, number = divmod(vector, self.panels.vectors)
        lanes, width = self.panels.lanes, self.problem.width
        unit = panel * self.panels.width + number * lanes
        mask = None
        if self.panels.padded != width:
            mask = first_lanes(self.e.index(width) - unit, lanes)
        return self.weight_scales.load(unit + gate * width, lanes, mask).splat(lanes)

    def _lines(self, weight: Array) -> Array:
        """The weights [panels, quads, gates and units, 4]; what is not there is 0."""
        panels, width = self.panels, self.problem.width
        padded = np.zeros((GATES, panels.padded, self.quads * QUAD), np.int16)
        padded[:, :width, :width] = weight.reshape(GATES, width, width)
        cut = padded.reshape(GATES, panels.count, panels.width, self.quads, QUAD)
        ordered = cut.transpose(1, 3, 0, 2, 4)
        return ordered.reshape(panels.count, self.quads, GATES * panels.width, QUAD)

    def _pack(self, weight: Array) -> Array:
        return np.ascontiguousarray(self.dots.pack(self._lines(weight)))

    def _pack_sums(self, weight: Array) -> Array:
        return np.ascontiguousarray(self._lines(weight).sum((1, 3), dtype=np.int32))
