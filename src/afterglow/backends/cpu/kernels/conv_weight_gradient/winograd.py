"""Winograd's algorithm for the gradient of a 3 x 3 weight: that of the convolution, transposed.

Tiles of x are transformed as for the convolution, tiles of slopes by the transpose of its output
transform. Each place is a product of matrices over all tiles. The transpose of the transform of
weights makes gradients of the products of all places.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv.columns import Columns, each_kind
from afterglow.backends.cpu.kernels.conv.sums import sums_over
from afterglow.backends.cpu.kernels.conv.winograd.input import InputTransform, TileReading
from afterglow.backends.cpu.kernels.conv.winograd.plan import WinogradPlan, tiles_in
from afterglow.backends.cpu.kernels.conv.winograd.transforms import (
    gather_weight,
    transform_slopes,
)
from afterglow.backends.cpu.kernels.conv_weight_gradient.plan import (
    LEAST_TILES,
    VECTORS,
    WeightGradientPlan,
)
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value
from afterglow.backends.cpu.micro.cost import (
    WINOGRAD_INPUT,
    WINOGRAD_OUTPUT,
    WINOGRAD_SLOPE,
)
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase, Storage
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.rows import Axes, split
from afterglow.backends.cpu.micro.tile import tiles_of_block, within_run
from afterglow.instr import OpInstr
from afterglow.ops.convolution import ConvWeightGradient
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import bf16, f16, f32
from afterglow.types.extent import is_ranged

LEAST_CHANNELS = 16
"""Fewer channels, of x or of the result, do not repay the transforms."""
MOST_BYTES = 16 << 20
"""Bytes of all transformed tiles, at most: they are in memory at once."""
MOST_ROWS = 64
"""Rows of a unit, about: its products of all places stay in the second cache."""
WANTED_UNITS = 8
"""Units that work is cut into, if there is enough of it."""


@dataclass(frozen=True)
class WinogradGradientPlan:
    """Tiles of `size` by `size` slopes; a unit is a panel of channels for a part of results."""

    direct: WeightGradientPlan
    size: int

    @cached_property
    def x(self) -> WinogradPlan:
        """Where transformed tiles of x lie."""
        return self._tiles(self.direct.inner)

    @cached_property
    def slopes(self) -> WinogradPlan:
        """Where transformed tiles of the slopes lie."""
        return self._tiles(self.direct.results)

    def _tiles(self, channels: int) -> WinogradPlan:
        """All tiles as one block."""
        batch, (height, width) = self.direct.batch, (axis.count for axis in self.direct.axes)
        count, lanes = tiles_in((batch, height, width), self.size), self.direct.lanes
        panels = Panels.narrowed(channels, lanes, VECTORS)
        extents = height, width
        return WinogradPlan(
            self.size, batch, extents, channels, panels, count, count, 1, lanes, runs=()
        )

    @property
    def parts(self) -> int:
        """Parts of the results: several, where panels are few or rows are many."""
        wanted = -(-WANTED_UNITS // self.x.panels.count)
        few = max(wanted, -(-self.direct.results // MOST_ROWS))
        return max(1, min(few, self.direct.tiles // LEAST_TILES))

    @property
    def room(self) -> int:
        """Rows of a part, at most."""
        return -(-self.direct.tiles // self.parts) * self.direct.rows

    @property
    def work(self) -> float:
        """FLOPs of all products."""
        return 2.0 * self.x.places * self.x.count * self.x.panels.padded * self.direct.results

    @property
    def cost(self) -> float:
        """Of the products, and of all transforms."""
        channels, results = self.direct.inner, self.direct.results
        tile = (self.x.side / 6) ** 3 * (WINOGRAD_INPUT * channels + WINOGRAD_OUTPUT * results)
        return self.work + self.x.count * tile + WINOGRAD_SLOPE * self.x.places * channels * results

    def readings(self, step: OpInstr) -> list[tuple[str, WinogradPlan, TileReading]]:
        """What is transformed, and the name of the memory where it is then."""
        slopes = TileReading(1, self.size, transform_slopes, (0, 0), "slopes")
        x = TileReading.of_x(step, self.x)
        return [("tiles", self.x, x), ("slope_tiles", self.slopes, slopes)]

    def needs(self, step: OpInstr) -> KernelNeeds:
        """Memory for all transformed tiles, and for the products of a unit."""
        size = self.x.places * self.room * self.x.panels.width
        scratch, workspace = {"products": Storage(f32, size)}, {}
        for name, plan, reading in self.readings(step):
            workspace[name] = Storage(f32, plan.places * plan.matrix)
            scratch |= reading.scratch(step, plan)
        return KernelNeeds(workspace, scratch)


def suits_winograd(step: OpInstr, plan: WeightGradientPlan) -> bool:
    """Whether Winograd's algorithm applies: 3 x 3, without strides, dilation or groups."""
    op, operands = step.op, step.required
    assert isinstance(op, ConvWeightGradient)
    plain = (op.kernel, op.strides, op.dilations, op.groups) == ((3, 3), (1, 1), (1, 1), 1)
    enough = min(plan.inner, plan.results) >= LEAST_CHANNELS and plan.lanes > 1
    if not plain or not enough or any(is_ranged(b.type.size) for b in operands):
        return False
    return all(b.type.dtype in (f32, f16, bf16) and b.strides[-1] == 1 for b in operands)


