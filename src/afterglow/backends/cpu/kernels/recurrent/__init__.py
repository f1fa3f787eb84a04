"""Recurrent layers.

What the inputs contribute to the gates is one product for all steps. Then the steps follow each
other: the state times the recurrent weights, a panel of hidden units with all their gates at a
time, and what the gates make of it, in registers.
"""

from __future__ import annotations

from afterglow.backends.cpu.kernel import Kernel
from afterglow.backends.cpu.kernels.recurrent.problem import problem_of
from afterglow.backends.cpu.kernels.recurrent.projection import write_projection
from afterglow.backends.cpu.kernels.recurrent.steps import write_steps
from afterglow.backends.cpu.table import kernel
from afterglow.instr import OpInstr
from afterglow.ops.recurrent import GRU, LSTM, RNN


def _name(step: OpInstr) -> str:
    problem = problem_of(step)
    return f"{step.op.mnemonic}_{problem.steps}x{problem.batch}x{problem.width}"


@kernel(RNN, GRU, LSTM, name=_name)
def write_recurrent(k: Kernel) -> None:
    """Write the kernel of a recurrent layer."""
    problem = problem_of(k.step)
    write_projection(k, problem)
    write_steps(k, problem)
