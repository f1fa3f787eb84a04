"""The kernel table: which ops the CPU backend computes, and how.

What stands here is what the backend keeps whole; everything else is lowered.
"""

from __future__ import annotations

from collections.abc import Callable

from afterglow.backends.cpu.kernels.algorithm import Algorithm, Writer
from afterglow.backends.cpu.llvm.types import spell
from afterglow.backends.cpu.micro.cost import plain_cost
from afterglow.backends.cpu.micro.kernel import KernelNeeds, KernelRequest
from afterglow.backends.job import Job
from afterglow.graph import Op
from afterglow.instr import OpInstr
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import is_ranged, undecided

DIRECT = "direct"
"""The algorithm that computes a result as it is defined."""

Accepts = Callable[[OpInstr], bool]
Algorithms = Callable[[KernelRequest], list[Algorithm]]
NeedsOf = Callable[[KernelRequest], KernelNeeds]


@dataclass(frozen=True)
class KernelEntry:
    """How an op is computed as an anchor.

    `algorithms` lists how it can be computed, the one with the least estimate first. `fuses` names
    the operands that may be computed by steps before it, while they are read; `epilogue` says
    whether steps after it may work on its result. `accepts` refuses steps that no algorithm can
    compute: they run on the host. The extents of operands named in `exact` must not be ranged.
    """

    algorithms: Algorithms
    name: Callable[[OpInstr], str]
    fuses: tuple[str, ...] = ()
    epilogue: bool = True
    accepts: Accepts = lambda step: True
    exact: tuple[str, ...] = ()


ENTRIES: dict[type[Op], KernelEntry] = {}


def algorithms(
    *ops: type[Op],
    name: Callable[[OpInstr], str] | None = None,
    fuses: tuple[str, ...] = (),
    epilogue: bool = True,
    accepts: Accepts = lambda step: True,
    exact: tuple[str, ...] = (),
) -> Callable[[Algorithms], Algorithms]:
    """Declare that a function lists the algorithms for ops; see `KernelEntry`.

    `name` gives the beginning of the symbol, which profilers show: the mnemonic by default.
    """

    def declare(listed: Algorithms) -> Algorithms:
        for op in ops:
            named = name or (lambda step: step.op.mnemonic.replace("::", "_"))
            ENTRIES[op] = KernelEntry(listed, named, fuses, epilogue, accepts, exact)
        return listed

    return declare


def kernel(
    *ops: type[Op],
    name: Callable[[OpInstr], str] | None = None,
    fuses: tuple[str, ...] = (),
    epilogue: bool = True,
    accepts: Accepts = lambda step: True,
    exact: tuple[str, ...] = (),
    needs: NeedsOf = lambda request: KernelNeeds(),
) -> Callable[[Writer], Writer]:
    """Declare that a function writes the kernels of ops, for which there is one algorithm."""

    def declare(write: Writer) -> Writer:
        def only(request: KernelRequest) -> list[Algorithm]:
            return [Algorithm(DIRECT, plain_cost(request.job), write, needs(request))]

        algorithms(*ops, name=name, fuses=fuses, epilogue=epilogue, accepts=accepts, exact=exact)(
            only
        )
        return write

    return declare


def check_exact(step: OpInstr) -> None:
    """Raise if an operand has ranged extents that no kernel of the op can take."""
    for name in ENTRIES[type(step.op)].exact:
        operand = step.optional(step.op.operand_names.index(name))
        ranged = [] if operand is None else [n for n in operand.type.shape if is_ranged(n)]
        if ranged:
            raise undecided(f"the shape of operand {name} of {step.op.mnemonic}", *ranged)


def has_machine_types(job: Job) -> bool:
    """Whether every element type is one of the machine's; strings and complex numbers are not."""
    try:
        for step in job.steps:
            for buffer in (*step.outs, *(b for b in step.ins if b is not None)):
                spell(buffer.type.dtype)
    except TypeError:
        return False
    return True
