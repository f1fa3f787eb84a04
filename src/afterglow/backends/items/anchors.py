"""Tables of kernels for ops that need more than the element at one place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar

from afterglow.backends.items.language import Kernel
from afterglow.backends.job import Job
from afterglow.graph import Op
from afterglow.instr import KernelPlan, OpInstr
from afterglow.support.lazy_dataclass import dataclass

TargetT = TypeVar("TargetT")
SourceT = TypeVar("SourceT")
SourceT_co = TypeVar("SourceT_co", covariant=True)
WriteT = TypeVar("WriteT", bound=Callable[..., Any])
SharedT = TypeVar("SharedT", bound=Callable[..., None])


@dataclass(frozen=True)
class Anchor(Generic[TargetT, SourceT]):
    """How an op is computed: what writes its kernel, which steps it accepts, what it fuses.

    `write` takes a job, a target, and one of the plans if there are `plans`. `fuses` names the
    operands that steps before it may compute while they are read; `epilogue` says whether steps
    after it may work on its result.
    """

    write: Callable[..., SourceT]
    accepts: Callable[[OpInstr, TargetT], bool]
    fuses: tuple[str, ...] = ()
    epilogue: bool = True
    plans: Callable[[Job, TargetT], Sequence[KernelPlan]] | None = None
    """The ways to compute a job, the best first; None if there is one way."""


class Finished(Protocol[SourceT_co]):
    """A kernel that can be written, and then be had."""

    def finish(self) -> SourceT_co:
        """The kernel as it was written."""


class AnchorTable(Generic[TargetT, SourceT]):
    """The kernels of a backend, by op; of several for one op, the first that accepts a step.

    The backend's own come before those that serve all backends, `shared`; `begin` makes the kernel
    that one of these writes.
    """

    def __init__(
        self, begin: Callable[[Job, TargetT], Finished[SourceT]], shared: Iterable[SharedAnchor]
    ) -> None:
        self._own: defaultdict[type[Op], list[Anchor[TargetT, SourceT]]] = defaultdict(list)
        self._shared: defaultdict[type[Op], list[Anchor[TargetT, SourceT]]] = defaultdict(list)
        for entry in shared:
            anchor = _bound(entry, begin)
            for op in entry.ops:
                self._shared[op].append(anchor)

    def declare(
        self,
        *ops: type[Op],
        accepts: Callable[[OpInstr, TargetT], bool] = lambda step, target: True,
        fuses: tuple[str, ...] = (),
        epilogue: bool = True,
        plans: Callable[[Job, TargetT], Sequence[KernelPlan]] | None = None,
    ) -> Callable[[WriteT], WriteT]:
        """Declare that a function writes kernels of ops."""

        def declare(write: WriteT) -> WriteT:
            anchor = Anchor(write, accepts, fuses, epilogue, plans)
            for op in ops:
                self._own[op].append(anchor)
            return write

        return declare

    def find(self, step: OpInstr, target: TargetT) -> Anchor[TargetT, SourceT] | None:
        """How a step is computed; None if no kernel accepts it."""
        return next((each for each in self._of(type(step.op)) if each.accepts(step, target)), None)

    def __contains__(self, op: type[Op]) -> bool:
        return op in self._own or op in self._shared

    def _of(self, op: type[Op]) -> Iterator[Anchor[TargetT, SourceT]]:
        return chain(self._own.get(op, ()), self._shared.get(op, ()))


@dataclass(frozen=True)
class SharedAnchor:
    """A function that writes kernels of ops for all backends."""

    ops: tuple[type[Op], ...]
    write: Callable[[Kernel[Any]], None]
    accepts: Callable[[OpInstr], bool]
    fuses: tuple[str, ...]
    epilogue: bool


SHARED: list[SharedAnchor] = []


def shared(
    *ops: type[Op],
    accepts: Callable[[OpInstr], bool] = lambda step: True,
    fuses: tuple[str, ...] = (),
    epilogue: bool = True,
) -> Callable[[SharedT], SharedT]:
    """Declare that a function writes kernels of ops, whatever the language is."""

    def declare(write: SharedT) -> SharedT:
        SHARED.append(SharedAnchor(ops, write, accepts, fuses, epilogue))
        return write

    return declare


def _bound(
    entry: SharedAnchor, begin: Callable[[Job, TargetT], Finished[SourceT]]
) -> Anchor[TargetT, SourceT]:
    """A shared function as one of a backend."""

    def write(job: Job, target: TargetT) -> SourceT:
        kernel: Any = begin(job, target)
        entry.write(kernel)
        source: SourceT = kernel.finish()
        return source

    def accepts(step: OpInstr, target: TargetT) -> bool:
        return entry.accepts(step)

    return Anchor(write, accepts, entry.fuses, entry.epilogue)