def winograd_algorithms(step: OpInstr, direct: WeightGradientPlan) -> list[Algorithm]:
    """Winograd's algorithm for tiles of several sizes, the one with the least cost first."""
    found = []
    for size in (2, 4):
        plan = WinogradGradientPlan(direct, size)
        needs = plan.needs(step)
        if sum(storage.nbytes for storage in needs.workspace.values()) <= MOST_BYTES:
            write = partial(_write_winograd, plan=plan)
            found.append(
                Algorithm(
                    "winograd", plan.cost, write, needs, {"size": size}, is_exact=False, waits=1
                )
            )
    return sorted(found, key=lambda algorithm: algorithm.shared_cost)


def _write_winograd(k: Kernel, plan: WinogradGradientPlan) -> None:
    """Write the phases that transform tiles, side by side, and the one that multiplies them."""
    for name, tiles, reading in plan.readings(k.step):
        work = tiles.count * tiles.channels * WINOGRAD_INPUT
        with k.phase(tiles.count, work, f"winograd{plan.size}_{name}", beside=True) as p:
            to, transform = p.workspace(name), InputTransform(p, tiles, reading)
            with p.units() as tile:
                transform.write(tile, to + tile * tiles.line)
    units = plan.x.panels.count * plan.parts
    with k.phase(units, plan.work, f"winograd{plan.size}") as p:
        product = _Product(p, plan)
        with p.units() as unit:
            product.write(unit)


class _Product:
    """The main phase while it is being written."""

    def __init__(self, p: Phase, plan: WinogradGradientPlan) -> None:
        self.e, self.plan, self.sink = p.e, plan, p.sink()
        self.x, self.slopes = p.workspace("tiles"), p.workspace("slope_tiles")
        self.products = p.scratch("products")

    def write(self, unit: Value) -> None:
        """One unit: the products of all places, then their transform."""
        e, plan = self.e, self.plan
        panel, part = split(unit, plan.parts)
        tiles = tiles_of_block(e, part, plan.direct.tiles, plan.parts)
        first, last = plan.direct.rows_of(e, *tiles)
        for columns in each_kind(e, plan.x.panels, e.index(0), e.index(panel)):
            with e.loop(plan.x.places, name="place") as place:
                to = self.products + place * (plan.room * columns.width)
                self._multiply(place, columns, tiles, to + (0 - first) * columns.width)
            with e.loop(last, start=first, name="row") as row:
                self._put_row(row, self.products + (row - first) * columns.width, columns)

    def _multiply(
        self, place: Value, columns: Columns, tiles: tuple[Index, Index], to: Pointer
    ) -> None:
        """The product of one place: slopes of all tiles, transposed, times a panel of x."""
        e, plan, direct = self.e, self.plan, self.plan.direct
        slopes = self.slopes + place * plan.slopes.matrix
        panel = self.x + place * plan.x.matrix + columns.first
        depth = Axes((plan.x.count,), (plan.slopes.line,))
        for run in direct.runs:
            start, stop = within_run(e, run, *tiles, direct.tiles)
            with e.loop(stop, start=start, name="tile") as tile:
                row = tile * run.rows + run.shift
                rows = [slopes + row + number for number in range(run.rows)]
                sums = iter(sums_over(e, depth, rows, panel, columns.widths, line=plan.x.line))
                for number in range(run.rows):
                    for first, _ in columns.vectors:
                        (to + row * columns.width).store(next(sums), number * columns.width + first)

    def _put_row(self, row: Value, products: Pointer, columns: Columns) -> None:
        """Put the gradients of one result, for the channels of a panel."""
        distance = self.plan.room * columns.width
        taps = [list(self._taps(products + s, n, distance)) for s, n in columns.vectors]
        for tap, values in enumerate(zip(*taps, strict=True)):
            columns.put(self.sink, row * 9 + tap, values)

    def _taps(self, products: Pointer, lanes: int, distance: int) -> Iterator[Value]:
        """The gradients of the nine taps: of columns first, then of rows."""
        plan, side = self.plan, self.plan.x.side
        columns = []
        for column in range(side):
            places = range(column, side * side, side)
            found = [products.load(place * distance, lanes) for place in places]
            columns.append(gather_weight(found, plan.x.points))
        for line in zip(*columns, strict=True):
            yield from gather_weight(line, plan.x.points)
