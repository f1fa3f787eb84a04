"""OpenCL devices among the devices of a host, and with others in one model."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow.backends.opencl.driver import library
from afterglow.driver import partitioning
from afterglow.host import placement
from afterglow.runtime.rates import MemoryLevel, Rates
from tests.backends.opencl.test_executable import failing

pytestmark = pytest.mark.usefixtures("opencl_device")

CHAIN = """
    func @main(%x: f32[4, 4]) {
      %a = exp(%x) : f32[4, 4]
      %b = matmul(%a, %a) : f32[4, 4]
      %y = add(%a, %b) : f32[4, 4]
      return %y
    }
"""
NEGATED = """
    func @main(%x: f32[4, 4]) {
      %y = neg(%x) : f32[4, 4]
      return %y
    }
"""
X = np.random.default_rng(0).random((4, 4), np.float32)
Y = np.exp(X) + np.exp(X) @ np.exp(X)


def test_a_lost_context_takes_requests_to_another_device_and_comes_back(monkeypatch):
    monkeypatch.setattr(placement, "FIRST_PAUSE", 0.0)
    with ag.Host(["opencl", "cpu"]) as host:
        host.add("negated", ag.parse_module(NEGATED), cache=False)
        assert np.array_equal(host.run("negated", X), -X)
        code = library().status_code.OUT_OF_RESOURCES
        monkeypatch.setattr(library(), "enqueue_nd_range_kernel", failing(code))
        for _ in range(4):
            assert np.array_equal(host.run("negated", X), -X)
        opencl, cpu = host.statistics().devices
    assert opencl.failures == 1
    assert opencl.down == ()
    assert opencl.done >= 2
    assert opencl.done + cpu.done == 5


def test_values_that_are_read_on_the_device_that_made_them_stay_there(monkeypatch):
    rates = Rates(flops=1e11, levels=(MemoryLevel(1 << 30, 1e10),), run_seconds=1e-5)
    monkeypatch.setattr(partitioning, "rates_of", lambda *_: rates)
    places = {"exp": "opencl", "matmul": "cpu", "add": "opencl"}
    model = ag.compile(
        ag.parse_module(CHAIN),
        backend=["opencl", "cpu"],
        partition=ag.PartitionConfig(placement=places),
        cache=False,
    )
    results = [model.submit(X) for _ in range(6)]
    for result in results:
        np.testing.assert_allclose(result.result(), Y, rtol=1e-5)
    trace = ag.Trace()
    with ag.Host(["opencl", "cpu"], trace=trace) as host:
        host.add("chain", model)
        np.testing.assert_allclose(host.run("chain", X), Y, rtol=1e-5)
    copies = [e["args"]["bytes"] for e in trace.events() if e.get("cat") == "transfer"]
    assert copies == [64, 64, 64, 64]  # x there, a back; b there, y back
