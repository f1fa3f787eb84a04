"""Devices with what was measured of them, and the cache that keeps it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import afterglow as ag
from afterglow.driver import device_rates
from afterglow.driver.device_rates import rates_of
from afterglow.driver.devices import find_device
from afterglow.runtime.device import DeviceInfo
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.runtime.rates import MemoryLevel, Rates
from afterglow.support.errors import AfterglowError, AfterglowWarning

RATES = Rates(flops=3e11, levels=(MemoryLevel(1 << 20, 7e10),), step_seconds=1e-7)
CPU = LogicalDevice("cpu", threads=1)


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """The threads with which devices were measured, each time faster by one."""
    found: list[int | None] = []

    def calibrate(options, info, *, on_probe=None):
        found.append(options.threads)
        if on_probe is not None:
            on_probe(1, 2)
        return replace(RATES, flops=RATES.flops + len(found))

    monkeypatch.setattr(device_rates, "calibrate", calibrate)
    monkeypatch.setattr(device_rates, "_known", {})
    return found


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in another process."""
    monkeypatch.setattr(device_rates, "_known", {})


def test_a_device_is_measured_once(tmp_path, measured, monkeypatch) -> None:
    first = rates_of(CPU, tmp_path)
    assert rates_of(CPU, tmp_path) == first
    forget(monkeypatch)
    assert rates_of(CPU, tmp_path) == first
    assert measured == [1]


def test_each_number_of_threads_is_measured(tmp_path, measured) -> None:
    for threads in (1, 2, None, 2):
        rates_of(LogicalDevice("cpu", threads=threads), tmp_path)
    assert measured == [1, 2, None]


def test_what_was_measured_is_measured_anew_if_asked(tmp_path, measured, monkeypatch) -> None:
    rates_of(CPU, tmp_path)
    again = rates_of(CPU, tmp_path, measure=True)
    forget(monkeypatch)
    assert rates_of(CPU, tmp_path) == again
    assert measured == [1, 1]


def test_nothing_is_measured_if_asked(tmp_path, measured) -> None:
    assert rates_of(CPU, tmp_path, measure=False).is_stated
    known = rates_of(CPU, tmp_path)
    assert rates_of(CPU, tmp_path, measure=False) == known
    assert measured == [1]


@pytest.mark.parametrize("damage", [b"", b"damaged", None])
def test_a_damaged_file_is_measured_anew(tmp_path, measured, monkeypatch, damage) -> None:
    rates_of(CPU, tmp_path)
    (file,) = (tmp_path / "rates").iterdir()
    if damage is None:  # whole, but of another format
        device_rates.CompileCache(tmp_path).rates.put(file.stem, b'{"flops": 1}')
    else:
        file.write_bytes(damage)
    forget(monkeypatch)
    rates_of(CPU, tmp_path)
    forget(monkeypatch)
    rates_of(CPU, tmp_path)
    assert measured == [1, 1]


def test_without_a_folder_a_process_measures_once(measured) -> None:
    rates_of(CPU, None)
    rates_of(CPU, None)
    assert measured == [1]


def test_listed_devices_have_measured_rates(tmp_path, measured) -> None:
    told: list[tuple[str, int, int]] = []
    found = {i.name: i for i in ag.devices(cache=tmp_path, on_measure=lambda *t: told.append(t))}
    cpu = found["cpu"]
    assert (cpu.flops, cpu.bandwidth, cpu.launch_seconds) == (RATES.flops + 1, 7e10, 1e-7)
    assert (cpu.kind, cpu.backend, cpu.target) == ("cpu", "cpu", "host")
    assert found["interpreter"].kind == "interpreter"
    assert told[0] == ("cpu", 1, 2)
    assert "interpreter" not in {name for name, *_ in told}


def test_a_simulated_device_has_the_rates_that_it_states(tmp_path, measured, monkeypatch) -> None:
    stated = DeviceInfo("cpu", "a chip", 1 << 30, 1e10, 2e12, 1e9, is_simulated=True)
    monkeypatch.setattr(type(find_device("cpu")), "describe", lambda self: stated)
    assert rates_of(CPU, tmp_path) == Rates.stated(stated)
    assert measured == []


def test_a_device_that_cannot_be_measured_is_listed_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_, **__):
        raise AfterglowError("the driver is gone")

    monkeypatch.setattr(device_rates, "calibrate", fails)
    expected = "device 'cpu' could not be measured: the driver is gone"
    with pytest.warns(AfterglowWarning, match=expected):
        found = ag.devices(cache=tmp_path)
    assert found[0] == replace(find_device("cpu").describe(), backend="cpu")
