"""Recurrent cells: how the gates of a step update the states.

A step has one stage or two: in each, a state is multiplied by the recurrent weights of some gates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from afterglow.backends.cpu.kernels.recurrent.activations import activate, gate
from afterglow.backends.cpu.kernels.recurrent.panels import Gates
from afterglow.backends.cpu.llvm.emitter import Value
from afterglow.ops.quantized_lstm import QuantizedLSTM
from afterglow.ops.recurrent import GRU, LSTM, RNN, LSTMKeepingGates, Recurrent
from afterglow.support.lazy_dataclass import dataclass

GATES, CELLS = 3, 4
"""The results of an LSTM that keeps its gates."""


class CellState(Protocol):
    """Some hidden units of one state, a lane each, while a step is done."""

    def projected(self, gate: int) -> Value:
        """What the inputs contribute to a gate."""

    def parameter(self, name: str, part: int) -> Value | None:
        """A part of an operand with a number for each hidden unit; None if it is not given."""

    def state(self, name: str) -> Value:
        """The part of the state of that name."""

    def keep(self, name: str, value: Value) -> None:
        """Keep something under a name, until the step is done."""

    def put(self, result: int, part: int, value: Value) -> None:
        """Put a part of what a result has for the step."""

    def finish(self, states: dict[str, Value]) -> None:
        """The states after the step; the first is its output."""


@dataclass(frozen=True)
class Stage:
    """Multiply `source` by the weights of `gates`; `addend` (gate, place) is added to the sums."""

    source: str
    gates: Gates
    addend: Callable[[int, CellState], Value | None]
    finish: Callable[[CellState, list[Value]], None]


def stages_of(op: Recurrent) -> list[Stage]:
    """The stages of a step of an op."""
    match op:
        case LSTM():
            return [Stage("h", (0, 1, 2, 3), _projected, lambda at, x: _lstm(op, at, x))]
        case QuantizedLSTM():
            return [Stage("h", (0, 1, 2, 3), _projected, lambda at, x: _plain_lstm(op, at, x))]
        case GRU(linear_before_reset=True):
            return [Stage("h", (0, 1, 2), _reset_last, lambda at, x: _gru_reset_last(op, at, x))]
        case GRU():
            return [
                Stage("h", (0, 1), _projected, lambda at, x: _gru_gates(op, at, x)),
                Stage("reset", (2,), _with_hidden_bias, lambda at, x: _gru_state(op, at, x)),
            ]
    assert isinstance(op, RNN)
    return [Stage("h", (0,), _projected, lambda at, x: at.finish({"h": gate(op, 0, x[0])}))]


def states_of(op: Recurrent) -> tuple[str, ...]:
    """The states that a step passes to the next, in the order of the results."""
    return ("h", "c") if isinstance(op, LSTM | QuantizedLSTM) else ("h",)


def values_of(op: Recurrent) -> tuple[str, ...]:
    """The values that a stage passes to the next."""
    return ("z", "reset") if isinstance(op, GRU) and not op.linear_before_reset else ()


def _projected(index: int, at: CellState) -> Value | None:
    return at.projected(index)


def _with_hidden_bias(index: int, at: CellState) -> Value | None:
    bias = at.parameter("hidden_bias", 0)
    return at.projected(index) if bias is None else at.projected(index) + bias


def _reset_last(index: int, at: CellState) -> Value | None:
    return at.projected(index) if index < 2 else at.parameter("hidden_bias", 0)


def _lstm(op: LSTM, at: CellState, sums: list[Value]) -> None:
    i, o, f, c = sums
    cell = at.state("c")
    i = gate(op, 0, _seeing(at, 0, i, cell))
    f = 1.0 - i if op.input_forget else gate(op, 0, _seeing(at, 2, f, cell))
    c = gate(op, 1, c)
    cell = f * cell + i * c
    o = gate(op, 0, _seeing(at, 1, o, cell))
    if isinstance(op, LSTMKeepingGates):
        for part, value in enumerate((i, o, f, c)):
            at.put(GATES, part, value)
        at.put(CELLS, 0, cell)
    at.finish({"h": o * activate(op, 2, cell), "c": cell})


def _plain_lstm(op: QuantizedLSTM, at: CellState, sums: list[Value]) -> None:
    i, o, f = (gate(op, 0, x) for x in sums[:3])
    cell = f * at.state("c") + i * gate(op, 1, sums[3])
    at.finish({"h": o * activate(op, 2, cell), "c": cell})


def _seeing(at: CellState, part: int, x: Value, cell: Value) -> Value:
    """A gate that sees the cell through a peephole, if it has one."""
    peephole = at.parameter("peepholes", part)
    return x if peephole is None else x + peephole * cell


def _gru_gates(op: GRU, at: CellState, sums: list[Value]) -> None:
    z, r = (gate(op, 0, x) for x in sums)
    at.keep("z", z)
    at.keep("reset", r * at.state("h"))


def _gru_state(op: GRU, at: CellState, sums: list[Value]) -> None:
    _mix(at, at.state("z"), gate(op, 1, sums[0]))


def _gru_reset_last(op: GRU, at: CellState, sums: list[Value]) -> None:
    z, r = (gate(op, 0, x) for x in sums[:2])
    _mix(at, z, gate(op, 1, at.projected(2) + r * sums[2]))


def _mix(at: CellState, z: Value, candidate: Value) -> None:
    at.finish({"h": (1.0 - z) * candidate + z * at.state("h")})
