"""The kernel table: which ops the CPU backend computes, and how.

What stands here is what the backend keeps whole; everything else is lowered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from afterglow.backends.cpu.candidate import Candidate
from afterglow.backends.cpu.job import Job
from afterglow.backends.cpu.kernel import Kernel
from afterglow.backends.cpu.target import Target
from afterglow.backends.cpu.types import spell
from afterglow.backends.policy import Policy
from afterglow.graph import Op
from afterglow.instr import OpInstr

Writer = Callable[[Kernel], None]
Accepts = Callable[[OpInstr], bool]
Candidates = Callable[[OpInstr, Target, Policy], list[Candidate]]


@dataclass(frozen=True)
class Entry:
    """How an op is computed as an anchor.

    `fuses` names the operands that may be computed by steps before it, while they are read;
    `epilogue` says whether steps after it may work on its result. `accepts` refuses steps that the
    writer cannot write: they run on the host. `candidates` are the ways it can be written, where
    there are several, the one that is taken first.
    """

    write: Writer
    name: Callable[[OpInstr], str]
    fuses: tuple[str, ...] = ()
    epilogue: bool = True
    accepts: Accepts = lambda step: True
    candidates: Candidates | None = None


ENTRIES: dict[type[Op], Entry] = {}


def kernel(
    *ops: type[Op],
    name: Callable[[OpInstr], str] | None = None,
    fuses: tuple[str, ...] = (),
    epilogue: bool = True,
    accepts: Accepts = lambda step: True,
    candidates: Candidates | None = None,
) -> Callable[[Writer], Writer]:
    """Declare that a function writes the kernels of ops; see `Entry`.

    `name` gives the beginning of the symbol, which profilers show: the mnemonic by default.
    """

    def declare(write: Writer) -> Writer:
        for op in ops:
            named = name or (lambda step: step.op.mnemonic)
            ENTRIES[op] = Entry(write, named, fuses, epilogue, accepts, candidates)
        return write

    return declare


def has_machine_types(job: Job) -> bool:
    """Whether the machine has a type for every element: texts and complex numbers have none."""
    try:
        for step in job.steps:
            for buffer in (*step.outs, *(b for b in step.ins if b is not None)):
                spell(buffer.type.dtype)
    except TypeError:
        return False
    return True
