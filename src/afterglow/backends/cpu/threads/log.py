"""The log of a thread: when it began each step, ended its share of it, and saw it done by all.

It lies in front of the scratch memory of the thread. Its first words are the offset of the next
entry and that of the scratch memory, both from its beginning, which whoever starts a run sets.
"""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import Emitter, Pointer
from afterglow.backends.cpu.threads.system import ThreadSystem
from afterglow.runtime.native.convention import BEGUN, DONE, LOG_ENTRY_BYTES, SHARE_DONE
from afterglow.types.dtype import i64

_NEXT, _SCRATCH = 0, 1
"""Words at the beginning."""


class StepLog:
    """The entry of one step in the log of the thread that runs this code."""

    def __init__(self, e: Emitter, system: ThreadSystem, block: Pointer) -> None:
        self.e = e
        self.system = system
        words = block.cast(i64)
        place = e.index(words.load(_NEXT))
        self.scratch = block + e.index(words.load(_SCRATCH))
        self.entry = (block + place).cast(i64)
        words.store(words.load(_NEXT) + LOG_ENTRY_BYTES, _NEXT)
        self._note(BEGUN)

    def share_done(self) -> None:
        """Note that the thread has nothing more to do."""
        self._note(SHARE_DONE)

    def done(self) -> None:
        """Note that all threads are done."""
        self._note(DONE)

    def _note(self, field: int) -> None:
        self.entry.store(self.system.nanoseconds(self.e), field)
