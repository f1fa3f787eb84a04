"""Traces: what ran when, on which device and stream, as Chrome and Perfetto show it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import field
from pathlib import Path
from time import perf_counter
from typing import Any

from afterglow.support.atomic_file import replace_file
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.output_path import checked_path, writing

FORMAT = "afterglow trace"
"""By which a file is known to be a trace of ours."""
MOST_EVENTS = 1_000_000
"""Events that a trace holds, unless another limit is given; of later ones only the number."""


@dataclass(frozen=True)
class Row:
    """Where events are shown: the stream of a device, or a thread of the host."""

    process: str
    thread: str


@dataclass(frozen=True)
class Span:
    """What was done from one time to another, in a row of a trace."""

    row: Row
    name: str
    kind: str
    begin: float
    end: float
    request: int | None
    details: dict[str, Any] = field(default_factory=dict)


class Trace:
    """A record of runs, which any number of threads may add to.

    Each device is a process and each stream a thread of it; arrows join what belongs to one
    request. Times are those of `time.perf_counter`.
    """

    def __init__(self, *, limit: int = MOST_EVENTS) -> None:
        self.limit = limit
        self.dropped = 0
        """Events that came after there were as many as it holds."""
        self._began = perf_counter()
        self._spans: list[Span] = []
        self._requests = 0
        self._lock = threading.Lock()

    def next_request(self) -> int:
        """A number for a request, which no other has in this trace."""
        with self._lock:
            self._requests += 1
            return self._requests

    def add(
        self,
        row: Row,
        name: str,
        begin: float,
        end: float,
        *,
        kind: str = "compute",
        request: int | None = None,
        **details: Any,
    ) -> None:
        """Add what began and ended at given times; `details` are what JSON can hold."""
        span = Span(row, name, kind, begin, end, request, details)
        with self._lock:
            if len(self._spans) < self.limit:
                self._spans.append(span)
            else:
                self.dropped += 1

    @property
    def spans(self) -> list[Span]:
        """What it holds, in the order in which it began; of equal times the longest first."""
        with self._lock:
            return sorted(self._spans, key=lambda span: (span.begin, -span.end))

    @contextmanager
    def span(self, row: Row, name: str, **about: Any) -> Iterator[None]:
        """Add what is done within; `about` is as for `add`."""
        begin = perf_counter()
        try:
            yield
        finally:
            self.add(row, name, begin, perf_counter(), **about)

    def events(self) -> list[dict[str, Any]]:
        """All events in the form of Chrome's traces; times are microseconds since it began."""
        spans = self.spans
        places = _Places(spans)
        complete = [self._complete(span, places) for span in spans]
        return [*places.names(), *complete, *self._arrows(spans, places)]

    def _complete(self, span: Span, places: _Places) -> dict[str, Any]:
        named = {} if span.request is None else {"request": span.request}
        return {
            "ph": "X",
            "name": span.name,
            "cat": span.kind,
            **places.of(span.row),
            "ts": self._micro(span.begin),
            "dur": round((span.end - span.begin) * 1e6, 3),
            "args": {**named, **span.details},
        }

    def _arrows(self, spans: Sequence[Span], places: _Places) -> Iterator[dict[str, Any]]:
        """What joins the spans of each request, in the order in which they began."""
        by_request: dict[int, list[Span]] = {}
        for span in spans:
            if span.request is not None:
                by_request.setdefault(span.request, []).append(span)
        for number, own in by_request.items():
            last = len(own) - 1
            for place, span in enumerate(own if last else ()):
                phase = "s" if place == 0 else "f" if place == last else "t"
                yield {
                    "ph": phase,
                    "name": "request",
                    "cat": "request",
                    "id": number,
                    **places.of(span.row),
                    "ts": self._micro(span.begin),
                    **({"bp": "e"} if phase == "f" else {}),
                }

    def _micro(self, time: float) -> float:
        return round((time - self._began) * 1e6, 3)

    def text(self) -> str:
        """All of it as JSON, as a file has it."""
        data = {
            "format": FORMAT,
            "displayTimeUnit": "ms",
            "otherData": {"dropped events": self.dropped},
            "traceEvents": self.events(),
        }
        return json.dumps(data)

    def save(self, path: str | Path) -> None:
        """Write it as one JSON file, which replaces what was there as a whole."""
        path = checked_path(path, "trace")
        with writing(path):
            replace_file(path, [self.text().encode()])


@dataclass(frozen=True)
class Recording:
    """A trace, the request in it that something is done for, and the row where that is shown."""

    trace: Trace
    request: int
    row: Row
    with_steps: bool = False
    """Whether programs that can be timed run step by step on one thread, and show each."""

    def span(self, name: str, kind: str, **details: Any) -> AbstractContextManager[None]:
        """Add what is done within."""
        about = {"kind": kind, "request": self.request, **details}
        return self.trace.span(self.row, name, **about)


_CURRENT: ContextVar[Recording | None] = ContextVar("afterglow trace", default=None)


def current_recording() -> Recording | None:
    """The trace that this thread records a request in; None if nobody asked for one."""
    return _CURRENT.get()


@contextmanager
def recording(to: Recording) -> Iterator[None]:
    """Record what programs that consist of parts, or show their steps, do within."""
    token = _CURRENT.set(to)
    try:
        yield
    finally:
        _CURRENT.reset(token)


class _Places:
    """The numbers of processes and threads, in the order of their first events."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.rows: dict[str, dict[str, int]] = {}
        for span in spans:
            threads = self.rows.setdefault(span.row.process, {})
            threads.setdefault(span.row.thread, len(threads) + 1)
        self.processes = {name: number for number, name in enumerate(self.rows, 1)}

    def of(self, row: Row) -> dict[str, int]:
        """The fields of an event in a row."""
        return {"pid": self.processes[row.process], "tid": self.rows[row.process][row.thread]}

    def names(self) -> Iterator[dict[str, Any]]:
        """The events that name processes and threads."""
        for process, threads in self.rows.items():
            pid = self.processes[process]
            yield _named("process_name", pid, 0, process)
            for thread, tid in threads.items():
                yield _named("thread_name", pid, tid, thread)


def _named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def opened_trace(given: Trace | str | Path | None) -> tuple[Trace | None, Path | None]:
    """The trace that a caller asks for, and the file that it is to be saved in."""
    if given is None or isinstance(given, Trace):
        return given, None
    if isinstance(given, (str, Path)):
        return Trace(), checked_path(given, "trace")
    raise UsageError(
        f"trace must be a path or a Trace, got {given!r}", help='write trace="trace.json"'
    )
