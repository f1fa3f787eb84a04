"""Work on the streams of a device: its order, its limits, and how it ends."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from random import Random
from time import sleep

import pytest

from afterglow.runtime.streams import Streams
from afterglow.support.errors import DeadlineError, QueueFullError, ShutdownError, UsageError

WAIT = 60
"""Seconds after which a test gives up."""


class Busy:
    """Streams that are kept busy until they are let go."""

    def __init__(self, number: int = 1, limit: int = 100) -> None:
        self.streams = Streams("cpu", number, limit=limit)
        self.gate, started = threading.Event(), threading.Semaphore(0)

        def work() -> None:
            started.release()
            self.gate.wait(WAIT)

        self.first = [self.streams.submit(work) for _ in range(number)]
        for _ in range(number):
            assert started.acquire(timeout=WAIT)


@pytest.fixture
def busy() -> Iterator[Busy]:
    made = Busy(limit=4)
    yield made
    made.gate.set()
    made.streams.shutdown()


def test_work_gives_its_result_or_its_error() -> None:
    streams = Streams("cpu")
    assert streams.submit(lambda: 3).result(WAIT) == 3
    with pytest.raises(ZeroDivisionError):
        streams.submit(lambda: 1 // 0).result(WAIT)
    assert streams.shutdown()


def test_lower_numbers_start_first_and_equal_ones_in_the_order_they_came(busy: Busy) -> None:
    order: list[str] = []
    wanted = (("b", 1), ("c", 1), ("a", -2), ("d", 5))
    futures = [
        busy.streams.submit(lambda name=name: order.append(name), priority=priority)
        for name, priority in wanted
    ]
    busy.gate.set()
    for future in futures:
        future.result(WAIT)
    assert order == ["a", "b", "c", "d"]


def test_several_streams_work_at_once() -> None:
    streams, meeting = Streams("cpu", 3), threading.Barrier(3)
    futures = [streams.submit(lambda: meeting.wait(WAIT)) for _ in range(3)]
    assert sorted(future.result(WAIT) for future in futures) == [0, 1, 2]
    assert streams.shutdown()


def test_a_full_queue_refuses_work(busy: Busy) -> None:
    waiting = [busy.streams.submit(lambda: None) for _ in range(4)]
    with pytest.raises(QueueFullError) as caught:
        busy.streams.submit(lambda: None)
    assert str(caught.value) == (
        "error: the queue of device 'cpu' is full: 4 requests are waiting\n"
        "  help: wait for some of them, or give the queue a higher limit"
    )
    assert busy.streams.waiting == 4
    busy.gate.set()
    assert [future.result(WAIT) for future in waiting] == [None] * 4


def test_what_was_cancelled_makes_room_and_never_runs(busy: Busy) -> None:
    ran: list[int] = []
    waiting = [busy.streams.submit(lambda i=i: ran.append(i)) for i in range(4)]
    assert waiting[1].cancel()
    assert busy.streams.waiting == 3
    last = busy.streams.submit(lambda: ran.append(4))
    busy.gate.set()
    last.result(WAIT)
    assert ran == [0, 2, 3, 4]
    with pytest.raises(CancelledError):
        waiting[1].result(WAIT)


def test_work_that_is_too_late_is_not_begun(busy: Busy) -> None:
    ran: list[int] = []
    late = busy.streams.submit(lambda: ran.append(1), deadline=-1.0)
    early = busy.streams.submit(lambda: ran.append(2), deadline=60)
    busy.gate.set()
    early.result(WAIT)
    with pytest.raises(DeadlineError, match=r"^error: the deadline passed 1\d{3}\.\d ms before"):
        late.result(WAIT)
    assert ran == [2]


def test_what_is_too_late_makes_room_in_a_full_queue(busy: Busy) -> None:
    late = [busy.streams.submit(lambda: None, deadline=-1) for _ in range(4)]
    kept = busy.streams.submit(lambda: 7)
    for future in late:
        assert isinstance(future.exception(0), DeadlineError)
    busy.gate.set()
    assert kept.result(WAIT) == 7


@pytest.mark.parametrize("deadline", ["soon", float("nan"), True])
def test_a_deadline_is_a_number_of_seconds(deadline: object) -> None:
    with pytest.raises(UsageError) as caught:
        Streams("cpu").submit(lambda: None, deadline=deadline)  # type: ignore[arg-type]
    assert str(caught.value) == (
        f"error: a deadline must be a number of seconds, got {deadline!r}\n"
        "  help: write deadline=0.5 for half a second from now"
    )


def test_the_number_of_streams_is_above_zero() -> None:
    with pytest.raises(UsageError, match="streams must be a whole number above 0, got 0"):
        Streams("cpu", 0)


def test_shutdown_drains_what_waits(busy: Busy) -> None:
    waiting = [busy.streams.submit(lambda: 5) for _ in range(3)]
    threading.Timer(0.01, busy.gate.set).start()
    assert busy.streams.shutdown()
    assert [future.result(0) for future in waiting] == [5] * 3
    with pytest.raises(UsageError, match="the streams of device 'cpu' are shut down"):
        busy.streams.submit(lambda: None)


def test_shutdown_without_draining_gives_up_what_waits(busy: Busy) -> None:
    waiting = busy.streams.submit(lambda: 5)
    threading.Timer(0.01, busy.gate.set).start()
    assert busy.streams.shutdown(drain=False)
    with pytest.raises(ShutdownError, match="device 'cpu' was shut down before the work began"):
        waiting.result(0)
    assert busy.first[0].result(0) is None


def test_shutdown_gives_up_what_does_not_end_in_time(busy: Busy) -> None:
    waiting = busy.streams.submit(lambda: 5)
    assert not busy.streams.shutdown(timeout=0.01)
    with pytest.raises(ShutdownError, match="cpu stream 0 was shut down before the work was done"):
        busy.first[0].result(0)
    assert isinstance(waiting.exception(0), ShutdownError)


def test_streams_that_are_forgotten_end() -> None:
    streams = Streams("forgotten")
    streams.submit(lambda: None).result(WAIT)
    (thread,) = [t for t in threading.enumerate() if t.name == "forgotten stream 0"]
    del streams
    gc.collect()
    thread.join(WAIT)
    assert not thread.is_alive()


def test_busy_seconds_are_those_of_work() -> None:
    streams = Streams("cpu")
    streams.submit(lambda: sleep(0.02)).result(WAIT)
    streams.shutdown()
    done = streams.busy_seconds
    assert 0.02 <= done < 1
    assert streams.busy_seconds == done


def test_everything_ends_among_many_threads_that_submit_cancel_and_fail() -> None:
    streams = Streams("cpu", 3, limit=50)
    futures: list[Future[int]] = []
    refused: list[int] = []

    def client(seed: int) -> None:
        draw = Random(seed)
        for _ in range(100):
            deadline = draw.choice([None, 0.0, 0.001, 1])
            work = draw.choice([lambda: 1, lambda: 1 // 0, lambda: sleep(1e-4)])
            try:
                future = streams.submit(work, priority=draw.randrange(3), deadline=deadline)
            except (QueueFullError, UsageError):
                refused.append(seed)
                continue
            futures.append(future)
            if draw.random() < 0.2:
                future.cancel()

    clients = [threading.Thread(target=client, args=(seed,)) for seed in range(8)]
    for thread in clients:
        thread.start()
    sleep(0.01)
    assert streams.shutdown(drain=False, timeout=WAIT)
    for thread in clients:
        thread.join(WAIT)
    assert not any(thread.is_alive() for thread in clients)
    assert all(future.done() for future in futures)
    assert len(futures) + len(refused) == 800
