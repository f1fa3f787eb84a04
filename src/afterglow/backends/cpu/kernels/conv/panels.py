"""Weights in panels: for each step of the depth, the factors of neighbouring result channels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from afterglow.backends.cpu.llvm.emitter import Emitter, Pointer, Value, convert
from afterglow.backends.cpu.micro.cost import PACKED_ELEMENT
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Pack, Phase, Storage
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.rows import Axes, split
from afterglow.backends.cpu.micro.storage_format import storage_type
from afterglow.backends.cpu.micro.tile import sum_type
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.types import Array


def pack_panels(panels: Panels, groups: int, to: np.dtype[np.generic]) -> Pack:
    """The packing of a weight [O, kernel…, C / groups]: by group, panel, depth, then channel."""

    def pack(weight: Array) -> Array:
        by_group = weight.reshape(groups, panels.columns, math.prod(weight.shape[1:]))
        extra = panels.padded - panels.columns
        full = np.pad(by_group.astype(to), ((0, 0), (0, extra), (0, 0)))
        pieces = []
        for first, count, widths in panels.kinds:
            start, width = first * panels.width, sum(widths)
            piece = full[:, start : start + count * width].reshape(groups, count, width, -1)
            pieces.append(piece.swapaxes(2, 3).reshape(groups, -1))
        return np.concatenate(pieces, 1)

    return pack


def pack_channels(panels: Panels, groups: int, to: np.dtype[np.generic]) -> Pack:
    """The packing of a bias [O]: each group is filled up to whole panels."""

    def pack(bias: Array) -> Array:
        by_group = bias.reshape(groups, panels.columns).astype(to)
        return np.pad(by_group, ((0, 0), (0, panels.padded - panels.columns)))

    return pack


def factors_needs(step: OpInstr, panels: Panels, groups: int, depth: int) -> KernelNeeds:
    """Workspaces for a weight or bias that is not constant; constants are packed."""
    parts = zip((1, 2), ("panels", "channels"), step.ins[1:], (depth, 1), strict=False)
    given = [(at, name, b, size) for at, name, b, size in parts if b is not None]
    return KernelNeeds(
        workspace={
            name: Storage(sum_type(b.type.dtype), groups * panels.padded * size)
            for _, name, b, size in given
            if b.region is not Region.CONSTANT
        },
        packed=tuple(at for at, _, b, _ in given if b.region is Region.CONSTANT),
    )


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
        """One unit a group and panel."""
        panels = self.panels
        units = self.groups * panels.count
        with self.k.phase(units, PACKED_ELEMENT * buffer.type.size, f"pack_{name}") as p:
            source = p.pointer(buffer)
            to = p.workspace(name)
            with p.units() as unit:
                group, number = split(unit, panels.count)
                for first, count, widths in panels.kinds:
                    inside = p.e.index(number) >= first
                    with p.e.when(inside & (p.e.index(number) < first + count)):
                        place = p.e.index(group) * panels.padded + number * panels.width
                        start = p.e.index(group) * panels.columns + number * panels.width
                        valid = min(sum(widths), panels.columns - first * panels.width)
                        _copy_panel(
                            p.e, buffer, source, to + place * depth, start, (valid, sum(widths))
                        )


def _copy_panel(
    e: Emitter, buffer: Buffer, source: Pointer, to: Pointer, start: Value, widths: tuple[int, int]
) -> None:
    """Copy channels to every width-th element, and zeros behind them."""
    valid, width = widths
    taps = Axes.merged(buffer.type.shape[1:], buffer.strides[1:])
    with e.loop(math.prod(taps.extents), name="k") as k:
        factor, place = source + taps.offset(k), to + k * width
        with e.loop(valid, name="channel") as channel:
            element = (factor + (start + channel) * buffer.strides[0]).load()
            place.store(convert(element, to.dtype), channel)
        with e.loop(width, start=valid, name="channel") as channel:
            place.store(e.constant(to.dtype, 0), channel)
