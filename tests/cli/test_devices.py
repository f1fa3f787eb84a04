from __future__ import annotations

import pytest

from afterglow.driver import device_rates, devices
from afterglow.runtime.rates import MemoryLevel, Rates
from afterglow.support.errors import UsageError


@pytest.fixture(autouse=True)
def measured(monkeypatch, tmp_path):
    """The cpu is measured in no time, and OpenCL is not installed."""
    found = []

    def calibrate(options, info, *, on_probe):
        found.append(options.backend)
        on_probe(1, 1)
        return Rates(flops=2.5e11, levels=(MemoryLevel(1 << 20, 3e10),), step_seconds=3e-8)

    def infos_of(name, real=devices.infos_of):
        if name == "opencl":
            raise UsageError("OpenCL finds no driver", help="install one")
        return real(name)

    monkeypatch.setattr(device_rates, "calibrate", calibrate)
    monkeypatch.setattr(devices, "infos_of", infos_of)
    monkeypatch.setattr(device_rates, "_known", {})
    monkeypatch.setenv("AFTERGLOW_CACHE", str(tmp_path))
    return found


def test_devices_are_listed_with_their_speed(command):
    finished = command("devices")
    assert finished.status == 0
    (line,) = (line for line in finished.out.splitlines() if line.split()[:2] == ["cpu", "cpu"])
    assert "250" in line
    assert "30.0" in line
    assert "30 ns" in line
    assert "interpreter" in finished.out


def test_what_is_missing_is_one_line_that_says_what_to_install(command):
    out = command("devices").out.splitlines()
    assert "opencl is not here: OpenCL finds no driver; install one" in out


def test_the_same_as_json(command):
    data = command("devices", "--json").json
    cpu = data["devices"][0]
    assert cpu["name"] == "cpu"
    assert cpu["flops"] == 2.5e11
    assert cpu["transfer_bandwidth"] is None
    assert data["missing"]["opencl"] == {"what": "OpenCL finds no driver", "help": "install one"}


def test_devices_are_measured_once_or_anew(command, measured):
    command("devices")
    command("devices")
    assert measured == ["cpu"]
    command("devices", "--measure")
    assert measured == ["cpu", "cpu"]
