"""Winograd's transform of weights: when a model is compiled, or in each run.

Transformed weights lie by panel, place, channel of x, and result. In a run, a unit transforms some
channels of a panel: along columns of the kernel into memory of its own, then along rows.
"""

from __future__ import annotations

import numpy as np

from afterglow.backends.cpu.kernels.conv.columns import Columns, each_kind
from afterglow.backends.cpu.kernels.conv.panels import PanelTaps
from afterglow.backends.cpu.kernels.conv.winograd.plan import WinogradPlan
from afterglow.backends.cpu.kernels.conv.winograd.transforms import (
    transform_weight,
    weight_matrix,
)
from afterglow.backends.cpu.llvm.emitter import Pointer, Value
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase, Storage
from afterglow.backends.cpu.micro.packing import Pack, Packing
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.rows import Axes, split
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.types import Array
from afterglow.types.dtype import f32

BLOCK = 1 << 18
"""Multiplications of a block of a constant's transform: it stays in caches, and in one thread."""
TAPS = 9
"""Elements of a kernel."""
MOST_CHANNELS, LEAST_CHANNELS = 64, 16
"""Channels that a unit transforms, if there are such divisors of all."""


def weight_needs(step: OpInstr, plan: WinogradPlan) -> KernelNeeds:
    """Memory for a weight that is transformed in a run, and what a unit works in; else packed."""
    if not plan.in_run:
        return KernelNeeds(packed=(1,))
    is_constant = step.required[1].region is Region.CONSTANT
    size, packed = _channels(plan) * plan.panels.width, (1,) if is_constant else ()
    scratch = {"columns": Storage(f32, 3 * plan.side * size)}
    if not is_constant:
        scratch["taps"] = Storage(f32, TAPS * size)
    if plan.transforms_apart:
        made = Storage(f32, plan.panels.padded * plan.places * plan.channels)
        return KernelNeeds({"panels": made}, scratch, packed)
    return KernelNeeds({}, {**scratch, "panel": Storage(f32, plan.panel_size)}, packed)


class WeightPanels:
    """The transformed weight in one phase: where its panels lie, made just then if need be."""

    def __init__(self, p: Phase, plan: WinogradPlan) -> None:
        self.e, self.plan = p.e, plan
        self.transform = None
        weight = p.step.required[1]
        if not plan.in_run:
            pack = pack_transformed(plan.panels, plan.points)
            self.panels = p.packed(weight, f"winograd{plan.size}", pack, f32)
        elif plan.transforms_apart:
            self.panels = p.workspace("panels")
        else:
            self.panels, self.transform = p.scratch("panel"), WeightTransform(p, plan, weight)

    def panel(self, number: Value) -> Pointer:
        """Where a panel lies."""
        if self.transform is None:
            return self.panels + number * self.plan.panel_size
        for columns in each_kind(self.e, self.plan.panels, self.e.index(0), number):
            with self.e.loop(self.transform.pieces, name="piece") as piece:
                self.transform.write(columns, number, piece, self.panels)
        return self.panels


