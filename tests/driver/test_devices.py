"""The devices of this machine, by name."""

from __future__ import annotations

from math import inf

import pytest

import afterglow
from afterglow.driver.devices import device_of, find_device
from afterglow.support.errors import UsageError


def test_the_devices_describe_themselves() -> None:
    found = {info.name: info for info in afterglow.devices(measure=False)}
    assert list(found)[:2] == ["cpu", "interpreter"]  # and OpenCL's, where it is installed
    cpu = found["cpu"]
    assert isinstance(cpu, afterglow.DeviceInfo)
    assert "core" in cpu.description
    assert cpu.memory_bytes > 1 << 20
    assert cpu.bandwidth > 1e8
    assert cpu.flops > 1e8
    assert cpu.transfer_bandwidth == inf  # its memory is the host's


def test_backends_name_their_devices() -> None:
    named = {name: device_of(name) for name in ("cpu", "interpreter", "primitives")}
    assert named == {"cpu": "cpu", "interpreter": "interpreter", "primitives": "interpreter"}


def test_an_unknown_device_is_an_error_that_lists_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        find_device("toychip")
    assert str(caught.value) == (
        "error: there is no device 'toychip'\n"
        "  help: there are cpu, interpreter, opencl, cuda; install the package that brings it"
    )
