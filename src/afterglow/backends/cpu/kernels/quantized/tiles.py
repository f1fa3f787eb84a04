"""Products by registers that hold matrices: two of rows meet one or two of columns.

A row of a tile is up to 64 neighbouring bytes of a row of x, and the lines of a panel are already
as a tile of weights wants them. So both are loaded from where they lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.quantized.dots import Dots, QuadDots
from afterglow.backends.cpu.kernels.quantized.plan import WORD_BYTES, QuantizedPlan, cut_rows
from afterglow.backends.cpu.kernels.quantized.problem import QuantizedProblem, problem_of
from afterglow.backends.cpu.kernels.quantized.product import (
    Block,
    Line,
    Product,
    product_needs,
    write_product,
)
from afterglow.backends.cpu.kernels.quantized.weights import BytePanels
from afterglow.backends.cpu.llvm.emitter import (
    TILE_BYTES,
    TILE_ROWS,
    Index,
    Pointer,
    Value,
    add_tile_product,
    load_tile,
    release_tiles,
    set_tile_shapes,
    smaller,
    store_tile,
    tile_shapes,
)
from afterglow.backends.cpu.micro.cost import TILE_GAIN
from afterglow.backends.cpu.micro.kernel import KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.tile import TileRun, tiles_of_block
from afterglow.backends.cpu.micro.unit_order import UnitOrder
from afterglow.backends.cpu.target import Target
from afterglow.types import Array
from afterglow.types.extent import is_ranged

HEIGHT = 2
"""Tiles of rows that are multiplied at once."""
MOST_WIDTH = 2
"""Tiles of columns that are multiplied at once."""
FIRST_ROWS = HEIGHT * MOST_WIDTH
"""The register of the first tile of rows: those before hold sums."""
FIRST_COLUMNS = FIRST_ROWS + HEIGHT
"""The register of the first tile of weights."""
LANES = TILE_BYTES // WORD_BYTES
"""Columns of a tile of weights."""
LEAST_ROWS = 8
"""Rows of a tile that cost no more than fewer."""


def tile_algorithm(r: KernelRequest) -> Algorithm | None:
    """The algorithm for a product of bytes by tiles, if the machine has them and they fit."""
    if not r.target.byte_tiles:
        return None
    return tiles_for(problem_of(r.step, r.target), QuadDots(), r.target)


def tiles_for(problem: QuantizedProblem, dots: Dots, target: Target) -> Algorithm | None:
    """The algorithm for a product by tiles, if they fit; weights lie as `dots` packs them."""
    if not _fits(problem):
        return None
    panels = BytePanels.of(dots, problem, _width(problem.columns), LANES)
    plan = _blocked(problem, _even(cut_rows(problem, panels, TILE_ROWS, target)), target)
    scratch = {
        "tile": Storage(dots.sums, HEIGHT * TILE_ROWS * panels.width),
        "start": Storage(dots.sums, panels.width),
    }
    return Algorithm(
        "tiles",
        _cost(problem, plan),
        lambda k: write_product(k, problem, plan, TileProduct),
        product_needs(problem, plan, scratch),
        {"tile": (plan.most, panels.vectors, quads_of(problem)), "blocks": plan.blocks},
    )


def _fits(problem: QuantizedProblem) -> bool:
    """Whether extents and distances are known, and there is something to multiply."""
    known = (
        *problem.pixels.extents,
        *problem.pixels.strides,
        *problem.outer.extents,
        *problem.outer.strides,
    )
    return not any(map(is_ranged, known)) and problem.lines > 0 and problem.rows > 0


def _width(columns: int) -> int:
    """Tiles of columns in a panel: two, unless one wastes less."""
    return 1 if -(-columns // LANES) in (1, 3) else MOST_WIDTH


def quads_of(problem: QuantizedProblem) -> int:
    """Words of a row in a tile: as many as fit, and divide those of a run."""
    most = min(problem.steps, TILE_BYTES // WORD_BYTES)
    return max(quads for quads in range(1, most + 1) if problem.steps % quads == 0)


def _even(plan: QuantizedPlan) -> QuantizedPlan:
    """Tiles of one height, the last of a line over rows of the one before if they do not fit.

    To set up other shapes would take as long as a dozen products, and ends all that are under way.
    """
    run, tiles = plan.runs[0], plan.in_line
    return replace(plan, runs=(TileRun(run.rows, 0, tiles, 0),))


def _blocked(problem: QuantizedProblem, plan: QuantizedPlan, target: Target) -> QuantizedPlan:
    """Blocks of rows that stay in the first cache while all panels meet them, if weights are few.

    Sums are made so fast that reading x and writing the result is what takes the time.
    """
    itemsize = problem.reading.dtype.itemsize
    if problem.depth * problem.columns * itemsize > target.caches.l2 // 2:
        return plan
    bytes_of_rows = (problem.reading.size + problem.rows * problem.columns) * itemsize
    wanted = min(-(-bytes_of_rows // max(target.caches.l1, 1)), -(-plan.tiles // HEIGHT))
    return replace(plan, blocks=max(plan.blocks, wanted), order=UnitOrder.BLOCKS)


def _cost(problem: QuantizedProblem, plan: QuantizedPlan) -> float:
    """What whole tiles cost, however much of them is used."""
    tiles = sum((run.last - run.first) * max(run.rows, LEAST_ROWS) for run in plan.runs)
    rows = math.prod(plan.outer.extents) * tiles
    turns = problem.lines // quads_of(problem)
    columns = plan.panels.count * plan.panels.width
    units = problem.batches * problem.groups
    elements = TILE_BYTES // problem.reading.dtype.itemsize
    return TILE_GAIN * plan.panels.dots.cost * 2.0 * units * rows * columns * turns * elements


class TileProduct(Product):
    """A product by registers that hold matrices."""

    def __init__(self, p: Phase, problem: QuantizedProblem, plan: QuantizedPlan) -> None:
        super().__init__(p, problem, plan)
        self.factors = plan.panels.pointer(p)
        self.start = p.scratch("start")
        self.quads = quads_of(problem)
        self.height = plan.most
        self.shapes = p.table("shapes", self._shapes())

    def write(self) -> None:
        """Write all of it: the shapes of tiles are set up once."""
        set_tile_shapes(self.shapes)
        super().write()
        release_tiles(self.e)

    def _shapes(self) -> Array:
        """The shapes of tiles."""
        sums = [(self.height, TILE_BYTES)] * (HEIGHT * MOST_WIDTH)
        rows = [(self.height, self.quads * WORD_BYTES)] * HEIGHT
        return tile_shapes([*sums, *rows, *[(self.quads, TILE_BYTES)] * MOST_WIDTH])

    def write_block(self, block: Block) -> None:
        """Multiply pairs of tiles; the last one may have no partner."""
        for vector, start in enumerate(block.side.initial):
            self.start.store(start, vector * LANES)
        tiles = self.plan.tiles
        pairs = -(-tiles // HEIGHT)
        first, last = tiles_of_block(self.e, block.number_in_panel, pairs, self.plan.blocks)
        with self.e.loop(last, start=first, name="pair") as pair:
            tile = pair * HEIGHT
            count = smaller(self.e.index(tiles) - tile, HEIGHT)
            lines = [self.line_of(block, tile), self.line_of(block, tile + (count - 1))]
            self._multiply(lines, count, block.panel)
            with self.e.loop(count, name="kept") as number:
                self._put(block, self.line_of(block, tile + number), number * TILE_ROWS)

    def _first_row(self, line: Line) -> Value:
        """The first row of a tile within its line: the last tile ends where the line does."""
        first = line.tile * self.height
        return first if self._divides else smaller(first, self.plan.extent - self.height)

    @property
    def _divides(self) -> bool:
        """Whether tiles fill a line, so that none lies over another one."""
        return self.plan.extent % self.height == 0

    def _put(self, block: Block, line: Line, kept: Value) -> None:
        """Put the rows of a tile, but for those that the one before has."""
        first = line.tile * self.height
        repeated: Index = 0 if self._divides else first - self._first_row(line)
        shifts = line.shifts_at(first)
        block.side.put_kept(line.row + first, self.height - repeated, shifts, kept + repeated)

    def _multiply(self, lines: list[Line], count: Value, panel: Value) -> None:
        """Multiply one tile of rows or two by a panel, and lay the sums down."""
        vectors = range(self.panels.vectors)
        for m in range(HEIGHT):
            with self._where(count, m):
                for n in vectors:
                    load_tile(_sums(m, n), self.start + n * LANES, 0)
        rows = [own.x + self._first_row(own) * self.plan.stride for own in lines]
        self._add_products(rows, count, self.factors + panel * self.panels.size)
        for m in range(HEIGHT):
            kept = self.output.buffer + m * TILE_ROWS * self.panels.width
            with self._where(count, m):
                for n in vectors:
                    store_tile(_sums(m, n), kept + n * LANES, self.panels.width * WORD_BYTES)

    @contextmanager
    def _where(self, count: Value, m: int) -> Iterator[None]:
        """Write what is done if there is a tile of this number."""
        always = m == 0 or self.plan.tiles % HEIGHT == 0
        with nullcontext() if always else self.e.when(count > m):
            yield

    def _add_products(self, rows: list[Pointer], count: Value, weights: Pointer) -> None:
        """Add the products along the whole depth: a loop for each axis of the taps, and a run."""
        outer = self.problem.outer
        extents = (*outer.extents, self.problem.steps // self.quads)
        strides = (*outer.strides, self.quads * self.problem.together)
        with ExitStack() as loops:
            step = self.e.index(0)
            for extent, stride in zip(extents, strides, strict=True):
                turn = loops.enter_context(self.e.loop(extent, name="turn"))
                rows = [row + turn * stride for row in rows]
                step = step * extent + turn
            self._add_step(rows, count, weights + step * (self.quads * self.panels.line))

    def _add_step(self, rows: list[Pointer], count: Value, weights: Pointer) -> None:
        """Add the products of a step along the depth."""
        read, vectors = self.problem.reading.dtype, range(self.panels.vectors)
        for n in vectors:
            place = weights + n * LANES * self.problem.together
            load_tile(FIRST_COLUMNS + n, place, self.panels.width * WORD_BYTES)
        for m, row in enumerate(rows):
            with self._where(count, m):
                load_tile(FIRST_ROWS + m, row, self.plan.stride * read.itemsize)
                for n in vectors:
                    add_tile_product(self.e, read, _sums(m, n), FIRST_ROWS + m, FIRST_COLUMNS + n)


def _sums(m: int, n: int) -> int:
    """The register of the sums of tile m of rows and tile n of columns."""
    return m * MOST_WIDTH + n
