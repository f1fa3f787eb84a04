"""The executor of partitioned programs: what runs at the same time, and what errors do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from time import sleep
from typing import Any, ClassVar

import numpy as np
import pytest

from afterglow.runtime.artifact import Artifact
from afterglow.runtime.background import done
from afterglow.runtime.buffers import BufferedExecutable, HostBuffer, HostExecutable
from afterglow.runtime.device import Footprint
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.runtime.partitioned.executable import PartitionedExecutable
from afterglow.runtime.partitioned.graph import Part, PartGraph
from afterglow.runtime.partitioned.loaded import LoadedPart
from afterglow.runtime.trace import Recording, Row, Trace, recording
from afterglow.types import Array, Interface, MemoryPlan, Port, TensorType
from afterglow.types.dtype import f32

WAIT = 5
TYPE = TensorType(f32, (2,))
X = np.array([1, 2], np.float32)


class Sum(HostExecutable):
    """Adds its inputs and one more, after something else was done."""

    footprint = Footprint(0)

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.before = before

    def run(self, inputs: Sequence[Array], states: Mapping[str, Any]) -> list[Array]:
        self.before()
        return [sum(inputs) + np.float32(1)]


class InHostMemory:
    """As much of a device as loaded parts ask for."""

    allocate = HostBuffer


class OwnBuffer:
    """A buffer that counts what is copied."""

    copies: ClassVar[list[str]] = []

    def __init__(self, type: TensorType) -> None:
        self.type = type
        self.array = np.zeros(type.shape, np.float32)

    def write(self, array: Array) -> Future[None]:
        self.copies.append("write")
        self.array[...] = array
        return done(None)

    def read(self) -> Future[Array]:
        self.copies.append("read")
        return done(self.array.copy())


class SumOnDevice(BufferedExecutable):
    """Adds buffers and one more."""

    footprint = Footprint(0)

    def __init__(self, interface: Interface, device: Any) -> None:
        self.interface, self.device = interface, device

    def start(
        self, inputs: Sequence[Any], outputs: Sequence[Any], states: Mapping[str, Any]
    ) -> Future[None]:
        outputs[0].array[...] = sum(buffer.array for buffer in inputs) + np.float32(1)
        return done(None)


class WithMemory:
    """A device that has a memory of its own."""

    allocate = OwnBuffer


def on_device(device: str, inputs: Sequence[str], output: str) -> LoadedPart:
    """A part on a device with a memory of its own."""
    plain = loaded(device, inputs, output)
    there: Any = WithMemory()
    return LoadedPart(plain.part, there, SumOnDevice(plain.part.artifact.interface, there))


def loaded(
    device: str, inputs: Sequence[str], output: str, before: Callable[[], object] = lambda: None
) -> LoadedPart:
    ports = tuple(Port(name, TYPE) for name in inputs)
    interface = Interface(ports, (Port(output, TYPE),))
    artifact = Artifact(device, interface, MemoryPlan(0, 0, 0, 0), {}, {})
    part = Part(LogicalDevice(device, "cpu"), artifact, tuple(inputs), (output,))
    return LoadedPart(part, InHostMemory(), Sum(before))  # type: ignore[arg-type]


def program(outputs: Sequence[str], *parts: LoadedPart) -> PartitionedExecutable:
    graph = PartGraph(("x",), tuple(outputs), tuple(part.part for part in parts))
    return PartitionedExecutable(graph, parts)


def test_parts_that_need_nothing_of_each_other_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=WAIT)
    made = program(
        ["y"],
        loaded("a", ["x"], "u", meeting.wait),
        loaded("b", ["x"], "v", meeting.wait),
        loaded("a", ["u", "v"], "y"),
    )
    (y,) = made.run([X], {})
    np.testing.assert_array_equal(y, 2 * X + 3)


def test_runs_are_pipelined_over_devices() -> None:
    """The second run is on the first device while the first is on the second."""
    meeting = threading.Barrier(2, timeout=WAIT)
    begun = threading.Semaphore(0)
    runs = iter([lambda: None, meeting.wait])

    def first() -> None:
        begun.release()
        next(runs)()

    ends = iter([meeting.wait, lambda: None, lambda: None])
    made = program(
        ["y"], loaded("a", ["x"], "u", first), loaded("b", ["u"], "y", lambda: next(ends)())
    )
    with ThreadPoolExecutor(2) as callers:
        one = callers.submit(made.run, [X], {})
        assert begun.acquire(timeout=WAIT)
        two = callers.submit(made.run, [X + 1], {})
        np.testing.assert_array_equal(one.result(WAIT)[0], X + 2)
        np.testing.assert_array_equal(two.result(WAIT)[0], X + 3)


def test_a_device_runs_one_part_at_a_time() -> None:
    busy = threading.Lock()

    def alone() -> None:
        assert busy.acquire(blocking=False)
        sleep(1e-4)
        busy.release()

    made = program(["y", "u"], loaded("a", ["x"], "u", alone), loaded("b", ["u"], "y"))
    with ThreadPoolExecutor(4) as callers:
        results = [callers.submit(made.run, [X + i], {}) for i in range(20)]
        for i, result in enumerate(results):
            y, u = result.result(WAIT)
            np.testing.assert_array_equal((y, u), (X + i + 2, X + i + 1))


def test_the_error_of_a_part_is_that_of_the_run_and_ends_it() -> None:
    after: list[int] = []
    made = program(
        ["y", "v"],
        loaded("a", ["x"], "u", lambda: 1 // 0),
        loaded("b", ["x"], "v"),
        loaded("b", ["u"], "y", lambda: after.append(1)),
    )
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            made.run([X], {})
    assert after == []


def test_an_error_waits_for_what_is_under_way() -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        sleep(0.02)
        ended.set()

    def fail() -> None:
        assert begun.wait(WAIT)
        raise ZeroDivisionError

    made = program(["y", "v"], loaded("a", ["x"], "y", fail), loaded("b", ["x"], "v", slow))
    with pytest.raises(ZeroDivisionError):
        made.run([X], {})
    assert ended.is_set()


def test_random_graphs_give_what_their_parts_in_order_give() -> None:
    draw = Random(0)
    for _ in range(10):
        names, parts = ["x"], []
        for place in range(draw.randrange(2, 12)):
            inputs = [draw.choice(names) for _ in range(draw.randrange(1, 4))]
            parts.append(loaded(draw.choice("abc"), inputs, f"v{place}"))
            names.append(f"v{place}")
        made = program([names[-1], draw.choice(names)], *parts)
        values = {"x": X}
        for part in made.parts:
            (values[part.part.outputs[0]],) = part.run([values[n] for n in part.part.inputs], {})
        with ThreadPoolExecutor(4) as callers:
            for result in [callers.submit(made.run, [X], {}) for _ in range(4)]:
                for got, name in zip(result.result(WAIT), made.graph.outputs, strict=True):
                    np.testing.assert_array_equal(got, values[name])


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was copied to and from devices, in order."""
    monkeypatch.setattr(OwnBuffer, "copies", [])
    return OwnBuffer.copies


