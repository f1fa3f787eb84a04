"""What is open on a GPU, memory that is given back, and what is said when something fails."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

from afterglow.backends.cuda.driver.protocol import OUT_OF_MEMORY
from afterglow.backends.cuda.session import devices, session
from afterglow.support.errors import DeviceError, UsageError
from tests.backends.cuda.fake_driver import FACTS, FakeDriver

ILLEGAL = "CUDA_ERROR_ILLEGAL_ADDRESS"


@pytest.fixture
def driver():
    return FakeDriver()


def test_a_gpu_is_opened_once(driver):
    assert session(0, driver) is session(0, driver)
    assert driver.count("open") == 1


def test_memory_is_given_back_when_nobody_has_it(driver):
    on = session(0, driver)
    memory = on.allocate(100)
    assert [*on.context.blocks] == [memory.address]
    del memory
    gc.collect()
    assert not on.context.blocks


def test_a_lack_of_memory_says_what_is_needed_and_what_is_free(driver):
    on = session(0, driver)
    held = on.allocate(48_576)
    with pytest.raises(DeviceError) as caught:
        on.allocate(2_000_000)
    assert str(caught.value) == (
        "error: cuda:0 is out of memory: it cannot allocate memory, which needs 2,000,000 bytes\n"
        "  help: it has 1,048,576 bytes, of which 1,000,000 are free"
    )
    assert not on.is_lost
    assert held.address in on.context.blocks


def test_memory_that_is_kept_for_later_runs_is_given_up_when_it_is_needed(driver):
    on = session(0, driver)
    on.outputs.give(on.allocate(1_000_000), 1)
    assert on.allocate(900_000).address


def test_an_error_that_leaves_the_context_as_it_is_loses_nothing(driver):
    on = session(0, driver)
    memory = on.allocate(16)
    driver.fail("upload", "CUDA_ERROR_INVALID_VALUE")
    with pytest.raises(DeviceError) as caught:
        on.upload(memory.address, np.zeros(16, np.uint8))
    assert str(caught.value) == (
        "error: cuda:0 failed to copy to the device: upload failed: CUDA_ERROR_INVALID_VALUE\n"
        "  help: the next run tries it again; if it fails again, use another device"
    )
    assert session(0, driver) is on


def test_after_a_lost_context_there_is_a_new_one_and_old_memory_is_not_freed_in_it(driver):
    on = session(0, driver)
    memory = on.allocate(16)
    driver.fail("synchronize", ILLEGAL, sticky=True)
    with pytest.raises(DeviceError, match="an illegal memory access was encountered"):
        on.upload(memory.address, np.zeros(16, np.uint8))
    assert on.is_lost
    again = session(0, driver)
    assert again is not on
    assert [call[0] for call in driver.calls].count("close") == 1
    frees = driver.count("free")
    del memory
    gc.collect()
    assert driver.count("free") == frees


def test_a_lost_context_that_others_use_is_not_opened_anew(driver):
    on = session(0, driver)
    driver.is_shared = True
    memory = on.allocate(16)
    driver.fail("synchronize", ILLEGAL, sticky=True)
    with pytest.raises(DeviceError):
        on.clear(memory.address, 16)
    for _ in range(2):
        with pytest.raises(DeviceError) as caught:
            session(0, driver)
        assert str(caught.value) == (
            "error: cuda:0 failed before, and cannot be opened anew: something else in this "
            "process, such as PyTorch, uses it as well\n"
            "  help: start the process again, or use another device"
        )
    driver.is_shared = False
    assert session(0, driver) is not on


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("CUDA_ERROR_NO_DEVICE", "CUDA finds no GPU"),
        (
            "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            "CUDA cannot be used: devices failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        ),
    ],
)
def test_a_driver_without_devices_says_so(driver, name, what):
    driver.fail("devices", name)
    with pytest.raises(UsageError) as caught:
        devices(driver)
    assert str(caught.value) == (
        f"error: {what}\n"
        "  help: nvidia-smi says whether the driver sees a GPU; containers need one passed to them"
    )


def test_a_gpu_that_cannot_be_opened_says_why():
    driver = FakeDriver(replace(FACTS, number=0), replace(FACTS, number=1))
    driver.fail("open", OUT_OF_MEMORY)
    with pytest.raises(DeviceError) as caught:
        session(1, driver)
    assert str(caught.value) == (
        "error: cuda:1 is out of memory: it cannot be opened\n"
        "  help: it has 1,048,576 bytes, which other processes use"
    )
    driver.fail("new_stream", "CUDA_ERROR_DEVICE_UNAVAILABLE")
    with pytest.raises(DeviceError) as caught:
        session(1, driver)
    assert str(caught.value) == (
        "error: cuda:1 cannot be opened: new_stream failed: CUDA_ERROR_DEVICE_UNAVAILABLE\n"
        "  help: the next run tries it again; if it fails again, use another device"
    )
