"""A host: models, requests, priorities, limits, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest

import afterglow as ag
from afterglow.host.host import Host
from afterglow.runtime.trace import Trace
from afterglow.support.errors import (
    DeadlineError,
    MemoryLimitError,
    QueueFullError,
    ShutdownError,
    UnsupportedError,
    UsageError,
)
from tests.frontends.models import info, model, node
from tests.host.conftest import DOUBLED

WAIT = 60
"""Seconds after which a test gives up."""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
TWO = [ag.LogicalDevice("cpu:0", threads=1), ag.LogicalDevice("cpu:1", threads=1)]


class Gate:
    """A fault injector that raises nothing, but lets no run begin before it is opened."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.is_open = threading.Event()

    def __call__(self, device: str, model: str) -> None:
        self.begun.release()
        assert self.is_open.wait(WAIT)

    def await_runs(self, number: int = 1) -> None:
        for _ in range(number):
            assert self.begun.acquire(timeout=WAIT)


@pytest.fixture
def gated(double: ag.CompiledModel) -> Iterator[Callable[..., tuple[Host, Gate]]]:
    """Makes hosts with the model on one device, where nothing runs before a gate is opened."""
    made: list[tuple[Host, Gate]] = []

    def make(devices: Any = "cpu", replicas: int = 1, **options: Any) -> tuple[Host, Gate]:
        gate = Gate()
        made.append((Host(devices, fault=gate, **options), gate))
        made[-1][0].add("double", double, replicas=replicas)
        return made[-1]

    yield make
    for host, gate in made:
        gate.is_open.set()
        host.shutdown()


def only(host: Host) -> Any:
    """The statistics of the only model."""
    (model,) = host.statistics().models
    return model


def test_a_host_runs_a_model_by_its_name(double: ag.CompiledModel) -> None:
    with Host() as host:
        host.add("double", double)
        assert host.models == ("double",)
        assert [device.name for device in host.devices] == ["cpu"]
        for result in (
            host.run("double", X),
            host.run("double", x=X),
            host.run("double", {"x": X}),
        ):
            np.testing.assert_array_equal(result, 2 * X)
        assert host.submit("double", X).result(WAIT).shape == (2, 3)
        assert repr(host) == "<Host of cpu: double>"


def test_a_model_may_be_a_source_or_a_saved_file(double: ag.CompiledModel, tmp_path: Path) -> None:
    double.save(tmp_path / "double.agc")
    with Host() as host:
        host.add("source", ag.parse_module(DOUBLED), cache=False)
        host.add("file", tmp_path / "double.agc")
        for name in ("source", "file"):
            np.testing.assert_array_equal(host.run(name, X), 2 * X)


def test_requests_go_to_the_least_loaded_device(
    gated: Callable[..., tuple[Host, Gate]],
) -> None:
    host, gate = gated(TWO)
    futures = [host.submit("double", X) for _ in range(6)]
    gate.await_runs(2)
    assert [device.waiting for device in host.statistics().devices] == [2, 2]
    gate.is_open.set()
    wait(futures, WAIT)
    assert [device.done for device in host.statistics().devices] == [3, 3]


def test_a_much_slower_device_gets_only_what_the_faster_has_no_time_for(
    double: ag.CompiledModel,
) -> None:
    def fault(device: str, model: str) -> None:
        if device == "cpu:1":
            sleep(0.01)

    with Host(TWO, fault=fault) as host:
        host.add("double", double)
        for _ in range(16):
            host.run("double", X)
        done = [device.done for device in host.statistics().devices]
        assert done == [13, 3]  # three to find out
        wait([host.submit("double", X) for _ in range(100)], WAIT)
        assert host.statistics().devices[1].done < 20


def test_replicas_are_the_runs_at_the_same_time(
    gated: Callable[..., tuple[Host, Gate]],
) -> None:
    host, gate = gated(streams=4, replicas=3)
    for _ in range(4):
        host.submit("double", X)
    gate.await_runs(3)
    assert not gate.begun.acquire(timeout=0.02)
    assert (only(host).running, only(host).waiting) == (4, 0)