def test_a_value_stays_on_a_device_where_a_later_part_reads_it(copies: list[str]) -> None:
    made = program(
        ["y"],
        on_device("d", ["x"], "u"),
        loaded("a", ["x"], "v"),
        on_device("d", ["u", "v"], "y"),
    )
    (y,) = made.run([X], {})
    np.testing.assert_array_equal(y, 2 * X + 3)
    assert copies == ["write", "write", "read"]  # x and v there, y back; u stays


def test_a_value_that_others_need_is_also_sent(copies: list[str]) -> None:
    made = program(
        ["y", "u"],
        on_device("d", ["x"], "u"),
        loaded("a", ["u"], "v"),
        on_device("d", ["u", "v"], "y"),
        on_device("e", ["u"], "z"),
    )
    for _ in range(2):
        y, u = made.run([X], {})
        np.testing.assert_array_equal((y, u), (2 * X + 4, X + 1))
    assert sorted(copies[: len(copies) // 2]) == [*["read"] * 3, *["write"] * 3]


def test_copies_of_one_run_overlap_with_the_arithmetic_of_another() -> None:
    """A device with a memory of its own has two streams, so that two runs meet there."""
    meeting = threading.Barrier(2, timeout=WAIT)
    part = on_device("d", ["u"], "y")
    run = part.executable.run
    part.executable.run = lambda *given: (meeting.wait(), run(*given))[1]  # type: ignore[method-assign]
    made = program(["y"], loaded("a", ["x"], "u"), part)
    with ThreadPoolExecutor(2) as callers:
        for result in [callers.submit(made.run, [X], {}) for _ in range(2)]:
            np.testing.assert_array_equal(result.result(WAIT)[0], X + 2)


def test_a_trace_shows_copies_apart_from_the_arithmetic(copies: list[str]) -> None:
    trace = Trace()
    made = program(["y"], loaded("a", ["x"], "u"), on_device("d", ["u"], "y"))
    with recording(Recording(trace, 1, Row("host", "main"))):
        made.run([X], {})
    spans = [event for event in trace.events() if event["ph"] == "X"]
    assert [(e["name"], e["cat"], e["args"].get("bytes")) for e in spans] == [
        ("run", "compute", None),
        ("copy inputs", "transfer", 8),
        ("run", "compute", None),
        ("copy outputs", "transfer", 8),
    ]


def test_a_trace_shows_parts_on_their_devices() -> None:
    trace = Trace()
    made = program(["y"], loaded("a", ["x"], "u"), loaded("b", ["u"], "y"))
    with recording(Recording(trace, 7, Row("host", "main"))):
        made.run([X], {})
    made.run([X], {})
    events = trace.events()
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["a", "b"]
    spans = [event for event in events if event["ph"] == "X"]
    assert [(e["name"], e["pid"], e["args"]["request"]) for e in spans] == [
        ("run", 1, 7),
        ("run", 2, 7),
    ]
    assert [event["ph"] for event in events if event.get("id") == 7] == ["s", "f"]
