"""Whose turn it is to use some memory: events that runs wait for and reach."""

from __future__ import annotations

import sys
from contextlib import suppress

from afterglow.backends.cuda.driver.protocol import CudaError, Event
from afterglow.backends.cuda.session import Session


class Turn:
    """An event that is reached when a run has ended, given back when nobody waits for it."""

    __slots__ = ("event", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.event: Event | None = None
        with session.guarded("make an event"):
            self.event = session.context.new_event()

    def __del__(self) -> None:
        if self.event is not None and not self.session.is_lost and not sys.is_finalizing():
            with suppress(CudaError):
                self.session.context.free_event(self.event)