def test_lower_numbers_begin_first(gated: Callable[..., tuple[Host, Gate]]) -> None:
    host, gate = gated(max_active=2)
    order: list[str] = []
    first = host.submit("double", X)
    gate.await_runs()
    futures = []
    for name, priority in (("b", 1), ("c", 1), ("a", -1), ("d", 2)):
        futures.append(host.submit("double", X, priority=priority))
        futures[-1].add_done_callback(lambda _, name=name: order.append(name))
    gate.is_open.set()
    wait([first, *futures], WAIT)
    assert order == ["a", "b", "c", "d"]


def test_a_full_queue_refuses_requests(gated: Callable[..., tuple[Host, Gate]]) -> None:
    host, gate = gated(max_active=2, max_queue=3)
    futures = [host.submit("double", X) for _ in range(5)]
    with pytest.raises(QueueFullError) as caught:
        host.submit("double", X)
    assert str(caught.value) == (
        "error: the queue of the host is full: 2 requests are active and 3 are waiting\n"
        "  help: wait for some of them, or make the host with a higher max_queue"
    )
    assert futures[3].cancel()
    futures[3] = host.submit("double", X)
    gate.is_open.set()
    assert all(future.result(WAIT) is not None for future in futures)
    counts = only(host)
    assert (counts.submitted, counts.completed, counts.cancelled, counts.refused) == (6, 5, 1, 1)


def test_requests_that_are_too_late_get_their_error(
    gated: Callable[..., tuple[Host, Gate]],
) -> None:
    host, gate = gated(max_active=1, max_queue=1)
    first = host.submit("double", X)
    gate.await_runs()
    late = host.submit("double", X, deadline=0.0)
    sleep(0.001)
    last = host.submit("double", X, deadline=60)  # for which the late one makes room
    with pytest.raises(DeadlineError, match=r"the deadline passed .* ms before the request"):
        late.result(0)
    gate.is_open.set()
    wait([first, last], WAIT)
    counts = only(host)
    assert (counts.completed, counts.expired) == (2, 1)
    with pytest.raises(DeadlineError):
        host.run("double", X, deadline=-1)


def test_a_deadline_passes_while_a_device_is_busy(
    gated: Callable[..., tuple[Host, Gate]],
) -> None:
    host, gate = gated()
    host.submit("double", X)
    gate.await_runs()
    late, later = (host.submit("double", X, deadline=seconds) for seconds in (0.02, 0.01))
    last = host.submit("double", X, deadline=float("inf"))
    for future in (late, later):
        assert isinstance(future.exception(WAIT), DeadlineError)
    assert not last.done()
    assert only(host).expired == 2


def test_deadlines_of_requests_that_are_done_do_not_pile_up(double: ag.CompiledModel) -> None:
    with Host() as host:
        host.add("double", double)
        for _ in range(1000):
            host.run("double", X, deadline=3600)
        assert len(host._scheduler._deadlines._dues) <= 256


def test_a_cancelled_request_never_runs(gated: Callable[..., tuple[Host, Gate]]) -> None:
    host, gate = gated()
    first, second, third = (host.submit("double", X) for _ in range(3))
    gate.await_runs()
    assert second.cancel()
    assert wait([second], WAIT).not_done == set()
    assert not first.cancel()
    gate.is_open.set()
    third.result(WAIT)
    counts = only(host)
    assert (counts.completed, counts.cancelled) == (2, 1)
    with pytest.raises(CancelledError):
        second.result(0)


def test_cancelled_requests_do_not_pile_up(gated: Callable[..., tuple[Host, Gate]]) -> None:
    host, gate = gated()
    host.submit("double", X)
    gate.await_runs()
    for _ in range(1000):
        assert host.submit("double", X).cancel()
    (device,) = host.statistics().devices
    assert device.waiting < 100


def test_a_wrong_input_is_the_error_of_its_request(double: ag.CompiledModel) -> None:
    with Host(TWO) as host:
        host.add("double", double)
        with pytest.raises(UsageError, match="the model takes 1 input, got 2"):
            host.run("double", X, X)
        statistics = host.statistics()
    assert statistics.models[0].failed == 1
    assert [device.failures for device in statistics.devices] == [0, 0]


