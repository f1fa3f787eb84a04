"""How much stack code takes, as LLVM laid it out.

LLVM tells the size of a function's frame only as a warning on the standard error, if an attribute
of the function asks for it. So that is where it is read, while the code is being generated.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock

ASK = '"warn-stack-size"="0"'
"""The attribute that makes LLVM tell: of every function with a frame of more than 0 bytes."""

_TOLD = re.compile(
    rb"^warning: .*stack frame size \((\d+)\) exceeds limit \(0\) in function '(.*)'\n?$"
)
_DEFINED = re.compile(r"^define .*?@([\w.$]+)\(")
_NAMED = re.compile(r"@([\w.$]+)")
_STANDARD_ERROR = 2
_ONE_AT_A_TIME = Lock()

_BESIDES_FRAME = 16 + 64
"""Bytes of a call that no frame counts: the return address, and what aligning a frame may skip."""
_BETWEEN = 128
"""Bytes of the function that stands between main and a step when no threads are there."""
_MEMORY_FUNCTIONS = 256
"""Bytes that memcpy and its like may take, or a function that calls nothing below its frame."""


def measure_frames(emit: Callable[[], bytes]) -> tuple[bytes, dict[str, int]]:
    """Generate code, and return it with the bytes of each function's frame, by name."""
    frames: dict[str, int] = {}
    with _ONE_AT_A_TIME, tempfile.TemporaryFile() as told:
        with _standard_error_to(told.fileno()):
            code = emit()
        told.seek(0)
        for line in told:
            match = _TOLD.match(line)
            if match is None:  # something else that somebody had to say
                with suppress(OSError):
                    os.write(_STANDARD_ERROR, line)
            else:
                frames[match[2].decode()] = int(match[1])
    return code, frames


@contextmanager
def _standard_error_to(descriptor: int) -> Iterator[None]:
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        kept = os.dup(_STANDARD_ERROR)
    except OSError:  # there is none
        kept = None
    os.dup2(descriptor, _STANDARD_ERROR)
    try:
        yield
    finally:
        if kept is None:
            os.close(_STANDARD_ERROR)
        else:
            os.dup2(kept, _STANDARD_ERROR)
            os.close(kept)


class StackBound:
    """Upper bound of the stack of a call, from the frames of functions and the graph of calls.

    A function that takes the address of another may call it, or have it called by a team.
    """

    def __init__(self, text: str, frames: Mapping[str, int]) -> None:
        self.callees = _call_graph(text)
        self.frames = frames
        self._known: dict[str, int] = {}

    def of(self, function: str) -> int:
        """Bytes for a function, all that it calls, a team's function, and one of the C library."""
        return self._deepest(function) + _BETWEEN + _MEMORY_FUNCTIONS

    def _deepest(self, function: str) -> int:
        if function not in self._known:
            below = max(map(self._deepest, sorted(self.callees[function])), default=0)
            own = self.frames.get(function, 0) + _BESIDES_FRAME
            self._known[function] = own + below
        return self._known[function]


def _call_graph(text: str) -> dict[str, set[str]]:
    """For each function of a module the functions of it that it names."""
    graph: dict[str, set[str]] = {}
    current: set[str] = set()
    for line in text.splitlines():
        if line.startswith("define "):
            match = _DEFINED.match(line)
            assert match is not None, line
            current = graph[match[1]] = set()
        elif "@" in line and line.startswith(" "):
            current.update(_NAMED.findall(line))
    return {function: named & graph.keys() for function, named in graph.items()}
