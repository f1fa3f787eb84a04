"""Recurrent layers.

What the inputs contribute to the gates is one product for all steps. Then the steps follow each
other: the state times the recurrent weights, a panel of hidden units with all their gates at a
time, and what the gates make of it, in registers.
"""

from __future__ import annotations

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.recurrent import backward  # noqa: F401
from afterglow.backends.cpu.kernels.recurrent.problem import problem_of
from afterglow.backends.cpu.kernels.recurrent.projection import projection_needs, write_projection
from afterglow.backends.cpu.kernels.recurrent.steps import steps_needs, write_steps
from afterglow.backends.cpu.kernels.table import DIRECT, algorithms, kernel
from afterglow.backends.cpu.micro.cost import plain_cost
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest
from afterglow.instr import OpInstr, Region
from afterglow.ops.quantized_lstm import QuantizedLSTM
from afterglow.ops.recurrent import GRU, LSTM, RNN, LSTMKeepingGates


def _name(step: OpInstr) -> str:
    problem = problem_of(step)
    return f"{step.op.mnemonic}_{problem.steps}x{problem.batch}x{problem.width}"


def _needs(r: KernelRequest) -> KernelNeeds:
    problem = problem_of(r.step)
    inputs, steps = projection_needs(problem, r.target), steps_needs(problem, r.target)
    return KernelNeeds(
        {**inputs.workspace, **steps.workspace},
        {**inputs.scratch, **steps.scratch},
        (*inputs.packed, *steps.packed),
    )


@kernel(RNN, GRU, LSTM, LSTMKeepingGates, name=_name, needs=_needs)
def write_recurrent(k: Kernel) -> None:
    """Write the kernel of a recurrent layer."""
    problem = problem_of(k.step)
    write_projection(k, problem)
    write_steps(k, problem)


@algorithms(QuantizedLSTM, name=_name)
def quantized_lstm_algorithms(r: KernelRequest) -> list[Algorithm]:
    """There is none if recurrent weights are known only in the run: it is lowered to a scan."""
    if r.step.required[1].root.region is not Region.CONSTANT:
        return []
    return [Algorithm(DIRECT, plain_cost(r.job), write_recurrent, _needs(r))]