def test_a_coroutine_awaits_and_cancels_requests(
    gated: Callable[..., tuple[Host, Gate]],
) -> None:
    host, gate = gated()

    async def main() -> Any:
        first = asyncio.create_task(host.run_async("double", X))
        second = asyncio.create_task(host.run_async("double", X))
        while only(host).submitted != 2:
            await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        gate.is_open.set()
        return await asyncio.wait_for(asyncio.gather(first, second, return_exceptions=True), WAIT)

    first, second = asyncio.run(main())
    np.testing.assert_array_equal(first, 2 * X)
    assert isinstance(second, asyncio.CancelledError)
    assert only(host).cancelled == 1


def test_statistics_print_as_tables(double: ag.CompiledModel) -> None:
    with Host(TWO, streams=2) as host:
        host.add("double", double)
        host.add("idle", double, "cpu:1")
        for _ in range(4):
            host.run("double", X)
        statistics = host.statistics()
    lines = str(statistics).splitlines()
    assert lines[0].split() == [
        *("model", "submitted", "completed", "failed", "cancelled", "expired", "refused"),
        *("running", "waiting", "p50", "p90", "p99", "devices"),
    ]
    assert lines[1].split()[:9] == ["double", "4", "4", *"000000"]
    assert lines[1].endswith("cpu:0, cpu:1")
    assert lines[2].split() == ["idle", *"00000000", *"---", "cpu:1"]
    assert lines[4].split()[:6] == ["device", "streams", "waiting", "done", "failures", "busy"]
    assert lines[5].split()[:5] == ["cpu:0", "2", "0", "2", "0"]
    model, device = statistics.models[0], statistics.devices[0]
    assert 0 < model.p50 <= model.p90 <= model.p99 < WAIT
    assert 0 < device.busy < 1


def test_a_model_that_does_not_fit_a_device_says_what_it_needs(double: ag.CompiledModel) -> None:
    needed = double.memory.total_bytes
    with Host([ag.LogicalDevice("cpu:0", memory=needed + 10)]) as host:
        host.add("first", double)
        assert host.statistics().devices[0].used_bytes == needed
        with pytest.raises(MemoryLimitError) as caught:
            host.add("second", double)
        assert str(caught.value) == (
            f"error: 'second' needs {needed:,} bytes on device 'cpu:0', which has {needed + 10:,}, "
            f"of which other models take {needed:,}\n"
            "  help: give it fewer replicas or another device, or divide it over several with "
            "partition="
        )
        assert host.models == ("first",)
        host.remove("first")
        host.add("second", double)


def test_a_model_goes_where_it_fits_if_no_device_is_named(double: ag.CompiledModel) -> None:
    small = ag.LogicalDevice("cpu:0", memory=100)
    with Host([small, ag.LogicalDevice("cpu:1")]) as host:
        host.add("double", double)
        assert only(host).devices == ("cpu:1",)
        with pytest.raises(MemoryLimitError):
            host.add("other", double, devices=["cpu:0", "cpu:1"])
        assert host.models == ("double",)
    with (
        Host([small, ag.LogicalDevice("cpu:2", memory=100)]) as host,
        pytest.raises(UnsupportedError, match="no device of the host can run 'double'"),
    ):
        host.add("double", double)


def test_a_model_of_unknown_size_needs_a_device_without_a_limit() -> None:
    nodes = [node("Add", ["x", "x"], ["y"])]
    source = model(nodes, inputs=[info("x", ("n", 3))], outputs=[info("y", ("n", 3))])
    with Host([ag.LogicalDevice("cpu:0", memory=1000), ag.LogicalDevice("cpu:1")]) as host:
        with pytest.raises(UsageError) as caught:
            host.add("double", source, "cpu:0", cache=False)
        assert str(caught.value) == (
            "error: what 'double' takes of the memory of device 'cpu:0' is not known: its shapes "
            "are bound by calls\n"
            "  help: bind its dimensions with dims= or shapes=, or give their bounds"
        )
        host.add("double", source, "cpu:1", cache=False)
        assert host.run("double", X).shape == (2, 3)


