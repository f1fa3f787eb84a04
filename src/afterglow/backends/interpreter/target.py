"""The targets of the interpreter: the host, and a machine that computes in a memory of its own."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.memory import MAIN_MEMORY, MemorySpace
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.sizes import parse_size
from afterglow.types import DType

HOST, LOCAL = "host", "local"


@dataclass(frozen=True)
class InterpreterTarget:
    """NumPy, wherever that runs; `local_bytes` is the size of a memory that data are copied to.

    A target with such a memory computes only there, as accelerators do: programs for it prefetch
    what they read and copy back what they write. The interpreter runs those transfers, so that a
    wrong one gives wrong numbers.
    """

    local_bytes: int | None = None

    @staticmethod
    def of(text: str) -> InterpreterTarget:
        """The target `host`, or `local=SIZE`."""
        name, _, size = text.partition("=")
        if name == LOCAL and size:
            return InterpreterTarget(parse_size(size))
        if text != HOST:
            raise UsageError(
                f"the interpreter has no target {text!r}",
                help="there is host, and local=SIZE with a second memory, such as local=64KiB",
            )
        return InterpreterTarget()

    @property
    def memories(self) -> tuple[MemorySpace, ...]:
        """The host's memory, and the one that data are copied to, if there is one."""
        if self.local_bytes is None:
            return (MAIN_MEMORY,)
        return MemorySpace("main"), MemorySpace(LOCAL, self.local_bytes)

    def missing_here(self) -> Sequence[str]:
        """Nothing."""
        return ()

    def reads(self, storage: DType) -> bool:
        """Every element type."""
        return True

    def __str__(self) -> str:
        return HOST if self.local_bytes is None else f"{LOCAL}={self.local_bytes}"
