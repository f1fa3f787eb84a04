"""The driver through ctypes, against a library that pretends to be it."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from afterglow.backends.cuda.device import CudaDevice
from afterglow.backends.cuda.driver.cuda import CudaDriver
from afterglow.backends.cuda.driver.library import Library
from afterglow.backends.cuda.driver.protocol import CudaError, DeviceFacts
from afterglow.backends.cuda.executable import CudaExecutable
from afterglow.backends.cuda.memory import CudaBuffer
from afterglow.support.errors import DeviceError, UsageError
from tests.backends.cuda.driver.fake_library import build_library
from tests.backends.cuda.fake_driver import QUADRUPLED, artifact, vector

X = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return build_library(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def path(built, tmp_path):
    """A copy, which has variables of its own."""
    return str(shutil.copy(built, tmp_path / "libcuda.so.1"))


@pytest.fixture
def log(tmp_path, monkeypatch):
    """The calls so far."""
    file = tmp_path / "log"
    monkeypatch.setenv("FAKE_CUDA_LOG", str(file))
    return lambda: [line.strip() for line in file.read_text().splitlines()]


@pytest.fixture
def driver(path):
    return CudaDriver(Library(path))


def test_devices_are_described(driver):
    assert driver.devices() == [
        DeviceFacts(
            number=0,
            name="Fake GPU",
            arch=90,
            multiprocessors=132,
            memory_bytes=1 << 30,
            shared_bytes=232_448,
            cache_bytes=50 << 20,
            clock=1.98e9,
            bandwidth=4.608e12,
            driver="12.8",
            uuid="ab" * 16,
        )
    ]


def test_memory_is_copied_and_cleared(driver):
    context = driver.open(0)
    one, two = context.alloc(16), context.alloc(16)
    found = np.zeros(16, np.uint8)
    context.upload(one, X.view(np.uint8), 0)
    context.copy(two, one, 16, 0)
    context.download(found, two, 0)
    assert found.view("f4").tolist() == X.tolist()
    context.fill(two, 8, 0)
    context.download(found, two, 0)
    assert found.view("f4").tolist() == [0, 0, 2, 3]
    pinned = context.alloc_host(16)
    assert pinned.nbytes == 16
    context.free_host(pinned)
    context.free(one)
    assert context.memory() == (1000, 1 << 30)


def test_an_error_has_the_name_and_the_text_of_the_driver(driver, monkeypatch):
    context = driver.open(0)
    monkeypatch.setenv("FAKE_CUDA_FAIL", "cuStreamSynchronize:700")
    with pytest.raises(CudaError) as caught:
        context.synchronize(0)
    assert str(caught.value) == (
        "cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS "
        "(an illegal memory access was encountered)"
    )
    monkeypatch.setenv("FAKE_CUDA_FAIL", "cuMemAlloc_v2:12345")
    with pytest.raises(CudaError) as caught:
        context.alloc(1)
    assert str(caught.value) == "cuMemAlloc_v2 failed: error 12345"


@pytest.mark.parametrize("call", ["cuStreamWaitEvent", "cuGraphLaunch", "cuEventRecord"])
def test_a_replay_that_fails_says_which_call_did(driver, monkeypatch, call):
    context = driver.open(0)
    stream, turn = context.new_stream(), context.new_event()
    context.begin_capture(stream)
    graph = context.end_capture(stream)
    context.replay(graph, stream, turn)
    monkeypatch.setenv("FAKE_CUDA_FAIL", f"{call}:2")
    with pytest.raises(CudaError, match=f"{call} failed: CUDA_ERROR_OUT_OF_MEMORY"):
        context.replay(graph, stream, turn)


def test_events_in_a_graph_are_reached_at_each_replay(driver, log):
    context = driver.open(0)
    stream = context.new_stream()
    start, end = context.new_event(timed=True), context.new_event(timed=True)
    context.begin_capture(stream)
    context.record(start, stream)
    context.free_graph(context.end_capture(stream))
    context.record(end, stream)
    records = [line for line in log() if line.startswith("cuEventRecord")]
    assert records == ["cuEventRecordWithFlags 1", "cuEventRecord"]
    assert context.elapsed(start, end) == pytest.approx(2.5e-3)


def test_the_context_is_given_back_once(driver):
    first, second = driver.open(0), driver.open(0)
    assert not first.close()
    assert not first.close()
    assert second.close()


def test_a_program_runs_through_the_driver(driver, log):
    executable = CudaExecutable(artifact(QUADRUPLED), driver, driver.devices()[0])
    for number in range(2):
        assert executable.run([X + number], {})[0].tolist() == (4 * (X + number)).tolist()
    assert executable.run_on_device([X])[0].numpy().tolist() == (4 * X).tolist()
    launches = [line for line in log() if line.startswith("cuLaunchKernelEx")][:2]
    assert launches == [
        "cuLaunchKernelEx double (2 1 1) (128 1 1) 1024",
        "cuLaunchKernelEx double (2 1 1) (128 1 1) 1024 early",
    ]
    assert executable.time_steps([X], {}) == pytest.approx([2.5e-3] * 2)


def test_much_shared_memory_is_asked_for(driver, log):
    made = artifact(QUADRUPLED)
    made.manifest["kernels"]["double"]["shared"] = 100_000
    CudaExecutable(made, driver, driver.devices()[0])
    assert "cuFuncSetAttribute 8 100000" in log()


def test_states_and_buffers_through_the_driver(driver):
    made = artifact((("add", "input 0", "state s", "output 0"),), states=("s",))
    executable = CudaExecutable(made, driver, driver.devices()[0])
    state, x, y = CudaBuffer(vector()), CudaBuffer(vector(), X), CudaBuffer(vector())
    executable.start([x], [y], {"s": state}).result()
    executable.start([x], [y], {"s": state}).result()
    assert y.read().result().tolist() == (2 * X).tolist()


def test_without_a_library_it_says_what_to_install():
    with pytest.raises(UsageError) as caught:
        Library("libno-such-driver.so")
    assert str(caught.value) == (
        "error: CUDA finds no driver: libno-such-driver.so cannot be loaded\n"
        "  help: install the driver of NVIDIA; compiling for --target sm_90 and the like needs none"
    )


def test_an_old_driver_says_what_to_install(path, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_VERSION", "11040")
    with pytest.raises(UsageError) as caught:
        Library(path)
    assert str(caught.value) == (
        "error: the driver is too old: it has CUDA 11.4, and 12.0 is needed\n"
        "  help: install a driver of NVIDIA with CUDA 12 or later (525 or later on Linux)"
    )


def test_a_driver_without_devices_says_so(path, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_FAIL", "cuInit:100")
    monkeypatch.setattr(
        "afterglow.backends.cuda.session.cuda_driver", lambda: CudaDriver(Library(path))
    )
    with pytest.raises(UsageError) as caught:
        CudaDevice().describe()
    assert str(caught.value) == (
        "error: CUDA finds no GPU\n"
        "  help: nvidia-smi says whether the driver sees a GPU; containers need one passed to them"
    )


def test_a_program_that_fails_is_poisoned_and_a_new_one_runs(driver, monkeypatch):
    executable = CudaExecutable(artifact(QUADRUPLED), driver, driver.devices()[0])
    executable.run([X], {})
    monkeypatch.setenv("FAKE_CUDA_FAIL", "cuStreamSynchronize:700")
    with pytest.raises(DeviceError, match="cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL"):
        executable.run([X], {})
    monkeypatch.delenv("FAKE_CUDA_FAIL")
    with pytest.raises(DeviceError, match="is not run on cuda:0 any more"):
        executable.run([X], {})
    again = CudaExecutable(artifact(QUADRUPLED), driver, driver.devices()[0])
    assert again.run([X], {})[0].tolist() == (4 * X).tolist()
