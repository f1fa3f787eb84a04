"""The steps of a recurrent layer, which run one after the other."""

from __future__ import annotations

from dataclasses import replace

from afterglow.backends.cpu.kernels.recurrent.cells import Stage, stages_of, states_of, values_of
from afterglow.backends.cpu.kernels.recurrent.panels import back_and_forth, panels_of
from afterglow.backends.cpu.kernels.recurrent.problem import RecurrentProblem
from afterglow.backends.cpu.kernels.recurrent.products import (
    open_product,
    product_needs,
    write_weights,
)
from afterglow.backends.cpu.kernels.recurrent.projection import open_projection
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, convert, first_lanes, select
from afterglow.backends.cpu.micro.index_check import IndexCheck
from afterglow.backends.cpu.micro.kernel import (
    Kernel,
    KernelFunction,
    KernelNeeds,
    Phase,
    Storage,
)
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.rows import Row
from afterglow.backends.cpu.micro.tile import (
    RegisterTile,
    each_height,
    each_tile,
    most_rows,
    ranged_tile,
)
from afterglow.backends.cpu.target import Target
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import i64
from afterglow.types.extent import (
    is_ranged,
    larger_extent,
    largest,
    smaller_extent,
    smallest,
)

INITIAL = {"h": "initial_h", "c": "initial_c"}
"""The operands that hold states before the first step."""
LOW_TILE = 2
"""Rows of a tile beyond which it has one less than fits, or LLVM runs out of registers."""
FEW_ROWS = 6
"""Rows of a tile at most where the batch is ranged, and there is code for every height."""
STATE_RANK = 2
"""Axes of a state; results with more of them are of every step."""
MOST_BLOCKS = (4, 3, 2)
LEAST_SEQUENCES = 8
"""Blocks into which a batch may be cut, and sequences that make one worth it."""
MOST_SHARED_STEPS = 256
LEAST_SHARED_WIDTH = 256
"""Hidden units from which a step is worth being shared between threads."""


def write_steps(kernel: Kernel, problem: RecurrentProblem) -> None:
    """Write the phases that follow the projection of the inputs."""
    panels, stages = panels_of(problem, kernel.target), stages_of(problem.op)
    for stage in stages:
        write_weights(kernel, problem, panels, stage.gates)
    with kernel.phase(1, 0.0, "begin") as p, p.units():
        _write_begin(p, problem, panels)
    if _shares_steps(problem):
        _write_shared_steps(kernel, problem, panels, stages)
    elif largest(problem.steps):
        _write_steps_alone(kernel, problem, panels, stages)
    with kernel.phase(1, 0.0, "end") as p, p.units():
        _write_end(p, problem, panels)


def _shares_steps(problem: RecurrentProblem) -> bool:
    """Whether threads share each step, and wait for each other after it."""
    few = 0 < largest(problem.steps) <= MOST_SHARED_STEPS
    return few and problem.width >= LEAST_SHARED_WIDTH


def _work(problem: RecurrentProblem, stage: Stage) -> float:
    """Multiplications and additions in a stage of one step."""
    return 2.0 * problem.batch * len(stage.gates) * problem.width * problem.width


def _write_steps_alone(
    kernel: Kernel, problem: RecurrentProblem, panels: Panels, stages: list[Stage]
) -> None:
    """All steps of some sequences, which do not meet, as one unit."""
    work = problem.steps * sum(_work(problem, stage) for stage in stages)
    blocks = _blocks(problem.batch)
    rows = problem.batch // blocks
    with kernel.phase(blocks, work, "steps") as p:
        writer = _Steps(p, problem, panels, stages)
        with p.units() as block, p.e.loop(problem.steps, name="step") as step:
            first = block * rows if blocks > 1 else p.e.index(0)
            for stage in stages:
                writer.prepare(stage, step, first, rows)
                with p.e.loop(panels.count, name="panel") as number:
                    panel = back_and_forth(step, number, 0, panels.count)
                    writer.write(stage, step, panel, first, rows)


