"""Winograd's input transform: a tile of x becomes a row of the matrix of each of its places."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.conv.geometry import conv_of
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
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.rows import split
from afterglow.instr import OpInstr
from afterglow.types.dtype import DType, f32
from afterglow.types.extent import smallest


class InputTransform:
    """Writes the transform of tiles of x, in one phase.

    Tiles that reach beyond x are copied first, with zeros for what is not there.
    """

    def __init__(self, p: Phase, plan: WinogradPlan) -> None:
        x = p.step.required[0]
        self.e, self.plan, self.x = p.e, plan, x
        self.pads = conv_of(p.step).pads
        self.pointer = p.pointer(x)
        name = f"{p.kernel.name}_tile{plan.size}"
        self.function = p.kernel.module.helper(
            name, lambda e: _write_function(e, plan, x.type.dtype)
        )
        self.patch = p.scratch("patch") if has_edges(p.step, plan) else None

    def write(self, tile: Index, to: Pointer) -> None:
        """Transform one tile, given its number among all, to a row of the first place's matrix."""
        e, plan, x = self.e, self.plan, self.x
        image, y, first = self._corner(tile)
        _, down, across, _ = x.strides
        source = self.pointer + image * x.strides[0] + y * down + first * across
        if self.patch is None:
            self._run(source, (e.index(down), e.index(across)), to)
            return
        rows, columns = x.type.shape[1:3]
        inside = (y >= 0) & (y <= rows - plan.side) & (first >= 0)
        inside = inside & (first <= columns - plan.side)
        with e.when(inside):
            self._run(source, (e.index(down), e.index(across)), to)
        with e.when(~inside):
            self._copy(source, y, first, self.patch)
            steps = e.index(plan.side * plan.channels), e.index(plan.channels)
            self._run(self.patch, steps, to)

    def _corner(self, tile: Index) -> tuple[Value, Value, Value]:
        """The image, the row and the column in x where a tile begins."""
        down, across = self.plan.grid
        rest, column = split(tile, across)
        image, row = split(rest, down)
        size, e = self.plan.size, self.e
        top, left = self.pads[:2]
        return e.index(image), e.index(row) * size - top, e.index(column) * size - left

    def _run(self, source: Pointer, steps: tuple[Value, Value], to: Pointer) -> None:
        self.e.run(self.function, source, *steps, to)

    def _copy(self, source: Pointer, y: Value, first: Value, patch: Pointer) -> None:
        """Copy the part of a tile that is in x, and zeros around it."""
        e, plan, x = self.e, self.plan, self.x
        rows, columns, channels = x.type.shape[1:]
        begin = larger(0 - first, 0)
        end = larger(smaller(e.index(columns) - first, plan.side), begin)
        e.zero(patch, plan.places * channels)
        with e.loop(plan.side, name="row") as row, e.when((y + row >= 0) & (y + row < rows)):
            line, to = source + row * x.strides[1], patch + row * (plan.side * channels)
            if x.strides[2] == channels:
                e.copy(to + begin * channels, line + begin * channels, (end - begin) * channels)
            else:
                with e.loop(end, start=begin, name="column") as column:
                    e.copy(to + column * channels, line + column * x.strides[2], channels)


def has_edges(step: OpInstr, plan: WinogradPlan) -> bool:
    """Whether some tiles reach beyond x."""
    x = step.required[0]
    wanted = (count * plan.size + 2 for count in plan.grid)
    short = any(smallest(n - w) < 0 for n, w in zip(x.type.shape[1:3], wanted, strict=True))
    return short or any(conv_of(step).pads)


def _write_function(e: Emitter, plan: WinogradPlan, dtype: DType) -> None:
    """Transform a tile: columns into memory of its own, then rows into the matrices."""
    source = e.pointer("source", dtype)
    down, across = e.count("down"), e.count("across")
    to = e.pointer("to", f32)
    between = e.scratch(f32, plan.places * plan.lanes)
    whole = plan.channels - plan.channels % plan.lanes
    with e.loop(whole, step=plan.lanes, name="channel") as channel:
        _write_vector(e, plan, source + channel, (down, across), to + channel, between, None)
    if whole < plan.channels:
        mask = first_lanes(e.index(plan.channels - whole), plan.lanes)
        _write_vector(e, plan, source + whole, (down, across), to + whole, between, mask)


def _write_vector(
    e: Emitter,
    plan: WinogradPlan,
    source: Pointer,
    steps: tuple[Value, Value],
    to: Pointer,
    between: Pointer,
    mask: Value | None,
) -> None:
    side, lanes = plan.side, plan.lanes
    with e.loop(side, name="column") as column:
        top, line = source + column * steps[1], []
        for row in range(side):
            place = top + steps[0] * row
            (place + steps[1] * plan.size).prefetch()
            loaded = place.load(0, lanes) if mask is None else load_masked(place, mask)
            line.append(convert(loaded, f32))
        for row, value in enumerate(transform_input(line, plan.points)):
            (between + column * lanes).store(value, row * side * lanes)
    with e.loop(side, name="row") as below:
        here = between + below * (side * lanes)
        line = [here.load(x * lanes, lanes) for x in range(side)]
        place = to + below * (side * plan.matrix)
        for x, value in enumerate(transform_input(line, plan.points)):
            place.store(value, x * plan.matrix)
