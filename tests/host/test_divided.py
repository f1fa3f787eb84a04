"""Models that are divided over the devices of a host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import afterglow as ag
from afterglow.driver import partitioning
from afterglow.host.host import Host
from afterglow.runtime.rates import MemoryLevel, Rates
from afterglow.runtime.trace import Trace
from afterglow.support.errors import MemoryLimitError, ShutdownError
from tests.frontends.models import info, model, node
from tests.host.test_host import TWO, WAIT, X

TWO_PARTS = ag.PartitionConfig(placement={"first": "cpu:0", "second": "cpu:1"})


def source() -> object:
    nodes = [node("Abs", ["x"], ["a"], name="first"), node("Exp", ["a"], ["y"], name="second")]
    return model(nodes, inputs=[info("x", (2, 3))], outputs=["y"])


@pytest.fixture(scope="module", autouse=True)
def usual_rates() -> Iterator[None]:
    """Rates as they might be: to measure them takes seconds."""
    rates = Rates(flops=1e11, levels=(MemoryLevel(1 << 30, 1e10),), run_seconds=1e-5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitioning, "rates_of", lambda *_: rates)
        yield


@pytest.fixture(scope="module")
def divided(usual_rates: None) -> ag.CompiledModel:
    return ag.compile(source(), backend=TWO, partition=TWO_PARTS, cache=False)


def test_a_divided_model_runs_on_a_group_of_devices(
    divided: ag.CompiledModel, tmp_path: Path
) -> None:
    divided.save(tmp_path / "divided.agc")
    trace = Trace()
    with Host(TWO, trace=trace) as host:
        host.add("compiled", divided)
        host.add("saved", tmp_path / "divided.agc")
        host.add("source", source(), partition=TWO_PARTS, cache=False)
        for name in host.models:
            futures = [host.submit(name, X) for _ in range(5)]
            for future in futures:
                np.testing.assert_allclose(future.result(WAIT), np.exp(X), rtol=1e-5)
        statistics = host.statistics()
    assert [one.devices for one in statistics.models] == [("cpu:0 + cpu:1",)] * 3
    assert [device.name for device in statistics.devices] == ["cpu:0", "cpu:1", "cpu:0 + cpu:1"]
    assert all(device.used_bytes > 0 for device in statistics.devices[:2])
    assert all(device.busy > 0 for device in statistics.devices)
    events = trace.events()
    processes = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert processes == {"host", "cpu:0", "cpu:1", "cpu:0 + cpu:1"}
    assert [e["ph"] for e in events if e.get("id") == 1] == ["s", "t", "t", "f"]


def test_a_model_that_is_best_left_whole_is_on_one_device() -> None:
    with Host(TWO) as host:
        host.add("whole", source(), partition=ag.PartitionConfig(), cache=False)
        np.testing.assert_allclose(host.run("whole", X), np.exp(X), rtol=1e-5)
        assert host.statistics().models[0].devices == ("cpu:0",)


def test_the_parts_of_a_model_fit_their_devices(divided: ag.CompiledModel) -> None:
    small = [ag.LogicalDevice("cpu:0", memory=1), ag.LogicalDevice("cpu:1")]
    with Host(small) as host:
        with pytest.raises(MemoryLimitError, match=r"'divided' needs \d+ bytes on device 'cpu:0'"):
            host.add("divided", divided)
        assert [device.used_bytes for device in host.statistics().devices] == [0, 0, 0]


def test_a_shutdown_ends_the_parts_that_wait(divided: ag.CompiledModel) -> None:
    begun, proceed = threading.Event(), threading.Event()

    def block(device: str, model: str) -> None:
        if model == "blocking":
            begun.set()
            assert proceed.wait(WAIT)

    host = Host(TWO, fault=block)
    host.add("blocking", ag.compile(source(), cache=False), "cpu:1")
    host.add("divided", divided)
    blocking = host.submit("blocking", X)
    assert begun.wait(WAIT)
    waiting = host.submit("divided", X)  # of which the second part waits
    host.shutdown(timeout=0.02)
    proceed.set()
    assert isinstance(blocking.exception(WAIT), ShutdownError)
    assert isinstance(waiting.exception(WAIT), ShutdownError)
    for device in host._all_devices():
        assert device.streams.shutdown(timeout=WAIT)


def test_submitted_calls_of_a_divided_model_are_pipelined(divided: ag.CompiledModel) -> None:
    futures = [divided.submit(X + i) for i in range(8)]
    for i, future in enumerate(futures):
        np.testing.assert_allclose(future.result(WAIT), np.exp(X + i), rtol=1e-5)
