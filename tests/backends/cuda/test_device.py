"""The GPUs of a machine: what they say of themselves, and which of them runs a program."""

from __future__ import annotations

from dataclasses import replace

import pytest

from afterglow.backends.cuda import device
from afterglow.backends.cuda.device import CudaDevice, runs_on
from afterglow.support.errors import UsageError
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from tests.backends.cuda.fake_driver import DOUBLED, FACTS, FakeDriver, artifact


@pytest.fixture
def driver(monkeypatch):
    found = FakeDriver(FACTS, replace(FACTS, number=1, name="Old GPU", arch=86))
    monkeypatch.setattr(device, "cuda_driver", lambda: found)
    monkeypatch.setattr("afterglow.backends.cuda.session.cuda_driver", lambda: found)
    return found


def test_each_gpu_describes_itself(driver):
    first, second = CudaDevice().describe_each()
    assert (first.target, second.target) == ("cuda:0", "cuda:1")
    assert first.description == "Test GPU, compute capability 9.0"
    assert first.flops == pytest.approx(66.9e12, rel=0.01)
    assert first.bandwidth == 4.8e12
    assert first.driver == "CUDA 12.8"
    assert CudaDevice().describe().name == "cuda"


def test_what_is_compiled_depends_on_no_gpu(driver):
    driver.fail("devices", "CUDA_ERROR_NO_DEVICE")
    assert CudaDevice().identity() == ""


@pytest.mark.parametrize(
    ("code", "gpu", "runs"),
    [(80, 80, True), (80, 86, True), (86, 80, False), (80, 90, False), (90, 100, False)],
)
def test_machine_code_runs_on_its_family(code, gpu, runs):
    assert runs_on(code, gpu) is runs


def test_a_program_runs_on_the_gpu_of_its_target(driver):
    assert CudaDevice().load_here(artifact(DOUBLED)).facts.number == 0
    assert CudaDevice().load_here(artifact(DOUBLED, arch=80)).facts.number == 1
    driver.facts = (FACTS, replace(FACTS, number=1))
    made = artifact(DOUBLED)
    target = {**made.manifest["target"], "name": "cuda:1"}
    made = replace(made, manifest={**made.manifest, "target": target})
    assert CudaDevice().load_here(made).facts.number == 1


def test_a_program_for_another_kind_of_gpu_says_what_to_compile_for(driver):
    with pytest.raises(UsageError) as caught:
        CudaDevice().load_here(artifact(DOUBLED, arch=100))
    assert str(caught.value) == (
        "error: the model was compiled for GPUs of compute capability 10.0, which none here is: "
        "Test GPU (9.0), Old GPU (8.6)\n"
        "  help: compile it for --target sm_90 or sm_86, or for --target host on this machine"
    )


def test_buffers_are_allocated_where_they_are_asked_for(driver):
    buffer = CudaDevice().allocate_on("cuda:1", TensorType(f32, (3,)))
    assert driver.named("open") == [("open", 1)]
    assert buffer.read().result().tolist() == [0, 0, 0]
