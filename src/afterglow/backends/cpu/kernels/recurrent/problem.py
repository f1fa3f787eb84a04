"""The problem of a recurrent layer."""

from __future__ import annotations

from afterglow.backends.cpu.micro.tile import sum_type
from afterglow.instr import Buffer, OpInstr
from afterglow.ops.recurrent import Recurrent
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType


@dataclass(frozen=True)
class RecurrentProblem:
    """`steps` times `batch` states of `width` hidden units, each with some gates.

    `given` are the operands by name, those left out excepted.
    """

    op: Recurrent
    steps: int
    batch: int
    inputs: int
    width: int
    gates: int
    given: dict[str, Buffer]

    @property
    def dtype(self) -> DType:
        """The type in which it is computed."""
        return sum_type((self.given["gates"] if self.is_projected else self.given["x"]).type.dtype)

    @property
    def is_projected(self) -> bool:
        """Whether what the inputs contribute to the gates is an operand."""
        return "gates" in self.given

    @property
    def rows(self) -> int:
        """States of all steps."""
        return self.steps * self.batch

    @property
    def columns(self) -> int:
        """Gates of all hidden units."""
        return self.gates * self.width


def problem_of(step: OpInstr) -> RecurrentProblem:
    """The problem that a step states."""
    op = step.op
    assert isinstance(op, Recurrent)
    pairs = zip(op.operand_names, step.ins, strict=False)
    given = {name: buffer for name, buffer in pairs if buffer is not None}
    recurrence = given["recurrence"].type.shape
    width = recurrence[1]
    steps, batch, inputs = given["gates" if "gates" in given else "x"].type.shape
    gates = recurrence[0] // max(width, 1)
    return RecurrentProblem(op, steps, batch, inputs, width, gates, given)
