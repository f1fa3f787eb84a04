"""Devices that fail: their requests go elsewhere or get errors, and the devices come back."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from random import Random
from time import sleep
from typing import Any

import numpy as np
import pytest

import afterglow as ag
from afterglow.host import placement
from afterglow.host.host import Host
from afterglow.host.placement import FIRST_PAUSE
from afterglow.support.errors import (
    AfterglowError,
    DeviceError,
    QueueFullError,
    UsageError,
)
from tests.host.test_host import TWO, WAIT, X


class Clock:
    """A clock that stands still unless it is set forward."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: Any) -> Clock:
    """The clock by which devices that failed pause."""
    made = Clock()
    monkeypatch.setattr(placement, "monotonic", made)
    return made


class Faults:
    """Has the devices of some names fail."""

    def __init__(self, *devices: str) -> None:
        self.devices = set(devices)
        self.calls: list[str] = []

    def __call__(self, device: str, model: str) -> None:
        self.calls.append(device)
        if device in self.devices:
            raise DeviceError(f"{device} is out of order")


def test_the_requests_of_a_device_that_fails_run_on_another(double: ag.CompiledModel) -> None:
    faults = Faults("cpu:0")
    with Host(TWO, fault=faults) as host:
        host.add("double", double)
        futures = [host.submit("double", X) for _ in range(10)]
        for future in futures:
            np.testing.assert_array_equal(future.result(WAIT), 2 * X)
        statistics = host.statistics()
    assert statistics.models[0].completed == 10
    assert [device.done for device in statistics.devices] == [0, 10]
    assert [device.down for device in statistics.devices] == [("double",), ()]


@pytest.mark.usefixtures("clock")
def test_without_another_device_each_request_gets_the_error(double: ag.CompiledModel) -> None:
    with Host(TWO, fault=Faults("cpu:0", "cpu:1")) as host:
        host.add("double", double)
        for _ in range(2):  # the second is refused while both are in their pauses
            with pytest.raises(DeviceError) as caught:
                host.run("double", X)
            lines = str(caught.value).splitlines()
            assert lines[:3] == [
                "error: no device can run 'double' now",
                "    cpu:0: cpu:0 is out of order",
                "    cpu:1: cpu:1 is out of order",
            ]
            assert lines[3].startswith("  help: submit the request again: a device is tried again")
        assert host.statistics().models[0].failed == 2


def test_a_device_that_failed_is_tried_again_and_comes_back(
    double: ag.CompiledModel, clock: Clock
) -> None:
    faults = Faults("cpu")
    with Host(fault=faults) as host:
        host.add("double", double)
        with pytest.raises(DeviceError):
            host.run("double", X)
        with pytest.raises(DeviceError):
            host.run("double", X)
        assert len(faults.calls) == 1
        clock.now += FIRST_PAUSE
        with pytest.raises(DeviceError):
            host.run("double", X)
        assert len(faults.calls) == 2
        faults.devices.clear()
        clock.now += FIRST_PAUSE
        with pytest.raises(DeviceError):  # the second pause is longer
            host.run("double", X)
        clock.now += FIRST_PAUSE
        np.testing.assert_array_equal(host.run("double", X), 2 * X)
        (device,) = host.statistics().devices
    assert (device.failures, device.down) == (2, ())


def test_a_model_is_loaded_anew_after_a_failure(double: ag.CompiledModel, clock: Clock) -> None:
    faults = Faults("cpu")
    with Host(fault=faults) as host:
        host.add("double", double)
        (there,) = host._scheduler.entries["double"].placements
        before = there.model
        with pytest.raises(DeviceError):
            host.run("double", X)
        faults.devices.clear()
        clock.now += FIRST_PAUSE
        np.testing.assert_array_equal(host.run("double", X), 2 * X)
        after = there.model
    assert before.compiled.executable is double.compiled.executable
    assert after.compiled.executable is not double.compiled.executable


def test_a_model_that_cannot_be_loaded_anew_leaves_its_device_down(
    double: ag.CompiledModel, clock: Clock
) -> None:
    faults = Faults("cpu")
    with Host(fault=faults) as host:
        host.add("double", double)
        (there,) = host._scheduler.entries["double"].placements
        with pytest.raises(DeviceError):
            host.run("double", X)
        faults.devices.clear()

        def fail() -> ag.CompiledModel:
            raise UsageError("the file is gone")

        there.again = fail
        clock.now += FIRST_PAUSE
        with pytest.raises(DeviceError) as caught:
            host.run("double", X)
    assert caught.value.excerpt == ("cpu: 'double' cannot be loaded anew: the file is gone",)


