"""The gradient of an LSTM layer through time, from its last step to its first.

The sequences of a batch do not meet, so a unit takes a few of them through all steps: the gradients
of the gates' sums times the recurrent weights, a panel of hidden units at a time, give that of the
output of the step before, from which those of its gates follow in registers.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import Index, Value, equal, first_lanes, select
from afterglow.backends.cpu.micro.accumulate import accumulate
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.rows import Row
from afterglow.backends.cpu.micro.tile import RegisterTile, TileRun, most_rows, split_rows
from afterglow.backends.cpu.pointwise import fast
from afterglow.backends.cpu.target import Target
from afterglow.instr import Buffer, OpInstr
from afterglow.ops.lstm_gradient import GATES, LSTMGradient
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType

VECTORS = 4
"""Vectors of a panel, at most."""


@dataclass(frozen=True)
class _Problem:
    """What a step states, and how its product is cut."""

    reverse: bool
    steps: int
    batch: int
    width: int
    dtype: DType
    panels: Panels
    tile: RegisterTile

    @property
    def depth(self) -> int:
        """Sums of all gates, those that fill up the last panel included."""
        return GATES * self.panels.padded

    @property
    def runs(self) -> list[TileRun]:
        """The sequences of the batch in tiles."""
        return split_rows(self.batch, self.tile.rows)


def _problem(step: OpInstr, target: Target) -> _Problem:
    op, y = step.op, step.required[0].type
    assert isinstance(op, LSTMGradient)
    steps, batch, width = y.shape
    lanes = full_lanes(target, y.dtype)
    vectors = min(VECTORS, max(1, -(-width // lanes)))
    panels = Panels.filled(width, lanes, vectors)
    rows = max(1, min(batch, most_rows(target, vectors, y.dtype)))
    tile = RegisterTile(rows, vectors, lanes)
    return _Problem(op.reverse, steps, batch, width, y.dtype, panels, tile)


def _needs(r: KernelRequest) -> KernelNeeds:
    """The weights in panels, the gradients of two steps and of the cell, [batch][gate][unit]."""
    problem = _problem(r.step, r.target)
    padded, dtype = problem.panels.padded, problem.dtype
    return KernelNeeds(
        workspace={
            "weights": Storage(dtype, problem.depth * padded),
            "sums": Storage(dtype, 2 * problem.batch * problem.depth),
            "cell": Storage(dtype, problem.batch * padded),
        },
        scratch={"products": Storage(dtype, problem.tile.rows * problem.tile.columns)},
    )


def _name(step: OpInstr) -> str:
    steps, batch, width = step.required[0].type.shape
    return f"lstm_gradient_{steps}x{batch}x{width}"


@kernel(LSTMGradient, name=_name, epilogue=False, exact=("y",), needs=_needs)
def write_lstm_gradient(k: Kernel) -> None:
    """Write the kernel of the gradient of an LSTM layer."""
    problem = _problem(k.step, k.target)
    if not problem.batch * problem.width:
        return
    _write_weights(k, problem)
    tiles, width = sum(run.last - run.first for run in problem.runs), problem.width
    work = 2.0 * GATES * problem.steps * problem.batch * width * width
    with k.phase(tiles, work, "steps") as p:
        writer = _Backward(p, problem)
        with p.units() as unit:
            for run in problem.runs:
                with p.e.when((unit >= run.first) & (unit < run.last)):
                    writer.write(unit * run.rows + run.shift, run.rows)


def _write_weights(k: Kernel, problem: _Problem) -> None:
    """Put the recurrent weights into panels, [panel][gate][unit][column]; a unit is a panel.

    Lines of hidden units that do not exist are 0.
    """
    panels, recurrence = problem.panels, k.step.required[3]
    with k.phase(panels.count, float(problem.depth * panels.padded), "weights") as p:
        source, made = p.pointer(recurrence), p.workspace("weights")
        with (
            p.units() as panel,
            p.e.loop(GATES, name="gate") as gate,
            p.e.loop(panels.padded, name="unit") as unit,
        ):
            is_there = unit < problem.width
            number = gate * problem.width + select(is_there, unit, 0)
            row = Row(source + number * recurrence.strides[0], recurrence.strides[1])
            to = made + ((panel * GATES + gate) * panels.padded + unit) * panels.width
            for v in range(panels.vectors):
                column = panel * panels.width + v * panels.lanes
                line = row.load(column, panels.lanes, _mask(p, problem, column))
                line = line.splat(panels.lanes)
                to.store(line if _fits(problem) else select(is_there, line, 0.0), v * panels.lanes)


def _fits(problem: _Problem) -> bool:
    return problem.panels.padded == problem.width


def _mask(p: Phase, problem: _Problem, unit: Index) -> Value | None:
    """The lanes from a hidden unit on that exist."""
    if _fits(problem):
        return None
    return first_lanes(p.e.index(problem.width) - unit, problem.panels.lanes)


class _Backward:
    """The function that takes some sequences through all steps."""

    def __init__(self, p: Phase, problem: _Problem) -> None:
        self.p, self.e, self.problem, self.panels = p, p.e, problem, problem.panels
        self.weights, self.cell = p.workspace("weights"), p.workspace("cell")
        self.sums, self.products = p.workspace("sums"), p.scratch("products")
        self.buffers: dict[str, Buffer] = {
            name: buffer
            for name, buffer in zip(p.step.op.operand_names, p.step.ins, strict=False)
            if buffer is not None and name != "recurrence"
        }
        self.pointers = {name: p.pointer(buffer) for name, buffer in self.buffers.items()}
        self.out, self.first = p.sink(0), p.sink(1)

    def write(self, row: Value, rows: int) -> None:
        """All steps of neighbouring sequences."""
        e, problem, padded = self.e, self.problem, self.panels.padded
        e.zero(self.sums + row * problem.depth, rows * problem.depth)
        with e.loop(rows, name="row") as r, self._units() as unit:
            zero = e.constant(problem.dtype, 0, self.panels.lanes)
            start = self._load("last", row + r, unit) if "last" in self.buffers else zero
            self.cell.store(start, (row + r) * padded + unit)
        panels = self.panels.count
        with e.loop(problem.steps, name="step") as step, e.loop(panels, name="panel") as panel:
            self._multiply(step, row, rows, panel)
            with e.loop(rows, name="row") as r:
                self._finish_row(step, row, r, panel)
        with e.loop(rows, name="row") as r, self._units() as unit:
            value = self.cell.load((row + r) * padded + unit, self.panels.lanes)
            self.first.row(row + r).put(unit, value, _mask(self.p, problem, unit))

    def _units(self) -> AbstractContextManager[Value]:
        """A loop over vectors of hidden units."""
        return self.e.loop(self.panels.padded, step=self.panels.lanes, name="unit")

    def _multiply(self, step: Value, row: Value, rows: int, panel: Value) -> None:
        """The gradients of the outputs of a step by way of the next one, laid down by rows."""
        problem, tile = self.problem, self.problem.tile.with_rows(rows)
        source = self.sums + ((step & 1) * problem.batch + row) * problem.depth
        lines = self.weights + panel * (problem.depth * self.panels.width)
        starts = [source + r * problem.depth for r in range(rows)]
        found = accumulate(self.e, tile, starts, lines, problem.depth, problem.dtype)
        for r, vectors in enumerate(found):
            for v, vector in enumerate(vectors):
                self.products.store(vector, r * tile.columns + v * tile.lanes)

    def _finish_row(self, step: Value, row: Value, r: Value, panel: Value) -> None:
        """Finish a panel of one of the sequences."""
        for v in range(self.panels.vectors):
            column = v * self.panels.lanes
            found = self.products.load(r * self.panels.width + column, self.panels.lanes)
            self._finish(step, row + r, panel * self.panels.width + column, found)

    def _finish(self, step: Value, row: Value, unit: Value, product: Value) -> None:
        """The gradients of the sums of the gates, for some hidden units of a sequence."""
        problem, lanes, width = self.problem, self.panels.lanes, self.problem.width
        last = problem.steps - 1
        time = step if problem.reverse else last - step
        place = self.cell + (row * self.panels.padded + unit)
        i, o, f, c = (self._load("gates", row, unit + g * width, time, unit) for g in range(GATES))
        bent = fast.tanh(self._load("cells", row, unit, time))
        dh = product + self._load("y", row, unit, time)
        dc = place.load(0, lanes) + dh * o * (1.0 - bent * bent)
        place.store(dc * f)
        parts = (
            dc * c * i * (1.0 - i),
            dh * bent * o * (1.0 - o),
            dc * self._old(step, row, unit) * f * (1.0 - f),
            dc * i * (1.0 - c * c),
        )
        kept = self.sums + (((step + 1) & 1) * problem.batch + row) * problem.depth
        out, mask = self.out.row(time * problem.batch + row), _mask(self.p, problem, unit)
        for number, part in enumerate(parts):
            kept.store(part, unit + number * self.panels.padded)
            out.put(unit + number * width, part, mask)

    def _old(self, step: Value, row: Value, unit: Value) -> Value:
        """The cell before a step."""
        last = self.problem.steps - 1
        time = step + 1 if self.problem.reverse else last - 1 - step
        inside = select(equal(step, last), self.e.index(0), time)
        first = self._load("first", row, unit) if "first" in self.buffers else 0.0
        return select(equal(step, last), first, self._load("cells", row, unit, inside))

    def _load(
        self, name: str, row: Value, column: Value, time: Index = 0, unit: Value | None = None
    ) -> Value:
        """Some columns of an operand, which exist if the hidden units from `unit` on do."""
        *leading, stride = self.buffers[name].strides
        places = (row,) if len(leading) == 1 else (time, row)
        start = self.pointers[name]
        for place, step in zip(places, leading, strict=True):
            start = start + place * step
        mask = _mask(self.p, self.problem, column if unit is None else unit)
        return Row(start, stride).load(column, self.panels.lanes, mask).splat(self.panels.lanes)
