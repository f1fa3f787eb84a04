"""Traces: what they hold, and the file that a viewer of traces reads."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from afterglow.runtime.trace import Row, Trace, opened_trace
from afterglow.support.errors import UsageError

CPU, GPU = Row("cpu", "stream 0"), Row("gpu", "stream 0")


def of_phase(trace: Trace, *phases: str) -> list[dict[str, object]]:
    return [event for event in trace.events() if event["ph"] in phases]


def test_devices_are_processes_and_streams_are_threads() -> None:
    trace = Trace()
    for row in (CPU, GPU, Row("cpu", "stream 1"), CPU):
        trace.add(row, "conv", 1.0, 2.0)
    named = [(e["name"], e["pid"], e["tid"], e["args"]) for e in of_phase(trace, "M")]
    assert named == [
        ("process_name", 1, 0, {"name": "cpu"}),
        ("thread_name", 1, 1, {"name": "stream 0"}),
        ("thread_name", 1, 2, {"name": "stream 1"}),
        ("process_name", 2, 0, {"name": "gpu"}),
        ("thread_name", 2, 1, {"name": "stream 0"}),
    ]
    assert [(e["pid"], e["tid"]) for e in of_phase(trace, "X")] == [(1, 1), (2, 1), (1, 2), (1, 1)]


def test_a_span_has_its_times_in_microseconds() -> None:
    trace = Trace()
    start = trace._began
    trace.add(CPU, "copy", start + 1e-3, start + 3e-3, kind="transfer", request=4, bytes=12)
    (event,) = of_phase(trace, "X")
    assert event["ts"] == pytest.approx(1000, abs=0.1)
    assert event["dur"] == pytest.approx(2000, abs=0.1)
    assert (event["name"], event["cat"]) == ("copy", "transfer")
    assert event["args"] == {"request": 4, "bytes": 12}


def test_arrows_join_the_spans_of_a_request() -> None:
    trace = Trace()
    for time, row in enumerate((CPU, GPU, CPU)):
        trace.add(row, "part", time, time + 1, request=1)
    trace.add(CPU, "alone", 9, 10, request=2)
    arrows = of_phase(trace, "s", "t", "f")
    assert [(e["ph"], e["pid"], e["id"]) for e in arrows] == [("s", 1, 1), ("t", 2, 1), ("f", 1, 1)]
    assert arrows[-1]["bp"] == "e"


def test_a_trace_is_bounded_and_counts_what_it_left_out(tmp_path: Path) -> None:
    trace = Trace(limit=2)
    for _ in range(5):
        with trace.span(CPU, "run"):
            pass
    trace.save(tmp_path / "t.json")
    read = json.loads((tmp_path / "t.json").read_text())
    assert len([event for event in read["traceEvents"] if event["ph"] == "X"]) == 2
    assert read["otherData"] == {"dropped events": 3}
    assert read["format"] == "afterglow trace"


def test_threads_may_add_at_once() -> None:
    trace = Trace()

    def work() -> None:
        for _ in range(200):
            trace.add(CPU, "run", 0, 1, request=trace.next_request())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = {event["args"]["request"] for event in of_phase(trace, "X")}  # type: ignore[index]
    assert numbers == set(range(1, 801))


def test_a_trace_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*t\.json: no such file or directory"):
        Trace().save(tmp_path / "missing" / "t.json")


def test_a_trace_is_given_as_a_path_or_itself(tmp_path: Path) -> None:
    trace = Trace()
    assert opened_trace(None) == (None, None)
    assert opened_trace(trace) == (trace, None)
    assert opened_trace(tmp_path)[1] == tmp_path
    with pytest.raises(UsageError) as caught:
        opened_trace(3)  # type: ignore[arg-type]
    assert str(caught.value) == (
        'error: trace must be a path or a Trace, got 3\n  help: write trace="trace.json"'
    )