def write_weight(k: Kernel, plan: WinogradPlan) -> None:
    """Write the phase that transforms a weight in a run, if there is one."""
    weight = k.step.required[1]
    if not plan.in_run or not plan.transforms_apart:
        return
    units = plan.panels.count * (plan.channels // _channels(plan))
    with k.phase(units, plan.weight_cost, f"winograd{plan.size}_weight", beside=True) as p:
        transform, panels = WeightTransform(p, plan, weight), p.workspace("panels")
        with p.units() as unit:
            number, piece = (p.e.index(part) for part in split(unit, transform.pieces))
            for columns in each_kind(p.e, plan.panels, p.e.index(0), number):
                transform.write(columns, number, piece, panels + number * plan.panel_size)


def _channels(plan: WinogradPlan) -> int:
    """Channels that a unit transforms."""
    sizes = range(MOST_CHANNELS, LEAST_CHANNELS - 1, -1)
    return next((n for n in sizes if plan.channels % n == 0), plan.channels)


class WeightTransform:
    """Writes the transform of some channels of a panel, in one phase."""

    def __init__(self, p: Phase, plan: WinogradPlan, weight: Buffer) -> None:
        self.e, self.plan, self.weight = p.e, plan, weight
        self.is_packed = weight.region is Region.CONSTANT
        if self.is_packed:
            self.source = p.packed(weight, "winograd_taps", pack_taps(plan.panels), f32)
        else:
            self.source, self.taps = p.pointer(weight), p.scratch("taps")
        self.columns = p.scratch("columns")
        self.count = _channels(plan)
        self.pieces = plan.channels // self.count

    def write(self, columns: Columns, number: Value, piece: Value, panel: Pointer) -> None:
        """Transform columns of a piece of a panel, given its number, then rows."""
        e, plan, side = self.e, self.plan, self.plan.side
        step, size = plan.channels * columns.width, self.count * columns.width
        taps, distance = self._taps(columns, number, piece)
        with e.loop(3, name="column") as column:
            source, to = taps + column * distance, self.columns + column * size
            self._transform(columns, source, 3 * distance, to, 3 * size)
        with e.loop(side, name="row") as row:
            source, to = self.columns + row * (3 * size), panel + row * (side * step)
            self._transform(columns, source, size, to + piece * size, step)

    def _taps(self, columns: Columns, number: Value, piece: Value) -> tuple[Pointer, int]:
        """Where the taps of a piece lie, packed now or before, and how far they are apart."""
        size, channels = self.count * columns.width, self.plan.channels
        if self.is_packed:
            panel = self.source + number * (TAPS * channels * self.plan.panels.width)
            return panel + piece * size, channels * columns.width
        self._pack(columns, piece)
        return self.taps, size

    def _pack(self, columns: Columns, piece: Value) -> None:
        """Put the taps into memory, of each the channels, of each the results of the panel."""
        weight, size = self.weight, self.count * columns.width
        _, down, across, step = weight.strides
        channels = PanelTaps(weight, Axes((), ()), self.count, step)
        first = self.source + piece * (self.count * step)
        with self.e.loop(3, name="row") as row, self.e.loop(3, name="column") as column:
            source = first + row * down + column * across
            channels.pack(self.e, source, self.taps + (row * 3 + column) * size, columns)

    def _transform(
        self, columns: Columns, source: Pointer, step: int, to: Pointer, distance: int
    ) -> None:
        """Transform lines of three, `step` apart, of all channels into lines `distance` apart."""
        with self.e.loop(self.count, name="channel") as channel:
            for start, lanes in columns.vectors:
                here = source + channel * columns.width + start
                line = [here.load(place * step, lanes) for place in range(3)]
                place = to + channel * columns.width + start
                for number, value in enumerate(transform_weight(line, self.plan.points)):
                    place.store(value, number * distance)


def pack_transformed(panels: Panels, points: tuple[float, ...]) -> Pack:
    """The packing of a transformed weight [O, 3, 3, C]: by panel, place, channel of x, result."""
    matrix = weight_matrix(points)
    return _pack_panels(panels, np.kron(matrix, matrix))


def pack_taps(panels: Panels) -> Pack:
    """The packing of a weight that is transformed later: by panel, tap, channel of x, result."""
    return _pack_panels(panels, np.eye(TAPS))


def _pack_panels(panels: Panels, both: Array) -> Pack:
    """The packing of a weight [O, 3, 3, C] whose taps are transformed by a matrix."""

    def pack(weight: Array) -> Packing:
        places, channels = len(both), weight.shape[-1]

        def write(made: Array) -> None:
            for first, count, widths in panels.kinds:
                start, width = first * panels.width, sum(widths)
                for begin in range(start, start + count * width, width):
                    panel = made[begin : begin + width].reshape(places, -1)
                    _transform_panel(panel, weight[begin : begin + width], both, width)

        return Packing((panels.padded, places * channels), np.dtype(np.float32), write)

    return pack


def _transform_panel(panel: Array, weight: Array, matrix: Array, width: int) -> None:
    """Transform the taps of the results of a panel, in float64, block by block."""
    results, *taps = weight.shape
    lines = np.zeros((*taps, width))
    lines[..., :results] = np.moveaxis(weight, 0, -1)
    lines = lines.reshape(matrix.shape[1], -1)
    size = BLOCK // matrix.size
    for begin in range(0, lines.shape[1], size):
        some = np.s_[:, begin : begin + size]
        panel[some] = matrix @ lines[some]
