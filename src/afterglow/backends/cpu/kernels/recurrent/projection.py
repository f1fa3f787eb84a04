"""The projection of the inputs: x times the weights plus the bias, for the gates of all steps."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.backends.cpu.kernels.matmul.packing import Packer, pack_panels
from afterglow.backends.cpu.kernels.matmul.problem import Matrix
from afterglow.backends.cpu.kernels.recurrent.panels import panels_of
from afterglow.backends.cpu.kernels.recurrent.problem import RecurrentProblem
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, convert, first_lanes
from afterglow.backends.cpu.micro.accumulate import accumulate
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase, Storage
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.rows import Axes, Row
from afterglow.backends.cpu.micro.storage_format import load_stored, storage_type
from afterglow.backends.cpu.micro.tile import RegisterTile, each_tile, most_rows
from afterglow.backends.cpu.target import Target
from afterglow.instr import Region
from afterglow.types.extent import is_ranged, largest

VECTORS = 2
"""Vectors of a tile: panels so narrow that many rows of a tile fit in registers."""
FEW_ROWS = 6
"""Rows of a tile at most where there is code for every height; it is wider for that."""


def projection_tile(problem: RecurrentProblem, target: Target) -> RegisterTile:
    """The tile of the product: a row less than fits, or LLVM finds no registers for the bias."""
    lanes = full_lanes(target, problem.dtype)
    most = max(1, most_rows(target, VECTORS, problem.dtype) - 1)
    if is_ranged(problem.rows) and most > FEW_ROWS:
        most = min(FEW_ROWS, most_rows(target, 2 * VECTORS, problem.dtype))
        return RegisterTile(min(most, largest(problem.rows)), 2 * VECTORS, lanes)
    return RegisterTile(min(most, max(1, largest(problem.rows))), VECTORS, lanes)


def projection_stride(problem: RecurrentProblem, target: Target) -> int:
    """How far apart rows of the projection lie: whole panels may be written and read.

    A little more than that, or the rows of a tile would share a few places in the first cache.
    """
    tile = projection_tile(problem, target)
    width = tile.columns
    written = -(-problem.columns // width) * width
    beyond = panels_of(problem, target).padded - problem.width
    return max(written, problem.columns + beyond) + tile.lanes


ProjectedRow = Callable[[Value, Value], Row]
"""The contributions of the inputs to the gates of a state, given its step and its sequence."""


def open_projection(p: Phase, problem: RecurrentProblem) -> ProjectedRow:
    """The projection, where it lies: made by `write_projection`, or an operand."""
    if problem.is_projected:
        gates = problem.given["gates"]
        given, (step, row, unit) = p.pointer(gates), gates.strides
        return lambda time, place: Row(given + time * step + place * row, unit)
    made, stride = p.workspace("projection"), projection_stride(problem, p.target)
    return lambda time, place: Row(made + (time * problem.batch + place) * stride, 1)


def projection_needs(problem: RecurrentProblem, target: Target) -> KernelNeeds:
    """Memory for the contributions of the inputs, [step, batch][gate][hidden unit].

    Each thread packs panels of a weight that is not constant.
    """
    if problem.is_projected:
        return KernelNeeds()
    size = problem.rows * projection_stride(problem, target)
    panel = problem.inputs * projection_tile(problem, target).columns
    constant = problem.given["weight"].root.region is Region.CONSTANT
    return KernelNeeds(
        workspace={"projection": Storage(problem.dtype, size)},
        scratch={} if constant else {"panel": Storage(problem.dtype, panel)},
        packed=(1,) if constant else (),
    )


def write_projection(kernel: Kernel, problem: RecurrentProblem) -> None:
    """Write the product, if it is not an operand; a unit is a panel of columns."""
    if problem.is_projected:
        return
    tile = projection_tile(problem, kernel.target)
    panels = -(-problem.columns // tile.columns)
    work = 2.0 * problem.rows * problem.columns * problem.inputs
    with kernel.phase(panels, work, "inputs") as p:
        product = _Product(p, problem, tile)
        with p.units() as panel:
            product.write(panel)


class _Product:
    """The function that multiplies all inputs by panels of the weights."""

    def __init__(self, p: Phase, problem: RecurrentProblem, tile: RegisterTile) -> None:
        self.p, self.e, self.problem, self.tile = p, p.e, problem, tile
        self.dtype = problem.dtype
        self.x = problem.given["x"]
        self.weight = problem.given["weight"]
        self.is_constant = self.weight.root.region is Region.CONSTANT
        self.source = p.pointer(self.x)
        self.panel_size = problem.inputs * tile.columns
        self.panels = self._panels()
        bias = problem.given.get("bias")
        self.bias = None if bias is None else Row(p.pointer(bias), bias.strides[0])
        self.made, self.row_stride = p.workspace("projection"), projection_stride(problem, p.target)

    def _panels(self) -> Pointer:
        """All panels, or memory for one."""
        if not self.is_constant:
            self.matrix = self.p.pointer(self.weight)
            return self.p.scratch("panel")
        width = self.tile.columns
        dtype = storage_type(self.weight.type.dtype, self.p.target)
        pack = pack_panels(self.tile, dtype, transposed=True)
        return self.p.packed(self.weight, f"panels{width}", pack, dtype)

    def write(self, panel: Value) -> None:
        """All rows by one panel."""
        problem, tile = self.problem, self.tile
        column = panel * tile.columns
        lines = self._panel(panel, column)
        steps, rows, stride = self._rows()
        with self.e.loop(steps, name="step") as step:
            first = self.source + step * self.x.strides[0]
            for height, row in each_tile(self.e, rows, tile.rows):
                start = first + row * stride
                sums = accumulate(
                    self.e,
                    tile.with_rows(height),
                    [start + r * stride for r in range(height)],
                    lines,
                    problem.inputs,
                    self.dtype,
                    row_step=self.x.strides[2],
                    load=load_stored(tile, lines.dtype),
                )
                bias = self._bias(column)
                made = self.made + (step * rows + row) * self.row_stride + column
                for r, vectors in enumerate(sums):
                    for v, vector in enumerate(vectors):
                        total = vector + bias[v] if bias else vector
                        made.store(total, r * self.row_stride + v * tile.lanes)

    def _rows(self) -> tuple[int, int, int]:
        """Groups of rows, rows in a group, and their stride: one group if all are evenly spaced."""
        steps, batch, _ = self.x.type.shape
        outer, inner, _ = self.x.strides
        if batch == 1:
            return 1, steps, outer
        return (1, steps * batch, inner) if outer == batch * inner else (steps, batch, inner)

    def _panel(self, panel: Value, column: Value) -> Pointer:
        if self.is_constant:
            return self.panels + panel * self.panel_size
        none = Axes((), ())
        columns, depth = self.weight.strides
        matrix = Matrix(self.weight, none, none, depth, columns)
        packer = Packer(self.e, matrix, self.tile, self.problem.inputs, self.problem.columns)
        packer.write(self.panels, self.matrix, column)
        return self.panels

    def _bias(self, column: Index) -> list[Value]:
        """What is added to the sums of a row, in its vectors; empty if there is no bias."""
        lanes, columns = self.tile.lanes, self.problem.columns
        found: list[Value] = []
        if self.bias is None:
            return found
        for v in range(self.tile.vectors):
            mask = None
            if columns % self.tile.columns:
                mask = first_lanes(self.e.index(columns) - column - v * lanes, lanes)
            loaded = self.bias.load(column + v * lanes, lanes, mask)
            found.append(convert(loaded, self.dtype).splat(lanes))
        return found
