"""Interrupts of machine code: a cell of memory in which signals are noted while it runs.

Python's handlers run only when machine code has returned, which a loop may never do. But at once,
and wherever the process is, Python writes the number of a signal to its wakeup file. While loops
run that is a file in memory, and its first bytes are the cell that they look at.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import threading
from _signal import getsignal  # type: ignore[import-not-found]  # without stubs; much faster
from collections.abc import Iterator
from contextlib import contextmanager

from afterglow.runtime.native.convention import INTERRUPT, SIGNAL_BYTES

_NOTHING = (ctypes.c_char * SIGNAL_BYTES)()
QUIET = ctypes.addressof(_NOTHING)
"""A cell in which no signal is ever noted."""


class _Cell:
    """A file in memory, and where its bytes are."""

    def __init__(self) -> None:
        self.file = os.memfd_create("afterglow-signals")
        os.ftruncate(self.file, mmap.PAGESIZE)
        os.set_blocking(self.file, False)
        self.memory = mmap.mmap(self.file, mmap.PAGESIZE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def take(self) -> bytes:
        """The signals that were noted, which are then forgotten."""
        noted = self.memory[:SIGNAL_BYTES]
        if noted[0]:
            self.memory[:SIGNAL_BYTES] = bytes(SIGNAL_BYTES)
            os.lseek(self.file, 0, os.SEEK_SET)
        return noted


_CELLS: list[_Cell] = []


def _forget() -> None:
    """A process that was forked off gets a cell of its own."""
    for cell in _CELLS:
        os.close(cell.file)
    _CELLS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def interruptible() -> Iterator[int]:
    """The address of a cell for a run; Ctrl-C ends it with `KeyboardInterrupt`.

    Only what the main thread runs can be interrupted, where SIGINT has Python's own meaning and no
    one else uses the wakeup file.
    """
    if not _can_be_interrupted():
        yield QUIET
        return
    if not _CELLS:
        _CELLS.append(_Cell())
    cell = _CELLS[0]
    before = signal.set_wakeup_fd(cell.file, warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)
        yield QUIET
        return
    try:
        yield cell.address
    finally:
        signal.set_wakeup_fd(-1)
        noted = cell.take()
    if INTERRUPT in noted:  # Python's handler has raised by now, unless it is about to
        raise KeyboardInterrupt


def _can_be_interrupted() -> bool:
    return (
        hasattr(os, "memfd_create")
        and threading.current_thread() is threading.main_thread()
        and getsignal(INTERRUPT) is signal.default_int_handler
    )
