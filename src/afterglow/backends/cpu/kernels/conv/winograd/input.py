"""Winograd's transform of tiles: each becomes a row of the matrix of each of its places."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from afterglow.backends.cpu.kernels.conv.winograd.plan import WinogradPlan
from afterglow.backends.cpu.kernels.conv.winograd.transforms import transform_input
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    convert,
    first_lanes,
    larger,
    load_masked,
    smaller,
)
from afterglow.backends.cpu.micro.kernel import Phase, Storage
from afterglow.backends.cpu.micro.rows import split
from afterglow.instr import OpInstr
from afterglow.ops.convolution import Convolution
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, f32
from afterglow.types.extent import smallest

Transform = Callable[[Sequence[Value], Sequence[float]], list[Value]]
"""The transform of a line of a tile, given the points of the plan."""


@dataclass(frozen=True)
class TileReading:
    """What is transformed: an operand of the step, in tiles that are `side` wide, `size` apart.

    `pads` are the padding above and to the left of it.
    """

    operand: int
    side: int
    transform: Transform
    pads: tuple[int, ...]
    patch: str
    """The name of the memory that tiles at the edges are copied to."""

    @staticmethod
    def of_x(step: OpInstr, plan: WinogradPlan) -> TileReading:
        """The tiles of x of a convolution."""
        op = step.op
        assert isinstance(op, Convolution)
        return TileReading(0, plan.side, transform_input, op.pads, "tile")

    def has_edges(self, step: OpInstr, plan: WinogradPlan) -> bool:
        """Whether some tiles reach beyond what is there."""
        extents = step.required[self.operand].type.shape[1:3]
        wanted = (count * plan.size + self.side - plan.size for count in plan.grid)
        short = any(smallest(n - w) < 0 for n, w in zip(extents, wanted, strict=True))
        return short or any(self.pads)

    def scratch(self, step: OpInstr, plan: WinogradPlan) -> dict[str, Storage]:
        """The memory for tiles at the edges, if there are any."""
        if not self.has_edges(step, plan):
            return {}
        x = step.required[self.operand]
        return {self.patch: Storage(x.type.dtype, self.side**2 * plan.channels)}


class InputTransform:
    """Writes the transform of tiles of an operand, in one phase.

    Tiles that reach beyond it are copied first, with zeros for what is not there.
    """

    def __init__(self, p: Phase, plan: WinogradPlan, reading: TileReading) -> None:
        x = p.step.required[reading.operand]
        self.e, self.plan, self.x, self.reading = p.e, plan, x, reading
        self.pointer = p.pointer(x)
        name = f"{p.kernel.name}_{reading.patch}{plan.size}"
        self.function = p.kernel.module.helper(
            name, lambda e: _write_function(e, plan, reading, x.type.dtype)
        )
        edges = reading.has_edges(p.step, plan)
        self.patch = p.scratch(reading.patch) if edges else None

    def write(self, tile: Index, to: Pointer) -> None:
        """Transform one tile, given its number among all, to a row of the first place's matrix."""
        e, plan, x, side = self.e, self.plan, self.x, self.reading.side
        image, y, first = self._corner(tile)
        _, down, across, _ = x.strides
        source = self.pointer + image * x.strides[0] + y * down + first * across
        if self.patch is None:
            self._run(source, (e.index(down), e.index(across)), to)
            return
        rows, columns = x.type.shape[1:3]
        inside = (y >= 0) & (y <= rows - side) & (first >= 0)
        inside = inside & (first <= columns - side)
        with e.when(inside):
            self._run(source, (e.index(down), e.index(across)), to)
        with e.when(~inside):
            self._copy(source, y, first, self.patch)
            steps = e.index(side * plan.channels), e.index(plan.channels)
            self._run(self.patch, steps, to)

    def _corner(self, tile: Index) -> tuple[Value, Value, Value]:
        """The image, the row and the column in x where a tile begins."""
        down, across = self.plan.grid
        rest, column = split(tile, across)
        image, row = split(rest, down)
        size, e = self.plan.size, self.e
        top, left = self.reading.pads[:2]
        return e.index(image), e.index(row) * size - top, e.index(column) * size - left

    def _run(self, source: Pointer, steps: tuple[Value, Value], to: Pointer) -> None:
        self.e.run(self.function, source, *steps, to)

    def _copy(self, source: Pointer, y: Value, first: Value, patch: Pointer) -> None:
        """Copy the part of a tile that is in x, and zeros around it."""
        e, x, side = self.e, self.x, self.reading.side
        rows, columns, channels = x.type.shape[1:]
        begin = larger(0 - first, 0)
        end = larger(smaller(e.index(columns) - first, side), begin)
        e.zero(patch, side * side * channels)
        with e.loop(side, name="row") as row, e.when((y + row >= 0) & (y + row < rows)):
            line, to = source + row * x.strides[1], patch + row * (side * channels)
            if x.strides[2] == channels:
                e.copy(to + begin * channels, line + begin * channels, (end - begin) * channels)
            else:
                with e.loop(end, start=begin, name="column") as column:
                    e.copy(to + column * channels, line + column * x.strides[2], channels)


def _write_function(e: Emitter, plan: WinogradPlan, reading: TileReading, dtype: DType) -> None:
    """Transform a tile: columns into memory of its own, then rows into the matrices."""
    source = e.pointer("source", dtype)
    down, across = e.count("down"), e.count("across")
    to = e.pointer("to", f32)
    between = e.scratch(f32, plan.places * plan.lanes)
    whole = plan.channels - plan.channels % plan.lanes
    with e.loop(whole, step=plan.lanes, name="channel") as channel:
        places = source + channel, to + channel, between
        _write_vector(e, plan, reading, places, (down, across), None)
    if whole < plan.channels:
        mask = first_lanes(e.index(plan.channels - whole), plan.lanes)
        places = source + whole, to + whole, between
        _write_vector(e, plan, reading, places, (down, across), mask)


def _write_vector(
    e: Emitter,
    plan: WinogradPlan,
    reading: TileReading,
    places: tuple[Pointer, Pointer, Pointer],
    steps: tuple[Value, Value],
    mask: Value | None,
) -> None:
    """Transform a vector of channels: `places` are its source, the matrices, and memory between."""
    (source, to, between), lanes, side = places, plan.lanes, reading.side
    with e.loop(side, name="column") as column:
        top, line = source + column * steps[1], []
        for row in range(side):
            place = top + steps[0] * row
            (place + steps[1] * plan.size).prefetch()
            loaded = place.load(0, lanes) if mask is None else load_masked(place, mask)
            line.append(convert(loaded, f32))
        for row, value in enumerate(reading.transform(line, plan.points)):
            (between + column * lanes).store(value, row * side * lanes)
    with e.loop(plan.side, name="row") as below:
        here = between + below * (side * lanes)
        line = [here.load(x * lanes, lanes) for x in range(side)]
        place = to + below * (plan.side * plan.matrix)
        for x, value in enumerate(reading.transform(line, plan.points)):
            place.store(value, x * plan.matrix)
