"""Recurrent weights in panels: some hidden units with all their gates, [panel][state][gate][unit].

Constants are put into that order when a model is compiled, others before the first step.
"""

from __future__ import annotations

import numpy as np

from afterglow.backends.cpu.kernels.recurrent.problem import RecurrentProblem
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    equal,
    select,
    smaller,
)
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase, Storage
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.packing import Pack
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.storage_format import storage_type, to_storage
from afterglow.backends.cpu.target import Target
from afterglow.instr import Region
from afterglow.types import Array
from afterglow.types.dtype import DType
from afterglow.types.extent import largest

FEW_STATES = 4
"""States below which a panel is two vectors wide: there are few sums otherwise."""

Gates = tuple[int, ...]


def panels_of(problem: RecurrentProblem, target: Target) -> Panels:
    """The panels of a layer, whose columns are its hidden units."""
    lanes = full_lanes(target, problem.dtype)
    wide = largest(problem.batch) < FEW_STATES and problem.width > lanes
    return Panels.filled(problem.width, lanes, 2 if wide else 1)


def back_and_forth(step: Value, number: Value, first: Index, end: Index) -> Value:
    """A number of a loop from `first` to `end`, counted backwards in every other step.

    A step begins with the weights that the one before it read last, which are still in a near
    cache. Read in one order, weights of more than that cache would never be found there.
    """
    return select(equal(step & 1, 1), first + end - 1 - number, number)


def open_panels(p: Phase, problem: RecurrentProblem, panels: Panels, gates: Gates) -> Pointer:
    """The recurrent weights of some gates, in panels."""
    recurrence, name = problem.given["recurrence"], _name(panels, gates)
    if recurrence.root.region is Region.CONSTANT:
        dtype = storage_type(recurrence.type.dtype, p.target)
        return p.packed(recurrence, name, _pack(panels, gates, dtype), dtype)
    return p.workspace(name)


def panels_needs(problem: RecurrentProblem, panels: Panels, gates: Gates) -> KernelNeeds:
    """Memory for the weights of some gates, if they are not constants."""
    if problem.given["recurrence"].root.region is Region.CONSTANT:
        return KernelNeeds(packed=(2,))
    size = panels.padded * len(gates) * problem.width
    return KernelNeeds(workspace={_name(panels, gates): Storage(problem.dtype, size)})


def write_panels(kernel: Kernel, problem: RecurrentProblem, panels: Panels, gates: Gates) -> None:
    """Put recurrent weights that are not constant into panels; a unit is a panel."""
    recurrence = problem.given["recurrence"]
    if recurrence.root.region is Region.CONSTANT:
        return
    line, state = recurrence.strides
    size = panels.width * len(gates)
    work = float(panels.padded * len(gates) * problem.width)
    with kernel.phase(panels.count, work, _name(panels, gates)) as p:
        source, made = p.pointer(recurrence), open_panels(p, problem, panels, gates)
        with p.units() as panel, p.e.loop(panels.width, name="unit") as unit:
            hidden = smaller(panel * panels.width + unit, panels.columns - 1)
            first = made + panel * (problem.width * size) + unit
            with p.e.loop(problem.width, name="k") as k:
                for place, gate in enumerate(gates):
                    row = hidden + gate * panels.columns
                    element = (source + row * line + k * state).load()
                    (first + k * size).store(convert(element, made.dtype), place * panels.width)


def _name(panels: Panels, gates: Gates) -> str:
    return f"gates{''.join(map(str, gates))}x{panels.width}"


def _pack(panels: Panels, gates: Gates, dtype: DType) -> Pack:
    def pack(x: Array) -> Array:
        depth = x.shape[1]
        padded = np.zeros((len(gates), panels.padded, depth), dtype.numpy)
        padded[:, : panels.columns] = x.reshape(-1, panels.columns, depth)[list(gates)]
        cut = padded.reshape(len(gates), panels.count, panels.width, depth)
        lines = cut.transpose(1, 3, 0, 2).reshape(panels.count, depth, len(gates) * panels.width)
        return to_storage(lines, panels.lanes, dtype)

    return pack
