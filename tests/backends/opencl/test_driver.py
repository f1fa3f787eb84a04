"""Targets, and what a user is told where something is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

import afterglow as ag
from afterglow.backends.opencl import device, driver
from afterglow.backends.opencl.factory import OPENCL
from afterglow.backends.opencl.limits import Limits
from afterglow.driver import cache
from afterglow.driver.options import Options
from afterglow.support.errors import UsageError

LIMITS = Limits(
    platform="Portable Computing Language",
    device="pthread-AMD EPYC",
    vendor="The pocl project",
    version="3.0",
    kind="cpu",
    double=True,
    half=False,
    units=2,
    work_group=4096,
    local_bytes=1 << 20,
    memory_bytes=1 << 30,
    buffer_bytes=1 << 30,
    lanes=8,
    exact_division=True,
)


@pytest.fixture
def without_pyopencl(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(driver, "import_module", missing)
    driver.devices.cache_clear()
    yield
    driver.devices.cache_clear()


def test_without_pyopencl_the_error_says_what_to_install(without_pyopencl):
    module = ag.parse_module("func @main(%x: f32[2]) {\n  return %x\n}")
    with pytest.raises(UsageError) as caught:
        ag.compile(module, backend="opencl")
    assert str(caught.value) == (
        "error: OpenCL needs pyopencl, which is not installed\n"
        "  help: pip install pyopencl and a driver; for CPUs, pip install pocl-binary-distribution"
    )


def test_without_pyopencl_the_list_of_targets_says_so(without_pyopencl):
    (target,) = OPENCL.targets()
    assert target.name == "opencl"
    assert target.summary == (
        "not here: OpenCL needs pyopencl, which is not installed; "
        "pip install pyopencl and a driver; for CPUs, pip install pocl-binary-distribution"
    )


def test_without_pyopencl_there_is_no_such_device(without_pyopencl):
    assert "opencl" not in {info.backend for info in ag.devices(measure=False)}


@pytest.mark.parametrize(
    "target",
    ["opencl", "host", "opencl:pocl/cpu", "opencl:portable-computing-language/pthread-amd-epyc"],
)
def test_a_device_is_found_by_parts_of_its_names(monkeypatch, target):
    monkeypatch.setattr(driver, "devices", lambda: ((None, LIMITS),))
    assert driver.find(target)[1] is LIMITS


def test_an_unknown_device_is_an_error_that_lists_those_there_are(monkeypatch):
    monkeypatch.setattr(driver, "devices", lambda: ((None, LIMITS),))
    with pytest.raises(UsageError) as caught:
        driver.find("opencl:pocl/gpu")
    assert str(caught.value) == (
        "error: opencl has no target 'opencl:pocl/gpu'\n"
        "  help: there are opencl:portable-computing-language/pthread-amd-epyc"
    )


def test_code_for_a_named_device_depends_on_its_driver(monkeypatch):
    known = Options(backend="opencl", target="opencl:pocl/cpu")
    keys = set()
    for version in ("3.0", "3.1"):
        limits = replace(LIMITS, version=version)
        monkeypatch.setattr(device, "devices", lambda limits=limits: ((None, limits),))
        keys.add(cache._identity(known))
    assert len(keys) == 2
