"""Targets, and what a user is told where something is missing."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

import afterglow as ag
from afterglow.backends.opencl import device, driver
from afterglow.backends.opencl.build import options_for
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


def pocl(monkeypatch: pytest.MonkeyPatch, *processors: str) -> None:
    """Have PoCL's drivers on this machine, whose LLVM takes its processor for these."""
    platform = SimpleNamespace(version="OpenCL 3.0 PoCL 3.0-rc2")
    made = [
        SimpleNamespace(
            platform=platform, version=f"OpenCL 3.0 PoCL HSTR: pthread-x86_64-pc-linux-gnu-{name}"
        )
        for name in processors
    ]
    platform.get_devices = lambda: made
    library = SimpleNamespace(get_platforms=lambda: [platform], Error=RuntimeError)
    monkeypatch.setattr(driver, "library", lambda: library)
    monkeypatch.setattr(driver, "_limits", lambda cl, device: LIMITS)


def test_a_driver_that_does_not_know_the_processor_is_passed_over(monkeypatch):
    pocl(monkeypatch, "generic", "skylake-avx512")
    ((device, _),) = driver.devices.__wrapped__()
    assert device.version.endswith("skylake-avx512")


def test_only_a_driver_that_does_not_know_the_processor_is_an_error(monkeypatch):
    pocl(monkeypatch, "generic")
    with pytest.raises(UsageError) as caught:
        driver.devices.__wrapped__()
    assert str(caught.value) == (
        "error: OpenCL 3.0 PoCL 3.0-rc2 does not know this processor, so it compiles nothing\n"
        "  help: install a newer driver; on Debian and Ubuntu, apt install pocl-opencl-icd"
    )


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


@pytest.mark.parametrize(("extensions", "dot"), [("cl_khr_integer_dot_product", True), ("", False)])
def test_a_device_says_by_an_extension_that_it_multiplies_four_bytes_at_once(extensions, dot):
    library = SimpleNamespace(
        device_fp_config=SimpleNamespace(CORRECTLY_ROUNDED_DIVIDE_SQRT=1),
        device_type=SimpleNamespace(CPU=2, GPU=4),
    )
    known = dict.fromkeys(("max_compute_units", "max_work_group_size", "local_mem_size"), 1)
    sizes = dict.fromkeys(("global_mem_size", "max_mem_alloc_size", "native_vector_width_float"), 1)
    platform = SimpleNamespace(name="a", vendor="b", version="3.0")
    device = SimpleNamespace(
        platform=platform,
        name="c",
        driver_version="1",
        type=4,
        single_fp_config=1,
        extensions=extensions,
        **known,
        **sizes,
    )
    assert driver._limits(library, device).dot is dot


def test_the_c_that_has_dot_products_is_asked_for_on_devices_that_are_no_processors():
    both = [replace(LIMITS, dot=True), replace(LIMITS, kind="gpu", dot=True)]
    assert [options_for(limits)[0] for limits in both] == ["-cl-std=CL1.2", "-cl-std=CL3.0"]
    assert options_for(replace(LIMITS, kind="gpu"))[0] == "-cl-std=CL1.2"


def test_facts_that_were_not_known_when_a_model_was_saved_are_as_by_default():
    known = replace(LIMITS, dot=True)
    assert Limits.of_json(known.to_json()) == known
    older = {name: fact for name, fact in known.to_json().items() if name != "dot"}
    assert Limits.of_json(older) == LIMITS
