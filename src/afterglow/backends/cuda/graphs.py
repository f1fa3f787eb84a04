"""Captured runs: the graphs that replay a program on given memory."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress

from afterglow.backends.cuda.driver.protocol import CudaError, Graph
from afterglow.backends.cuda.session import Session
from afterglow.support.lazy_dataclass import dataclass

MOST_RUNS = 32
"""Captured runs that are kept; a caller who alternates between a few buffers only replays."""


@dataclass(frozen=True)
class HostPart:
    """A part of a program that the host runs, by its number."""

    number: int


class CapturedRun:
    """What a run does in order: graphs of the device, and parts of the host between them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.steps: list[Graph | HostPart] = []
        self.only: Graph | None = None
        """The graph, if that is all there is to do."""

    def add(self, step: Graph | HostPart) -> None:
        """Add what comes next."""
        self.only = step if not self.steps and not isinstance(step, HostPart) else None
        self.steps.append(step)

    def __del__(self) -> None:
        if self.session.is_lost or sys.is_finalizing():
            return
        for step in self.steps:
            if not isinstance(step, HostPart):
                with suppress(CudaError):
                    self.session.context.free_graph(step)


class CapturedRuns:
    """The runs that were captured last, by what tells them apart: the addresses they work on."""

    def __init__(self, most: int = MOST_RUNS) -> None:
        self.most = most
        self._runs: OrderedDict[Hashable, CapturedRun] = OrderedDict()

    def __len__(self) -> int:
        return len(self._runs)

    def find(self, key: Hashable) -> CapturedRun | None:
        """The run of a key, if it was captured and is kept."""
        found = self._runs.get(key)
        if found is not None:
            self._runs.move_to_end(key)
        return found

    def keep(self, key: Hashable, run: CapturedRun) -> None:
        """Keep a run; the one that was not used for the longest time makes room."""
        self._runs[key] = run
        if len(self._runs) > self.most:
            self._runs.popitem(last=False)


def capture(session: Session, stream: int, begin: Callable[[int], None]) -> Graph:
    """The graph of what is begun on a stream."""
    context = session.context
    context.begin_capture(stream)
    try:
        begin(stream)
    except BaseException:
        with suppress(CudaError):
            context.free_graph(context.end_capture(stream))
        raise
    return context.end_capture(stream)