def test_after_a_failure_one_request_tries_a_device_while_the_others_wait(
    double: ag.CompiledModel, clock: Clock
) -> None:
    faults, begun, proceed = Faults("cpu"), threading.Semaphore(0), threading.Event()

    def fault(device: str, model: str) -> None:
        faults(device, model)
        begun.release()
        assert proceed.wait(WAIT)

    with Host(streams=3, fault=fault) as host:
        host.add("double", double, replicas=3)
        with pytest.raises(DeviceError):
            host.run("double", X)
        faults.devices.clear()
        clock.now += FIRST_PAUSE
        futures = [host.submit("double", X) for _ in range(3)]
        assert begun.acquire(timeout=WAIT)
        assert not begun.acquire(timeout=0.02)
        proceed.set()
        assert wait(futures, WAIT).not_done == set()
        assert host.statistics().models[0].completed == 3


class Clients:
    """Threads that submit requests, some of them wrong, late or cancelled at once."""

    def __init__(self, host: Host, number: int, each: int) -> None:
        self.host, self.each = host, each
        self.futures: list[Future[Any]] = []
        self.refused: list[AfterglowError] = []
        self.threads = [threading.Thread(target=self.submit, args=(i,)) for i in range(number)]
        for thread in self.threads:
            thread.start()

    def submit(self, seed: int) -> None:
        draw = Random(seed)
        for _ in range(self.each):
            try:
                future = self.host.submit(
                    draw.choice(["one", "two"]),
                    *draw.choice([(X,), (X, X)]),
                    priority=draw.randrange(-1, 2),
                    deadline=draw.choice([None, 0.0, 0.01, 10]),
                )
            except (QueueFullError, UsageError) as error:
                self.refused.append(error)
                sleep(1e-3)
                continue
            self.futures.append(future)
            if draw.random() < 0.2:
                future.cancel()


def check_books(host: Host, *, is_drained: bool) -> None:
    """Each request ended in one way, and nothing is left on devices that were drained."""
    for model in host.statistics().models:
        ended = model.completed + model.failed + model.cancelled + model.expired
        assert (ended, model.running, model.waiting) == (model.submitted, 0, 0)
    if is_drained:
        assert [device.load for device in host._devices.values()] == [0, 0]
        for entry in host._scheduler.entries.values():
            assert all(there.running == 0 and not there.waiting for there in entry.placements)


@pytest.mark.parametrize("timeout", [None, 0.01])
def test_every_request_ends_among_failures_cancellations_and_a_shutdown(
    double: ag.CompiledModel, timeout: float | None, monkeypatch: Any
) -> None:
    monkeypatch.setattr(placement, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(placement, "LONGEST_PAUSE", 0.05)
    draw = Random(0)

    def fault(device: str, model: str) -> None:
        if draw.random() < 0.1:
            raise DeviceError("by chance")
        sleep(draw.random() * 1e-4)

    host = Host(TWO, max_active=8, max_queue=20, streams=2, fault=fault)
    host.add("one", double, replicas=2)
    host.add("two", double)
    clients = Clients(host, 8, 60)
    sleep(0.03)
    host.shutdown(timeout=timeout)
    for thread in clients.threads:
        thread.join(WAIT)
    assert not any(thread.is_alive() for thread in clients.threads)
    assert len(clients.futures) + len(clients.refused) == 8 * 60
    assert all(future.done() for future in clients.futures)
    check_books(host, is_drained=timeout is None)


@pytest.mark.parametrize("healthy", [True, False])
def test_nothing_is_lost_when_many_wait_for_a_device_that_fails(
    double: ag.CompiledModel, healthy: bool
) -> None:
    gate = threading.Event()

    def fault(device: str, model: str) -> None:
        gate.wait(WAIT)
        if device == "cpu:0" or not healthy:
            raise DeviceError("gone")

    with Host(TWO, max_active=100, max_queue=500, fault=fault) as host:
        host.add("double", double)
        futures = [host.submit("double", X) for _ in range(500)]
        gate.set()
        wait(futures, WAIT)
    kinds = {type(future.exception(0)) for future in futures}
    assert kinds == ({type(None)} if healthy else {DeviceError})