def _blocks(batch: int) -> int:
    """Into how many equal blocks of sequences a batch is cut, so that threads can share it."""
    if is_ranged(batch):
        return 1
    fitting = (n for n in MOST_BLOCKS if batch % n == 0 and batch // n >= LEAST_SEQUENCES)
    return next(fitting, 1)


def _write_shared_steps(
    kernel: Kernel, problem: RecurrentProblem, panels: Panels, stages: list[Stage]
) -> None:
    """A function for each stage, which runs as often as there are steps; a unit is a panel.

    Each panel counts its steps.
    """
    before = len(kernel.functions)
    for number, stage in enumerate(stages):
        if problem.is_projected:
            _write_shared_preparation(kernel, problem, panels, stage)
        with kernel.phase(panels.count, _work(problem, stage), f"stage{number}") as p:
            writer = _Steps(p, problem, panels, stages)
            counters = _open_counters(p, f"steps{number}")
            step = counters.load(p.begin)
            with p.units() as unit:
                panel = back_and_forth(step, unit, p.begin, p.end)
                writer.write(stage, step, panel, p.e.index(0), problem.batch)
                counters.store(step + 1, panel)
    made, steps = kernel.functions[before:], problem.steps
    kernel.functions[before:] = [
        _at_step(function, number, steps) for number in range(largest(steps)) for function in made
    ]


def _write_shared_preparation(
    kernel: Kernel, problem: RecurrentProblem, panels: Panels, stage: Stage
) -> None:
    """What comes before the product of a stage, a unit for each sequence."""
    with kernel.phase(problem.batch, float(problem.batch * problem.width), "prepare") as p:
        writer, counters = _Steps(p, problem, panels, [stage]), _open_counters(p, "prepared")
        with p.units() as row:
            step = counters.load(row)
            writer.prepare(stage, step, row, 1)
            counters.store(step + 1, row)


def _at_step(function: KernelFunction, number: int, steps: int) -> KernelFunction:
    """A function as it runs for a step, which may come after the last one.

    The first counts for the work of all: a sum over steps would be a long expression.
    """
    if not is_ranged(steps):
        return function
    share = steps * max(1, round(function.work)) if number == 0 else 0.0
    if number < smallest(steps):
        return replace(function, share=share)
    happens = smaller_extent(1, larger_extent(0, steps - number))
    return replace(function, units=function.units * happens, share=share)


def steps_needs(problem: RecurrentProblem, target: Target) -> KernelNeeds:
    """Panels of the weights, counters of steps, and states [batch][hidden unit].

    Of h there is that of every other step, too.
    """
    panels, stages = panels_of(problem, target), stages_of(problem.op)
    parts = [product_needs(problem, panels, stage.gates, target) for stage in stages]
    workspace = {name: storage for part in parts for name, storage in part.workspace.items()}
    if _shares_steps(problem):
        workspace.update({n: Storage(i64, c) for n, c in _counters(problem, panels).items()})
    state = problem.batch * panels.padded
    for name in (*states_of(problem.op), *values_of(problem.op)):
        workspace[name] = Storage(problem.dtype, 2 * state if name == "h" else state)
    most = max(_tile(problem, panels, stage, target).rows * len(stage.gates) for stage in stages)
    return KernelNeeds(
        workspace, {"sums": Storage(problem.dtype, most * panels.width)}, parts[0].packed
    )


def _counters(problem: RecurrentProblem, panels: Panels) -> dict[str, int]:
    """The names of counters of steps that units share, and how many units each has."""
    counters = {f"steps{n}": panels.count for n, _ in enumerate(stages_of(problem.op))}
    return {**counters, "prepared": problem.batch} if problem.is_projected else counters


def _open_counters(p: Phase, name: str) -> Pointer:
    """How many steps each unit has done."""
    return p.workspace(name).cast(p.e.index_type)


def _write_begin(p: Phase, problem: RecurrentProblem, panels: Panels) -> None:
    """The states before the first step."""
    if _shares_steps(problem):
        for name, count in _counters(problem, panels).items():
            p.e.zero(_open_counters(p, name), count)
    _check_lengths(p, problem)
    for name in states_of(problem.op):
        state = p.workspace(name)
        given = problem.given.get(INITIAL[name])
        if given is None:
            p.e.zero(state, problem.batch * panels.padded)
            continue
        source = p.pointer(given)
        with p.e.loop(problem.batch, name="row") as row:
            line = Row(source + row * given.strides[0], given.strides[1])
            with p.e.loop(panels.padded, step=panels.lanes, name="unit") as unit:
                mask = _mask(p, panels, unit)
                loaded = convert(line.load(unit, panels.lanes, mask), problem.dtype)
                state.store(loaded.splat(panels.lanes), row * panels.padded + unit)


def _check_lengths(p: Phase, problem: RecurrentProblem) -> None:
    """Once is enough: a step only asks whether it comes before the end of a sequence."""
    lengths = problem.given.get("lengths")
    if lengths is not None:
        check, line = IndexCheck(p, "lengths"), Row(p.pointer(lengths), lengths.strides[0])
        with p.e.loop(problem.batch, name="row") as row:
            check.place(line.load(row, 1))


def _write_end(p: Phase, problem: RecurrentProblem, panels: Panels) -> None:
    """The states after the last step."""
    for number, name in enumerate(states_of(problem.op)):
        state, sink = p.workspace(name), p.sink(number + 1)
        copy = problem.steps % 2 if name == "h" else 0
        with p.e.loop(problem.batch, name="row") as row:
            out = sink.row(row)
            line = state + (row + copy * problem.batch) * panels.padded
            with p.e.loop(panels.padded, step=panels.lanes, name="unit") as unit:
                out.put(unit, line.load(unit, panels.lanes), _mask(p, panels, unit))


def _mask(p: Phase, panels: Panels, unit: Index) -> Value | None:
    """The lanes from a hidden unit on that exist."""
    if panels.columns % panels.lanes == 0 and panels.padded == panels.columns:
        return None
    return first_lanes(p.e.index(panels.columns) - unit, panels.lanes)


def _tile(problem: RecurrentProblem, panels: Panels, stage: Stage, target: Target) -> RegisterTile:
    """The tile of the product of a stage."""
    vectors = len(stage.gates) * panels.vectors
    most = most_rows(target, vectors, problem.dtype)
    rows = most - 1 if most > LOW_TILE else most
    if is_ranged(problem.batch):
        rows = min(rows, FEW_ROWS)
    return RegisterTile(min(rows, largest(problem.batch)), vectors, panels.lanes)


class _Steps:
    """The function that does the stages of steps."""

    def __init__(
        self, p: Phase, problem: RecurrentProblem, panels: Panels, stages: list[Stage]
    ) -> None:
        self.p, self.e, self.problem, self.panels = p, p.e, problem, panels
        self.stages = stages
        self.products = [open_product(p, problem, panels, stage.gates) for stage in self.stages]
        self.projection = open_projection(p, problem)
        names = (*states_of(problem.op), *values_of(problem.op))
        self.states = {name: p.workspace(name) for name in names}
        self.parameters = {
            name: Row(p.pointer(buffer), buffer.strides[0])
            for name, buffer in problem.given.items()
            if name in ("hidden_bias", "peepholes")
        }
        self.lengths = None
        lengths = problem.given.get("lengths")
        if lengths is not None:
            self.lengths = Row(p.pointer(lengths), lengths.strides[0])
        steps = [number for number, out in enumerate(p.step.outs) if out.type.rank > STATE_RANK]
        self.sinks = {number: p.sink(number) for number in steps}
        self.sums = p.scratch("sums")

    def _tile(self, stage: Stage) -> RegisterTile:
        return _tile(self.problem, self.panels, stage, self.p.target)

    def write(self, stage: Stage, step: Value, panel: Value, first: Value, batch: int) -> None:
        """One stage of a step, for the hidden units of a panel and `batch` sequences."""
        time = self.problem.steps - 1 - step if self.problem.op.reverse else step
        tile, product = self._tile(stage), self.products[self.stages.index(stage)]
        source = self.source(stage.source, step)

        def sums(height: int, row: Value) -> list[list[Value]]:
            return product.sums(tile.with_rows(height), source, row, panel)

        if not is_ranged(batch):
            for height, number in each_tile(self.e, batch, tile.rows):
                row = first + number
                place = _CellState(self, step, time, row, panel * self.panels.width)
                self._finish(stage, place, sums(height, row))
            return
        tiles = -(-batch // tile.rows)
        with self.e.loop(tiles, name="tile") as number:
            row, rows = ranged_tile(self.e, batch, tiles, number)
            for height in each_height(self.e, rows, tile.rows):
                self._keep(sums(height, row))
            place = _CellState(self, step, time, row, panel * self.panels.width)
            self._finish_kept(stage, place, rows)

    def prepare(self, stage: Stage, step: Value, first: Value, batch: int) -> None:
        """What the products of a stage need of `batch` states."""
        product = self.products[self.stages.index(stage)]
        product.prepare(self.source(stage.source, step), first, batch)

    def source(self, name: str, step: Value) -> Pointer:
        """The state that a step begins with."""
        if name != "h":
            return self.states[name]
        return self.states["h"] + (step & 1) * (self.problem.batch * self.panels.padded)

    def made(self, name: str, step: Value) -> Pointer:
        """The state that a step ends with."""
        return self.source(name, step + 1)

    def _finish(self, stage: Stage, place: _CellState, sums: list[list[Value]]) -> None:
        """Of one state in registers; of several by a loop, which is less code."""
        vectors = self.panels.vectors
        if len(sums) == 1:
            for v in range(vectors):
                _finish_vector(stage, place.vector(v), sums[0][v::vectors])
            return
        self._keep(sums)
        self._finish_kept(stage, place, len(sums))

    def _keep(self, sums: list[list[Value]]) -> None:
        """Lay down sums where `_finish_kept` finds them."""
        lanes = self.panels.lanes
        size = len(sums[0]) * lanes
        for number, row in enumerate(sums):
            for v, vector in enumerate(row):
                self.sums.store(vector, number * size + v * lanes)

    def _finish_kept(self, stage: Stage, first: _CellState, rows: Index) -> None:
        """Finish states whose sums were laid down, by a loop."""
        vectors, lanes = self.panels.vectors, self.panels.lanes
        size = len(stage.gates) * vectors * lanes
        with self.e.loop(rows, name="row") as r:
            line = self.sums + r * size
            place = first.below(r)
            for v in range(vectors):
                found = [
                    line.load((gate * vectors + v) * lanes, lanes)
                    for gate in range(len(stage.gates))
                ]
                _finish_vector(stage, place.vector(v), found)


def _finish_vector(stage: Stage, place: _CellState, sums: list[Value]) -> None:
    """Add what is not a product to the sums of the gates, and finish the stage."""
    addends = [stage.addend(gate, place) for gate in stage.gates]
    made = [x if a is None else x + a for x, a in zip(sums, addends, strict=True)]
    stage.finish(place, made)


@dataclass(frozen=True)
class _CellState:
    """A vector of hidden units, from `unit` on, of one state at a time; see `cells.CellState`."""

    steps: _Steps
    step: Value
    time: Value
    row: Value
    unit: Value
    offset: int = 0

    def vector(self, number: int) -> _CellState:
        """A vector of the panel that begins here."""
        offset = number * self.steps.panels.lanes
        return _CellState(self.steps, self.step, self.time, self.row, self.unit, offset)

    def below(self, rows: Value) -> _CellState:
        """The same hidden units of a later state."""
        return _CellState(self.steps, self.step, self.time, self.row + rows, self.unit)

    def projected(self, gate: int) -> Value:
        """What the inputs contribute to a gate."""
        steps = self.steps
        column = self.unit + (gate * steps.problem.width + self.offset)
        line = steps.projection(self.time, self.row)
        return line.load(column, steps.panels.lanes, self._projected_mask())

    def parameter(self, name: str, part: int) -> Value | None:
        """A part of an operand with a number for each hidden unit; None if it is not given."""
        steps = self.steps
        line = steps.parameters.get(name)
        if line is None:
            return None
        column = self.unit + (part * steps.problem.width + self.offset)
        loaded = line.load(column, steps.panels.lanes, self._mask())
        return convert(loaded, steps.problem.dtype).splat(steps.panels.lanes)

    def state(self, name: str) -> Value:
        """The part of the state of that name."""
        return self._at(self.steps.source(name, self.step)).load(0, self.steps.panels.lanes)

    def keep(self, name: str, value: Value) -> None:
        """Keep something under a name, until the step is done."""
        self._at(self.steps.made(name, self.step)).store(value)

    def finish(self, states: dict[str, Value]) -> None:
        """Keep the states after the step, and put the output; both end where a sequence does."""
        output = states["h"]
        alive = self._alive()
        if alive is not None:
            output = select(alive, output, 0.0)
            states = {n: select(alive, value, self.state(n)) for n, value in states.items()}
        for name, value in states.items():
            self.keep(name, value)
        self.put(0, 0, output)

    def _at(self, state: Pointer) -> Pointer:
        return state + (self.row * self.steps.panels.padded + self.unit) + self.offset

    def put(self, result: int, part: int, value: Value) -> None:
        """Put a part of what a result has for the step."""
        problem = self.steps.problem
        out = self.steps.sinks[result].row(self.time * problem.batch + self.row)
        out.put(self.unit + (part * problem.width + self.offset), value, self._mask())

    def _alive(self) -> Value | None:
        """Whether the sequence goes on here."""
        if self.steps.lengths is None:
            return None
        length = self.steps.lengths.load(self.row, 1)
        return convert(self.time, i64) < convert(length, i64)

    def _projected_mask(self) -> Value | None:
        """Rows of our own projection are long enough for whole vectors, those of others not."""
        return self._mask() if self.steps.problem.is_projected else None

    def _mask(self) -> Value | None:
        return _mask(self.steps.p, self.steps.panels, self.unit + self.offset)
