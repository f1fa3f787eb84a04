"""Runs on arrays of the host and on buffers: what the driver is asked for, and failures."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from afterglow.backends.cuda import staging
from afterglow.backends.cuda.driver.protocol import OUT_OF_MEMORY
from afterglow.backends.cuda.executable import CudaExecutable
from afterglow.backends.cuda.memory import CudaBuffer
from afterglow.backends.cuda.needs import runs_at_once
from afterglow.runtime.device import RunsOnDeviceArrays, TimesSteps
from afterglow.runtime.native.program import CheckedIndex
from afterglow.support.errors import DeviceError, IndexRangeError, UsageError
from afterglow.types import IndexRange
from tests.backends.cuda.fake_driver import (
    DOUBLED,
    FACTS,
    QUADRUPLED,
    FakeDriver,
    artifact,
    vector,
)

X = np.arange(4, dtype=np.float32)
ILLEGAL = "CUDA_ERROR_ILLEGAL_ADDRESS"
CHECKS = [CheckedIndex("pick", "gather", "indices", IndexRange(0, 9))]
CHECKED = (("check", "input 0", ["alarms", 16]), ("double", "input 0", "output 0"))


@pytest.fixture
def driver():
    return FakeDriver()


def loaded(driver, parts=DOUBLED, **named):
    return CudaExecutable(artifact(parts, **named), driver, driver.facts[0])


def test_a_run_is_captured_once_and_replayed(driver):
    executable = loaded(driver, QUADRUPLED)
    for number in range(3):
        assert executable.run([X + number], {})[0].tolist() == (4 * (X + number)).tolist()
    assert driver.count("begin_capture") == 1
    assert driver.count("replay") == 3
    assert driver.count("launch") == 2


def test_a_replayed_run_asks_the_driver_for_two_things(driver):
    executable = loaded(driver)
    executable.run([X], {})
    before = len(driver.calls)
    executable.run([X], {})
    assert [call[0] for call in driver.calls[before:]] == ["replay", "synchronize"]


def test_copies_are_a_part_of_the_graph(driver):
    executable = loaded(driver)
    executable.run([X], {})
    names = [call[0] for call in driver.calls]
    captured = names[names.index("begin_capture") + 1 : names.index("end_capture")]
    assert captured == ["upload", "launch", "download"]


def test_large_tensors_are_copied_by_the_driver_itself(driver, monkeypatch):
    monkeypatch.setattr(staging, "LARGEST_PINNED", 8)
    executable = loaded(driver)
    for number in range(2):
        x = np.asfortranarray(X + number)
        assert executable.run([x], {})[0].tolist() == (2 * x).tolist()
    names = [call[0] for call in driver.calls]
    captured = names[names.index("begin_capture") + 1 : names.index("end_capture")]
    assert captured == ["launch"]


def test_only_kernels_behind_kernels_begin_early(driver):
    executable = loaded(driver, QUADRUPLED)
    executable.run([X], {})
    stream = driver.named("begin_capture")[0][1]
    assert driver.named("launch") == [
        ("launch", "double", (2, 1, 1), 128, 1024, stream, False),
        ("launch", "double", (2, 1, 1), 128, 1024, stream, True),
    ]


def test_counters_and_alarms_begin_as_zeros(driver):
    executable = loaded(driver, CHECKED, checks=CHECKS)
    executable.run([X], {})
    assert [call[2] for call in driver.named("fill")] == [32, 16]


def test_an_index_out_of_range_is_an_error_once(driver):
    executable = loaded(driver, CHECKED, checks=CHECKS)
    with pytest.raises(IndexRangeError, match="must be from 0 to 9, got 12"):
        executable.run([X + 12], {})
    assert executable.run([X], {})[0].tolist() == (2 * X).tolist()


def test_nobody_looks_at_alarms_of_unchecked_programs(driver):
    executable = loaded(driver, CHECKED, checks=CHECKS, unchecked=True)
    assert executable.run([X + 12], {})[0].tolist() == (2 * (X + 12)).tolist()
    assert len(driver.named("download")) == 1


def test_runs_on_buffers_are_captured_for_each_set_of_them(driver):
    executable = loaded(driver)
    for _ in range(2):
        x, y = CudaBuffer(vector(), X), CudaBuffer(vector())
        for _ in range(2):
            executable.start([x], [y], {}).result()
        assert y.read().result().tolist() == (2 * X).tolist()
    assert driver.count("begin_capture") == 2


def test_states_last_from_run_to_run(driver):
    executable = loaded(driver, (("add", "input 0", "state s", "output 0"),), states=("s",))
    state = CudaBuffer(vector())
    for number in (1, 2):
        assert executable.run([X], {"s": state})[0].tolist() == (number * X).tolist()
    assert state.read().result().tolist() == (2 * X).tolist()
    state.write(np.ones(4, np.float32)).result()
    assert executable.run([X], {"s": state})[0].tolist() == (1 + X).tolist()
    assert runs_at_once(executable.artifact, FACTS) == 1


def test_runs_at_once_have_memory_of_their_own(driver):
    executable = loaded(driver, QUADRUPLED)
    with executable.workspace() as one, executable.workspace() as another:
        assert one.addresses["arena"] != another.addresses["arena"]
        assert one.addresses["constants"] == another.addresses["constants"]
    with ThreadPoolExecutor(8) as threads:
        got = threads.map(lambda n: executable.run([X + n], {})[0], range(32))
    assert [each.tolist() for each in got] == [(4 * (X + n)).tolist() for n in range(32)]


@pytest.mark.parametrize(("memory", "runs"), [(1 << 20, 4), (420, 2), (250, 1), (10, 1)])
def test_large_models_have_fewer_runs_at_once(driver, memory, runs):
    assert runs_at_once(artifact(DOUBLED), replace(FACTS, memory_bytes=memory)) == runs


def test_steps_are_timed_between_events(driver):
    executable = loaded(driver, QUADRUPLED)
    assert isinstance(executable, TimesSteps)
    assert isinstance(executable, RunsOnDeviceArrays)
    assert executable.time_steps([X], {}) == pytest.approx([1e-6, 1e-6])
    assert not any(pdl for *_, pdl in driver.named("launch"))
    assert [step.kernel for step in executable.steps()] == ["double", "double"]
    assert driver.contexts[0].graphs == 0
    assert executable.footprint.weight_bytes == 16


def test_states_advance_once_when_steps_are_timed(driver):
    executable = loaded(driver, (("add", "input 0", "state s", "output 0"),), states=("s",))
    state = CudaBuffer(vector())
    executable.time_steps([X], {"s": state})
    assert state.read().result().tolist() == X.tolist()


def test_everything_is_given_back(driver):
    executable = loaded(driver, CHECKED, checks=CHECKS)
    executable.run([X], {})
    executable.run_on_device([X])
    executable.time_steps([X], {})
    context = driver.contexts[0]
    context_outputs = executable._program.session.outputs
    del executable
    gc.collect()
    context_outputs.clear()
    assert (context.pinned, context.graphs, context.modules, context.used) == (0, 0, 0, 0)
    assert context.events == 0


def test_an_error_of_the_gpu_poisons_one_executable_and_others_go_on(driver):
    executable, other = loaded(driver), loaded(driver, QUADRUPLED)
    executable.run([X], {})
    other.run([X], {})
    driver.fail("synchronize", ILLEGAL, sticky=True)
    with pytest.raises(DeviceError) as caught:
        executable.run([X], {})
    failed = (
        "cuda:0 failed to run the model: synchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS "
        "(an illegal memory access was encountered)"
    )
    assert str(caught.value) == (
        f"error: {failed}\n"
        "  help: this model is not run any more; load it anew, and if that fails again, use "
        "another device"
    )
    assert other.run([X], {})[0].tolist() == (4 * X).tolist()
    for _ in range(2):
        with pytest.raises(DeviceError) as caught:
            executable.run([X], {})
        assert str(caught.value) == (
            f"error: the model is not run on cuda:0 any more since this: {failed}\n"
            "  help: load it anew; others go on, but states that were on the GPU are lost"
        )
    assert loaded(driver).run([X], {})[0].tolist() == (2 * X).tolist()
    assert driver.count("open") == 2


def test_states_that_were_on_a_gpu_that_failed_are_lost_until_they_are_written(driver):
    parts = (("add", "input 0", "state s", "output 0"),)
    executable, state = loaded(driver, parts, states=("s",)), CudaBuffer(vector())
    executable.run([X], {"s": state})
    broken = loaded(driver)
    driver.fail("synchronize", ILLEGAL, sticky=True)
    with pytest.raises(DeviceError):
        broken.run([X], {})
    with pytest.raises(DeviceError) as caught:
        executable.run([X], {"s": state})
    assert str(caught.value) == (
        "error: what a tensor f32[4] held was lost when cuda:0 failed\n"
        "  help: write it anew; for the states of a model, model.reset()"
    )
    state.write(np.zeros(4, np.float32))
    assert executable.run([X], {"s": state})[0].tolist() == X.tolist()


@pytest.mark.parametrize("call", ["replay", "begin_capture", "end_capture", "launch", "new_stream"])
def test_an_error_that_leaves_the_context_as_it_is_leaves_the_executable(driver, call):
    executable = loaded(driver)
    driver.fail(call, "CUDA_ERROR_INVALID_VALUE")
    with pytest.raises(DeviceError, match=f"{call} failed: CUDA_ERROR_INVALID_VALUE"):
        executable.run([X], {})
    assert executable.run([X], {})[0].tolist() == (2 * X).tolist()
    assert driver.count("open") == 1
    assert not driver.contexts[0].captures


def test_a_workspace_for_which_there_is_no_memory_is_not_needed(driver):
    executable = loaded(driver)
    with ThreadPoolExecutor(1) as threads:
        with executable.workspace():
            driver.fail("alloc", OUT_OF_MEMORY)
            waiting = threads.submit(executable.run, [X], {})
            with pytest.raises(TimeoutError):
                waiting.result(0.2)
        assert waiting.result(60)[0].tolist() == (2 * X).tolist()


def test_a_model_that_is_too_large_says_what_it_needs_and_what_is_free(driver):
    with pytest.raises(DeviceError) as caught:
        loaded(driver, arena=2_000_000)
    assert str(caught.value) == (
        "error: cuda:0 has not enough memory: a run takes 2,000,048 bytes: 16 for weights, "
        "2,000,000 for intermediate results, 32 for inputs, outputs and states\n"
        "  help: it has 1,048,576 bytes, of which 1,048,576 are free"
    )


@pytest.mark.parametrize("name", ["CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_INVALID_IMAGE"])
def test_machine_code_that_the_driver_refuses_says_what_to_do(driver, name):
    driver.fail("load", name)
    with pytest.raises(UsageError) as caught:
        loaded(driver)
    assert str(caught.value) == (
        f"error: the driver cannot load the machine code of the model: load failed: {name}\n"
        "  help: compile it for --target sm_90, or install a newer driver"
    )
