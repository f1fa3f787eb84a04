"""Runs at once, the order of commands, and what happens when a device fails."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import afterglow as ag
from afterglow.backends.opencl.build import build
from afterglow.backends.opencl.driver import library
from afterglow.backends.opencl.executable import OpenClExecutable, runs_at_once
from afterglow.backends.opencl.session import session
from afterglow.backends.opencl.workspace import Workspace
from afterglow.runtime.device import TimesSteps
from afterglow.support.errors import DeviceError, InternalError
from afterglow.testing.samples import COUNTER

pytestmark = pytest.mark.usefixtures("opencl_device")

BRANCHES = """
    func @main(%x: f32[16, 16]) {
      %left = softmax(%x) {axis = 0} : f32[16, 16]
      %right = softmax(%x) {axis = 1} : f32[16, 16]
      %y = matmul(%left, %right) : f32[16, 16]
      return %y
    }
"""


def arrays(number):
    return [np.random.default_rng(number).standard_normal((16, 16), np.float32)]


@pytest.fixture(scope="module")
def branches():
    return ag.compile(ag.parse_module(BRANCHES), backend="opencl", cache=False)


@pytest.fixture
def executable(branches):
    return branches._static.compiled.executable


def test_commands_wait_for_those_they_depend_on_alone(executable):
    assert str(executable.schedule) == "0: input 0\n1: input 0\n2: 0, 1"
    assert not executable.schedule.in_order
    assert [*executable.schedule.waits[-2:]] == [(3,), ()]


def test_the_order_of_independent_commands_does_not_matter(executable):
    with executable.workspace() as workspace:
        program = workspace.program
    if not program.session.can_reorder:
        pytest.skip("the device keeps the order of commands")
    reordered, in_order = Workspace(program, reorders=True), Workspace(program, reorders=False)
    assert not reordered.in_order
    assert in_order.in_order
    for number in range(3):
        x = arrays(number)
        assert np.array_equal(reordered.run(x, {})[0], in_order.run(x, {})[0])


def test_runs_at_once_have_memory_of_their_own(executable):
    wanted = [executable.run(arrays(n), {})[0] for n in range(24)]
    with ThreadPoolExecutor(8) as threads:
        got = list(threads.map(lambda n: executable.run(arrays(n), {})[0], range(24)))
    assert all(map(np.array_equal, got, wanted))
    with executable.workspace() as one, executable.workspace() as another:
        assert one._kernels.memories["arena"] is not another._kernels.memories["arena"]


@pytest.mark.parametrize(("memory", "runs"), [(1 << 30, 4), (20_000, 2), (9_000, 1), (10, 1)])
def test_large_models_have_fewer_runs_at_once(executable, opencl_device, memory, runs):
    limits = replace(opencl_device, memory_bytes=memory)
    assert runs_at_once(executable.artifact, limits) == runs


def test_steps_are_timed_one_by_one(executable):
    assert isinstance(executable, TimesSteps)
    seconds = executable.time_steps(arrays(0), {})
    assert all(0 < each < 1 for each in seconds)
    names = [step.kernel.rsplit("_", 1)[0] for step in executable.steps()]
    assert names == ["softmax", "softmax", "matmul"]
    assert [step.origins for step in executable.steps()] == [("left",), ("right",), ("y",)]


def failing(code, call="enqueue_nd_range_kernel", routine="clEnqueueNDRangeKernel"):
    """A function of the driver that fails once."""
    cl = library()
    works, errors = getattr(cl, call), [code]

    def fails(*arguments, **named):
        if errors:
            raise cl.RuntimeError(cl._cl._ErrorRecord(code=errors.pop(), routine=routine, msg=""))
        return works(*arguments, **named)

    return fails


def test_after_a_lost_context_the_next_run_begins_anew(executable, monkeypatch, opencl_device):
    wanted = executable.run(arrays(0), {})[0]
    code = library().status_code.OUT_OF_RESOURCES
    monkeypatch.setattr(library(), "enqueue_nd_range_kernel", failing(code))
    with pytest.raises(DeviceError) as caught:
        executable.run(arrays(0), {})
    assert str(caught.value) == (
        f"error: {opencl_device.name} failed to run the model: "
        "clEnqueueNDRangeKernel failed: OUT_OF_RESOURCES\n"
        "  help: the next run begins anew on this device; if it fails again, use another"
    )
    assert np.array_equal(executable.run(arrays(0), {})[0], wanted)


@pytest.mark.parametrize("call", ["Context", "CommandQueue", "Program", "Kernel"])
def test_a_device_that_fails_while_a_model_is_loaded_anew_is_tried_again(
    executable, monkeypatch, call
):
    wanted = executable.run(arrays(0), {})[0]
    with executable.workspace() as workspace:
        workspace.program.session.lose()
    code = library().status_code.OUT_OF_RESOURCES
    monkeypatch.setattr(library(), call, failing(code, call, f"clCreate{call}"))
    with pytest.raises(DeviceError, match=f"clCreate{call} failed: OUT_OF_RESOURCES"):
        executable.run(arrays(0), {})
    assert np.array_equal(executable.run(arrays(0), {})[0], wanted)


def test_kernels_that_the_driver_refuses_are_our_error(opencl_device):
    with pytest.raises(InternalError, match="does not compile the kernels"):
        build("kernel void broken(", session(opencl_device.name))


def test_states_that_a_failing_device_held_are_lost_until_they_are_reset(
    monkeypatch, opencl_device
):
    counter = ag.compile(ag.parse_module(COUNTER), backend="opencl", cache=False)
    ones = np.ones(4, np.float32)
    assert counter(ones).tolist() == [1] * 4
    code = library().status_code.DEVICE_NOT_AVAILABLE
    monkeypatch.setattr(library(), "enqueue_nd_range_kernel", failing(code))
    with pytest.raises(DeviceError, match="DEVICE_NOT_AVAILABLE"):
        counter(ones)
    with pytest.raises(DeviceError) as caught:
        counter(ones)
    assert str(caught.value) == (
        f"error: what a tensor f32[4] held was lost when {opencl_device.name} failed\n"
        "  help: write it anew; for the states of a model, model.reset()"
    )
    counter.reset()
    assert counter(ones).tolist() == [1] * 4


def test_a_lack_of_memory_loses_nothing(executable, monkeypatch, opencl_device):
    with executable.workspace() as workspace:
        session = workspace.program.session
    code = library().status_code.MEM_OBJECT_ALLOCATION_FAILURE
    monkeypatch.setattr(library(), "enqueue_nd_range_kernel", failing(code))
    with pytest.raises(DeviceError) as caught:
        executable.run(arrays(0), {})
    limits = opencl_device
    assert str(caught.value) == (
        f"error: {limits.name} is out of memory: it cannot run the model\n"
        f"  help: it has {limits.memory_bytes:,} bytes, of which one buffer may take "
        f"{limits.buffer_bytes:,}"
    )
    assert not session.is_lost


def test_a_model_that_is_too_large_says_what_it_needs_and_what_there_is(executable, opencl_device):
    small = replace(opencl_device, memory_bytes=10_000, buffer_bytes=1_000)
    with pytest.raises(DeviceError) as caught:
        OpenClExecutable(executable.artifact, small)
    assert str(caught.value) == (
        f"error: {small.name} has not enough memory: a run takes 4,096 bytes, 2,048 of them in one "
        "buffer: 0 for weights, 2,048 for intermediate results, 2,048 for inputs, outputs and "
        "states\n"
        "  help: it has 10,000 bytes, of which one buffer may take 1,000"
    )


def test_a_run_leaves_no_references_to_its_arrays(executable):
    (x,) = arrays(0)
    (y,) = executable.run([x], {})
    assert sys.getrefcount(x) == sys.getrefcount(y) == 2