def test_a_compiled_model_runs_only_on_its_own_device(double: ag.CompiledModel) -> None:
    with Host(["interpreter", "cpu"]) as host:
        with pytest.raises(UnsupportedError) as caught:
            host.add("double", double, "interpreter")
        assert str(caught.value) == (
            "error: 'double' was compiled for device 'cpu', and 'interpreter' runs what is "
            "compiled for 'interpreter'\n"
            "  help: give the source of the model, which is compiled for each device"
        )
        host.add("double", double)
        assert only(host).devices == ("cpu",)


def test_a_model_with_state_is_in_one_place() -> None:
    nodes = [node("Add", ["x", "old"], ["new"]), node("Neg", ["new"], ["y"])]
    inputs = [info("x", (2, 3)), info("old", (2, 3))]
    source = model(nodes, inputs=inputs, outputs=["y", "new"])
    options = {"state": {"old": "new"}, "cache": False}
    with Host(TWO) as host:
        for asked in ({"replicas": 2}, {"devices": ["cpu:0", "cpu:1"]}):
            with pytest.raises(UsageError) as caught:
                host.add("sum", source, **asked, **options)
            assert str(caught.value) == (
                "error: 'sum' keeps state, so all its requests must meet the same replica\n"
                "  help: give it one device and one replica, or add it under a name for each state"
            )
        host.add("sum", source, **options)
        assert only(host).devices == ("cpu:0",)
        results = [future.result(WAIT) for future in [host.submit("sum", X) for _ in range(3)]]
    np.testing.assert_array_equal(results[-1], -3 * X)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"max_active": 0}, "max_active must be a whole number above 0, got 0"),
        ({"max_queue": "many"}, "max_queue must be a whole number above 0, got 'many'"),
        ({"streams": True}, "streams must be a whole number above 0, got True"),
        ({"trace": 7}, "trace must be a path or a Trace, got 7"),
        ({"devices": ["cpu", "cpu"]}, "two devices are named 'cpu'"),
        ({"devices": []}, "there are no devices to run on"),
        ({"devices": "abacus"}, "no backend 'abacus'"),
    ],
)
def test_a_host_that_cannot_be_made_says_why(arguments: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        Host(**arguments)


def test_what_cannot_be_added_says_why(double: ag.CompiledModel) -> None:
    with Host() as host:
        host.add("double", double)
        for arguments, what in (
            (("double", double), "the host has a model 'double' already"),
            (("", double), "a model of a host cannot be named ''"),
            (("a", double, "gpu"), "the host has no device 'gpu'"),
            (("a", double, 3), "the host has no device 3"),
            (("a", double, [["cpu"]]), r"the host has no device \['cpu'\]"),
            (("a", double, []), "there are no devices to run on"),
            (("a", double, "cpu", 0), "replicas must be a whole number above 0, got 0"),
        ):
            with pytest.raises(UsageError, match=what):
                host.add(*arguments)
        with pytest.raises(UsageError, match="a host takes threads from its devices"):
            host.add("a", double, threads=2)
        with pytest.raises(UsageError, match="optimize has no effect on a model that is compiled"):
            host.add("a", double, optimize=False)
        with pytest.raises(UsageError, match="a priority must be a whole number, got 'high'"):
            host.submit("double", X, priority="high")
        with pytest.raises(UsageError, match=r"the host has no model \['double'\]"):
            host.run(["double"], X)
        with pytest.raises(UsageError) as caught:
            host.run("triple", X)
        assert str(caught.value) == "error: the host has no model 'triple'\n  help: it has double"


def test_a_model_is_removed_once_its_requests_are_done(
    gated: Callable[..., tuple[Host, Gate]],
) -> None:
    host, gate = gated()
    future = host.submit("double", X)
    gate.await_runs()
    for arguments in ({"wait": False}, {"timeout": 0.01}):
        with pytest.raises(UsageError) as caught:
            host.remove("double", **arguments)
        assert str(caught.value) == (
            "error: 'double' cannot be removed: 1 of its requests are not done\n"
            "  help: wait for them, or cancel them"
        )
    threading.Timer(0.01, gate.is_open.set).start()
    host.remove("double", timeout=WAIT)
    assert future.done()
    assert host.models == ()
    assert host.statistics().devices[0].used_bytes == 0
    with pytest.raises(UsageError, match="the host has no model 'double'"):
        host.remove("double")


def test_shutdown_waits_for_all_requests(gated: Callable[..., tuple[Host, Gate]]) -> None:
    host, gate = gated(max_active=1)
    futures = [host.submit("double", X) for _ in range(3)]
    threading.Timer(0.01, gate.is_open.set).start()
    host.shutdown()
    assert all(future.result(0) is not None for future in futures)
    for call in (lambda: host.submit("double", X), lambda: host.add("other", None)):
        with pytest.raises(UsageError, match="the host is shut down"):
            call()
    host.shutdown()


@pytest.mark.parametrize("arguments", [{"wait": False}, {"timeout": 0.01}])
def test_shutdown_gives_what_is_not_done_an_error(
    gated: Callable[..., tuple[Host, Gate]], arguments: dict[str, Any]
) -> None:
    host, gate = gated(max_active=2)
    futures = [host.submit("double", X) for _ in range(4)]
    gate.await_runs()
    host.shutdown(**arguments)
    for future in futures:
        with pytest.raises(ShutdownError) as caught:
            future.result(0)
        assert caught.value.what == (
            "the host was shut down before the request of 'double' was done"
        )
    assert only(host).failed == 4


def test_waiting_on_a_thread_that_runs_requests_is_refused(double: ag.CompiledModel) -> None:
    said: list[str] = []
    done = threading.Event()

    def callback(_: Future[Any]) -> None:
        for call in (lambda: host.run("double", X), host.shutdown, lambda: host.remove("double")):
            try:
                call()
            except UsageError as error:
                said.append(error.what)
        done.set()

    gate = Gate()
    with Host(fault=gate) as host:
        host.add("double", double)
        host.submit("double", X).add_done_callback(callback)
        gate.is_open.set()
        assert done.wait(WAIT)
    wanted = "would wait on a thread that runs requests"
    assert said == [f"{name} {wanted}" for name in ("run", "shutdown", "remove")]


def test_a_host_belongs_to_its_process(double: ag.CompiledModel, monkeypatch: Any) -> None:
    with Host() as host:
        host.add("double", double)
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(UsageError, match="the host was made in another process"):
            host.submit("double", X)


def test_an_error_in_the_block_does_not_wait_for_requests(
    gated: Callable[..., tuple[Host, Gate]],
) -> None:
    host, _ = gated()  # a request that is waited for fails when its gate gives up
    future = host.submit("double", X)
    host.__exit__(KeyError, KeyError(), None)
    assert isinstance(future.exception(0), ShutdownError)


def test_a_trace_shows_requests_on_the_streams_of_devices(
    double: ag.CompiledModel, tmp_path: Path
) -> None:
    path = tmp_path / "t.json"
    with Host(TWO, trace=path) as host:
        host.add("double", double)
        for _ in range(2):
            host.run("double", X)
        assert not path.exists()
    events = json.loads(path.read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == ["host", "cpu:0", "cpu:1"]
    spans = [event for event in events if event["ph"] == "X"]
    assert [(e["name"], e["args"]["request"]) for e in spans] == [
        *(("submit double", 1), ("double", 1)),
        *(("submit double", 2), ("double", 2)),
    ]
    assert [event["ph"] for event in events if event.get("id") == 1] == ["s", "f"]


def test_a_trace_may_be_kept_by_the_caller(double: ag.CompiledModel) -> None:
    trace = Trace()
    with Host(trace=trace) as host:
        host.add("double", double)
        host.run("double", X)
    assert len([event for event in trace.events() if event["ph"] == "X"]) == 2
