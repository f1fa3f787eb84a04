"""The products of states with recurrent weights, in floats or in bytes."""

from __future__ import annotations

from typing import Protocol

from afterglow.backends.cpu.kernels.recurrent.byte_states import (
    ByteProduct,
    byte_needs,
)
from afterglow.backends.cpu.kernels.recurrent.panels import (
    Gates,
    open_panels,
    panels_needs,
    write_panels,
)
from afterglow.backends.cpu.kernels.recurrent.problem import RecurrentProblem
from afterglow.backends.cpu.llvm.emitter import Pointer, Value
from afterglow.backends.cpu.micro.accumulate import accumulate
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.storage_format import load_stored
from afterglow.backends.cpu.micro.tile import RegisterTile
from afterglow.backends.cpu.target import Target
from afterglow.ops.quantized_lstm import QuantizedLSTM


class StateProduct(Protocol):
    """How states are multiplied by the recurrent weights of some gates."""

    def prepare(self, source: Pointer, first: Value, rows: int) -> None:
        """Write what comes before the products of neighbouring states."""

    def sums(
        self, tile: RegisterTile, source: Pointer, row: Value, panel: Value
    ) -> list[list[Value]]:
        """The products of neighbouring states with a panel, in vectors by state."""


def product_needs(
    problem: RecurrentProblem, panels: Panels, gates: Gates, target: Target
) -> KernelNeeds:
    """The memory of a product."""
    if isinstance(problem.op, QuantizedLSTM):
        return byte_needs(problem, panels, target)
    return panels_needs(problem, panels, gates)


def write_weights(kernel: Kernel, problem: RecurrentProblem, panels: Panels, gates: Gates) -> None:
    """Write what brings weights that are not constant into the order of their use."""
    if not isinstance(problem.op, QuantizedLSTM):
        write_panels(kernel, problem, panels, gates)


def open_product(p: Phase, problem: RecurrentProblem, panels: Panels, gates: Gates) -> StateProduct:
    """The product of a layer with the weights of some gates."""
    if isinstance(problem.op, QuantizedLSTM):
        return ByteProduct(p, problem, problem.op, panels)
    return _FloatProduct(p, problem, panels, gates)


class _FloatProduct:
    """States and weights are floats."""

    def __init__(self, p: Phase, problem: RecurrentProblem, panels: Panels, gates: Gates) -> None:
        self.e, self.problem, self.panels = p.e, problem, panels
        self.weights = open_panels(p, problem, panels, gates)

    def prepare(self, source: Pointer, first: Value, rows: int) -> None:
        """There is nothing to do."""

    def sums(
        self, tile: RegisterTile, source: Pointer, row: Value, panel: Value
    ) -> list[list[Value]]:
        """See `StateProduct`."""
        start = source + row * self.panels.padded
        return accumulate(
            self.e,
            tile,
            [start + r * self.panels.padded for r in range(tile.rows)],
            self.weights + panel * (self.problem.width * tile.columns),
            self.problem.width,
            self.problem.dtype,
            load=load_stored(tile, self.weights.dtype),
        )
