"""What every device promises, and what several devices of OpenCL do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import afterglow as ag
from afterglow.backends.opencl import driver
from afterglow.backends.opencl.device import OpenClDevice
from afterglow.backends.opencl.driver import devices, library, numbered
from afterglow.backends.opencl.factory import OPENCL
from afterglow.backends.opencl.memory import OpenClBuffer
from afterglow.backends.opencl.session import session
from afterglow.support.errors import UsageError
from afterglow.testing.device_checks import DeviceChecks
from afterglow.testing.samples import COUNTER, module
from afterglow.types import TensorType
from afterglow.types.dtype import f32

pytestmark = pytest.mark.usefixtures("opencl_device")


class TestOpenClDevice(DeviceChecks):
    backend = "opencl"


@pytest.fixture
def twins(monkeypatch):
    """Two devices of the same name: halves of the first one, where that can be cut."""
    device, limits = devices()[0]
    cl = library()
    try:
        each = [cl.device_partition_property.EQUALLY, max(1, limits.units // 2)]
        halves = device.create_sub_devices(each)[:2]
    except cl.Error:
        halves = []
    if len(halves) < 2:
        pytest.skip(f"{limits.name} cannot be cut in two")
    found = tuple(zip(halves, numbered([limits, limits]), strict=True))
    here = "afterglow.backends.opencl"
    for room in ("driver", "device", "factory"):
        monkeypatch.setattr(f"{here}.{room}.devices", lambda: found)
    monkeypatch.setattr(f"{here}.session._OPEN", {})
    return [limits for _, limits in found]


def test_devices_of_the_same_name_have_numbers(twins):
    first, second = twins
    assert second.name == f"{first.name}-2"
    assert [target.name for target in OPENCL.targets()] == [first.name, second.name]
    assert [info.target for info in OpenClDevice().describe_each()] == [first.name, second.name]
    for limits in twins:
        assert driver.find(limits.name)[1] is limits


def test_a_model_and_its_states_are_on_the_device_of_its_target(twins):
    second = twins[1]
    ones = np.ones(4, np.float32)
    model = ag.compile(module(COUNTER), backend="opencl", target=second.name, cache=False)
    for total in (1, 2):
        assert model(ones).tolist() == [total] * 4
    compiled = model._static.compiled
    assert compiled.executable.limits is second
    (state,) = compiled.states.values()
    assert state._place[0] is session(second.name)
    assert state._place[0].device == driver.find(second.name)[0]


def test_a_buffer_moves_to_the_device_that_uses_it(twins):
    first, second = (session(limits.name) for limits in twins)
    buffer = OpenClBuffer(TensorType(f32, (3,)))
    buffer.write(np.arange(3)).result()
    assert buffer.on(first) is buffer.on(first)
    assert buffer.on(second) is not buffer.on(first)
    assert buffer.read().result().tolist() == [0, 1, 2]


def test_a_model_for_a_device_that_is_not_here_says_which(opencl_device):
    compiled = ag.compile(module(COUNTER), backend="opencl", cache=False)
    artifact = compiled._static.compiled.artifact
    device = {**artifact.manifest["device"], "device": "H200"}
    with pytest.raises(UsageError) as caught:
        OpenClDevice().load(replace(artifact, manifest={**artifact.manifest, "device": device}))
    names = ", ".join(limits.name for _, limits in devices())
    platform = opencl_device.name.partition("/")[0]
    assert str(caught.value) == (
        f"error: the model was compiled for {platform}/h200, which is not here\n"
        f"  help: compile it for one of {names}"
    )
