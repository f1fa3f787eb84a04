"""The table of kernels for ops that need more than the element at one place."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.backends.job import Job
from afterglow.backends.opencl.kernels.kernel import KernelSource
from afterglow.backends.opencl.limits import Limits
from afterglow.graph import Op
from afterglow.instr import OpInstr
from afterglow.support.lazy_dataclass import dataclass

Write = Callable[[Job, Limits], KernelSource]
Accepts = Callable[[OpInstr, Limits], bool]


@dataclass(frozen=True)
class Anchor:
    """How an op is computed: what writes its kernel, which steps it accepts, what it fuses.

    `fuses` names the operands that steps before it may compute while they are read; `epilogue`
    says whether steps after it may work on its result.
    """

    write: Write
    accepts: Accepts
    fuses: tuple[str, ...]
    epilogue: bool


ANCHORS: dict[type[Op], Anchor] = {}


def anchor(
    *ops: type[Op],
    accepts: Accepts = lambda step, limits: True,
    fuses: tuple[str, ...] = (),
    epilogue: bool = True,
) -> Callable[[Write], Write]:
    """Declare that a function writes the kernels of ops."""

    def declare(write: Write) -> Write:
        ANCHORS.update(dict.fromkeys(ops, Anchor(write, accepts, fuses, epilogue)))
        return write

    return declare
