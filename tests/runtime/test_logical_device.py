"""Logical devices, as users name them."""

from __future__ import annotations

import pytest

from afterglow.runtime.logical_device import LogicalDevice, logical_devices
from afterglow.support.errors import UsageError


def test_a_name_is_a_backend_and_a_target():
    assert LogicalDevice.of("cpu") == LogicalDevice("cpu", "cpu", "host")
    assert LogicalDevice.of("cpu:x86-64-v3").target == "x86-64-v3"
    assert LogicalDevice.of("opencl:pocl/cpu").target == "opencl:pocl/cpu"


def test_what_stands_before_the_colon_is_the_backend():
    device = LogicalDevice("cpu:0", threads=1, memory="2KiB")
    assert (device.backend, device.target, device.memory) == ("cpu", "host", 2048)
    assert LogicalDevice.of_json(device.to_json()) == device


def test_one_device_may_be_given_without_a_list():
    device = LogicalDevice("a", "cpu")
    assert logical_devices(device) == (device,)
    assert [each.name for each in logical_devices(["opencl", "cpu"])] == ["opencl", "cpu"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "there are no devices to run on"),
        (["cpu", "cpu"], "two devices are named 'cpu'"),
        ([3], "a device cannot be 3"),
        (7, "a device cannot be 7"),
        ("", "a device cannot be ''"),
    ],
)
def test_what_is_no_device_is_refused(given, message):
    with pytest.raises(UsageError, match=message):
        logical_devices(given)
