"""Streams of the CPU: taken by runs, on their cores, given back whatever happens."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import afterglow as ag
from afterglow.runtime.native.stream_set import CpuStream, StreamSet, stream_set
from afterglow.runtime.native.topology import Core
from afterglow.support.errors import AfterglowWarning

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
IMAGE = np.random.default_rng(0).normal(size=(1, 1, 8, 8)).astype(np.float32)
needs_affinity = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="one core"
)


def streams_of(*numbers: int) -> StreamSet:
    return StreamSet([(Core(number, twin=number),) for number in numbers])


def some_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))[:2]


@needs_affinity
def test_a_run_is_on_the_cores_of_its_stream_and_leaves_them() -> None:
    first, second = some_cores()
    before = os.sched_getaffinity(0)
    streams = streams_of(first, second)
    inside = streams.run(lambda: (os.sched_getaffinity(0), streams.held))
    assert inside[1] is not None
    assert inside[0] == inside[1].cores
    assert os.sched_getaffinity(0) == before
    assert streams.held is None


@needs_affinity
def test_a_thread_keeps_its_stream_and_work_inside_of_work_has_the_same() -> None:
    streams = streams_of(*some_cores())

    def held() -> CpuStream | None:
        return streams.held

    places = {streams.run(lambda: streams.run(held)) for _ in range(5)}
    assert len(places) == 1


@needs_affinity
def test_as_many_runs_as_streams_are_at_work_and_no_more() -> None:
    streams = streams_of(*some_cores())
    meeting, most, now = threading.Barrier(2), [0], [0]
    lock = threading.Lock()

    def work() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        meeting.wait(10)
        with lock:
            now[0] -= 1

    with ThreadPoolExecutor(6) as threads:
        for each in [threads.submit(streams.run, work) for _ in range(6)]:
            each.result()
    assert most[0] == 2


@needs_affinity
def test_a_stream_is_given_back_after_an_error() -> None:
    streams, before = streams_of(some_cores()[0]), os.sched_getaffinity(0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            streams.run(lambda: 1 // 0)
    assert os.sched_getaffinity(0) == before


@needs_affinity
def test_a_forked_process_has_all_streams() -> None:
    streams = streams_of(some_cores()[0])

    def fork() -> int:
        child = os.fork()
        if child == 0:
            streams._own.stream = None  # the child's work begins anew
            os._exit(streams.run(lambda: 7))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert streams.run(fork) == 7


def test_one_stream_needs_none() -> None:
    assert stream_set(1, 4) is None


def test_too_many_streams_share_cores_and_it_is_said() -> None:
    with pytest.warns(AfterglowWarning, match=r"want \d+ cores, and this process may use \d+"):
        streams = stream_set(len(os.sched_getaffinity(0)) + 1, 1)
    assert streams is not None
    assert len({core.number for cores in streams.cores for core in cores}) == len(
        os.sched_getaffinity(0)
    )


@needs_affinity
@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.filterwarnings("ignore::afterglow.AfterglowWarning")
def test_streams_compute_the_same_bits(tmp_path: Path, threads: int | None) -> None:
    wanted = ag.compile(DIGITS, threads=1)(IMAGE)
    model = ag.compile(DIGITS, streams=2, threads=threads)
    with ThreadPoolExecutor(6) as callers:
        found = list(callers.map(lambda _: model(IMAGE), range(60)))
    assert all((result == wanted).all() for result in found)
    model.save(tmp_path / "m.agc")
    loaded = ag.load(tmp_path / "m.agc", streams=2, threads=threads)
    futures = [loaded.submit(IMAGE) for _ in range(20)]
    assert all((future.result() == wanted).all() for future in futures)


@needs_affinity
def test_streams_near_other_memory_have_weights_of_their_own() -> None:
    model = ag.compile(DIGITS, streams=2, threads=1, cache=False)
    wanted, executable = model(IMAGE), model.compiled.executable
    first, second = some_cores()
    executable._stream_set = StreamSet([(Core(first, 0),), (Core(second, 1),)])
    executable._contexts = {0: [], 1: []}
    meeting = threading.Barrier(2)

    def run(_: int) -> object:
        meeting.wait(10)
        return [model(IMAGE) for _ in range(50)]

    with ThreadPoolExecutor(2) as callers:
        assert all((y == wanted).all() for ys in callers.map(run, range(2)) for y in ys)
    executable._stream_set._own.last = next(s for s in executable._stream_set._free if s.node == 1)
    assert (model(IMAGE) == wanted).all()
    assert sorted(executable._near) == [0, 1]
    assert (executable._near[0] == executable._near[1]).all()


@pytest.mark.parametrize(
    ("streams", "said"),
    [
        (0, "streams must be 1 or more, got 0"),
        (-2, "streams must be 1 or more, got -2"),
        (1.5, "streams must be a whole number, got 1.5"),
        (True, "streams must be a whole number, got True"),
        (5000, "streams must be 1,024 or fewer, got 5000"),
    ],
)
def test_wrong_numbers_of_streams_are_refused(streams: object, said: str, tmp_path: Path) -> None:
    for call in (ag.compile, ag.load):
        with pytest.raises(ag.UsageError, match=said):
            call(DIGITS, streams=streams)  # type: ignore[arg-type]
