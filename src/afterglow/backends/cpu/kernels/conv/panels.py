"""Weights in panels: for each step of the depth, the factors of neighbouring result channels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from afterglow.backends.cpu.kernels.conv.columns import Columns, each_kind
from afterglow.backends.cpu.kernels.matmul.packing import Packer
from afterglow.backends.cpu.kernels.matmul.problem import Matrix
from afterglow.backends.cpu.llvm.emitter import Emitter, Pointer
from afterglow.backends.cpu.micro.cost import PACKED_ELEMENT
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase, Storage
from afterglow.backends.cpu.micro.packing import Pack, Packing, fill_panels
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.rows import Axes, split
from afterglow.backends.cpu.micro.storage_format import storage_type
from afterglow.backends.cpu.micro.tile import RegisterTile, sum_type
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array


def pack_panels(panels: Panels, groups: int, to: np.dtype[np.generic]) -> Pack:
    """The packing of a weight [O, kernel…, C / groups]: by group, panel, depth, then channel."""

    def pack(weight: Array) -> Packing:
        taps = weight.shape[1:]
        by_group = weight.reshape(groups, panels.columns, *taps)

        def write(made: Array) -> None:
            for first, count, widths in panels.kinds:
                start, width = first * panels.width, sum(widths)
                own = slice(start, start + count * width)
                piece = made[:, own].reshape(groups, count, *taps, width)
                fill_panels(piece, by_group[:, own], axis=1)

        return Packing((groups, panels.padded, math.prod(taps)), to, write)

    return pack


def pack_channels(panels: Panels, groups: int, to: np.dtype[np.generic]) -> Pack:
    """The packing of a bias [O]: each group is filled up to whole panels."""

    def pack(bias: Array) -> Array:
        by_group = bias.reshape(groups, panels.columns).astype(to)
        return np.pad(by_group, ((0, 0), (0, panels.padded - panels.columns)))

    return pack


def factors_needs(step: OpInstr, panels: Panels, groups: int, depth: int) -> KernelNeeds:
    """Workspaces for a weight or bias that is not constant; constants are packed."""
    weight = _needs(step, 1, "panels", groups * panels.padded * depth)
    bias = bias_needs(step, panels, groups)
    workspace = {**weight.workspace, **bias.workspace}
    return KernelNeeds(workspace, packed=(*weight.packed, *bias.packed))


def bias_needs(step: OpInstr, panels: Panels, groups: int) -> KernelNeeds:
    """The same for the bias alone."""
    return _needs(step, 2, "channels", groups * panels.padded)


def packs_operands(step: OpInstr, *operands: int) -> bool:
    """Whether a phase packs one of some operands in each run, since it is not constant."""
    given = (step.optional(operand) for operand in operands)
    return any(b is not None and b.region is not Region.CONSTANT for b in given)


def _needs(step: OpInstr, operand: int, name: str, size: int) -> KernelNeeds:
    buffer = step.optional(operand)
    if buffer is None:
        return KernelNeeds()
    if buffer.region is Region.CONSTANT:
        return KernelNeeds(packed=(operand,))
    return KernelNeeds({name: Storage(sum_type(buffer.type.dtype), size)})


class ConvWeights:
    """The packed weight and bias of a convolution; if they are not constants, in workspaces."""

    def __init__(self, k: Kernel, panels: Panels, groups: int, depth: int) -> None:
        self.k = k
        self.panels = panels
        self.groups = groups
        self.depth = depth
        self.weight, self.bias = k.step.required[1], k.step.optional(2)

    @property
    def has_varying_bias(self) -> bool:
        """Whether there is a bias that is not constant."""
        return self.bias is not None and self.bias.region is not Region.CONSTANT

    def write_packing(self) -> None:
        """Write the phases that pack a weight or bias that is not constant."""
        if self.weight is not None and self.weight.region is not Region.CONSTANT:
            self._write(self.weight, "panels", self.depth)
        self.write_bias()

    def write_bias(self) -> None:
        """Write the phase that packs a bias that is not constant."""
        if self.bias is not None and self.has_varying_bias:
            self._write(self.bias, "channels", 1)

    def panels_in(self, p: Phase) -> Pointer:
        """Where the weight lies as panels."""
        return self._pointer(p, self.weight, "panels", pack_panels)

    def bias_in(self, p: Phase) -> Pointer | None:
        """Where the bias lies, filled up to whole panels; None without one."""
        if self.bias is None:
            return None
        return self._pointer(p, self.bias, "channels", pack_channels)

    def _pointer(
        self,
        p: Phase,
        buffer: Buffer,
        name: str,
        pack: Callable[[Panels, int, np.dtype[np.generic]], Pack],
    ) -> Pointer:
        dtype = sum_type(buffer.type.dtype)
        if buffer.region is Region.CONSTANT:
            if buffer is self.weight:
                dtype = storage_type(buffer.type.dtype, p.target)
            way = pack(self.panels, self.groups, dtype.numpy)
            return p.packed(buffer, f"{name}{self.panels.width}", way, dtype)
        return p.workspace(name)

    def _write(self, buffer: Buffer, name: str, depth: int) -> None:
        """One unit a group, a panel of it and a place along all axes of the depth but the last."""
        panels = self.panels
        taps = PanelTaps.of(buffer)
        units = self.groups * panels.count * taps.count
        with self.k.phase(
            units, PACKED_ELEMENT * buffer.type.size, f"pack_{name}", beside=True
        ) as p:
            source = p.pointer(buffer)
            to = p.workspace(name)
            with p.units() as unit:
                place, tap = split(unit, taps.count)
                group, number = (p.e.index(part) for part in split(place, panels.count))
                for columns in each_kind(p.e, panels, group, number):
                    panel = to + (group * panels.padded + number * panels.width) * depth
                    line = panel + p.e.index(tap) * (taps.depth * columns.width)
                    taps.pack(p.e, source + taps.outer.offset(tap), line, columns)


@dataclass(frozen=True)
class PanelTaps:
    """A weight [O, kernel…, C / groups] as matrices [depth, O], one for each place of `outer`."""

    buffer: Buffer
    outer: Axes
    depth: int
    stride: int

    @staticmethod
    def of(buffer: Buffer, axes: int = 1) -> PanelTaps:
        """The matrices of a buffer, of which the first axes are no taps."""
        taps = Axes.merged(buffer.type.shape[axes:], buffer.strides[axes:])
        *extents, depth = taps.extents or (1,)
        *strides, stride = taps.strides or (0,)
        return PanelTaps(buffer, Axes(tuple(extents), tuple(strides)), depth, stride)

    @property
    def count(self) -> int:
        """The number of matrices."""
        return math.prod(self.outer.extents)

    def pack(self, e: Emitter, source: Pointer, to: Pointer, columns: Columns) -> None:
        """Pack the columns of a panel; behind the last column is whatever is at hand."""
        lanes = math.gcd(*columns.widths)
        tile = RegisterTile(1, columns.width // lanes, lanes)
        valid = min(columns.width, columns.channels)
        none = Axes((), ())
        matrix = Matrix(self.buffer, none, none, self.stride, self.buffer.strides[0])
        first = source + columns.first * self.buffer.strides[0]
        Packer(e, matrix, tile, self.depth, valid).write(to, first, e.index(0))
