"""Runs on arrays in the memory of the GPU: where they lie, on whose stream, and results."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

import afterglow as ag
from afterglow.backends.cuda.arrays import CudaArray
from afterglow.backends.cuda.driver.protocol import OUT_OF_MEMORY
from afterglow.backends.cuda.executable import CudaExecutable
from afterglow.backends.cuda.graphs import MOST_RUNS
from afterglow.backends.cuda.memory import CudaBuffer
from afterglow.runtime.device_arrays import device_tensor
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
STREAM = 77


class Given:
    """An array of another library, by `__cuda_array_interface__`."""

    def __init__(self, context, array, stream=STREAM, offset=0, **changed):
        self.array = array
        self.address = context.hold(
            np.concatenate([np.zeros(offset, np.uint8), array.reshape(-1).view("u1")])
        )
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (self.address + offset, False),
            "strides": None,
            "stream": stream,
            **changed,
        }


@pytest.fixture
def driver():
    return FakeDriver()


def loaded(driver, parts=DOUBLED, **named):
    return CudaExecutable(artifact(parts, **named), driver, driver.facts[0])


def test_a_run_on_an_array_of_another_library_copies_nothing(driver):
    executable = loaded(driver)
    x = Given(driver.contexts[0], X)
    before = len(driver.calls)
    (y,) = executable.run_on_device([x])
    names = [call[0] for call in driver.calls[before:]]
    assert not {"upload", "download", "copy", "synchronize"} & set(names) - {"synchronize"}
    assert driver.named("replay") == [("replay", STREAM)]
    assert y.stream == STREAM
    assert y.numpy().tolist() == (2 * X).tolist()


def test_a_caller_who_alternates_between_a_few_buffers_only_replays(driver):
    executable = loaded(driver)
    first, second = (Given(driver.contexts[0], X + n) for n in range(2))
    for _ in range(4):
        for x in (first, second):
            (y,) = executable.run_on_device([x])
            assert y.numpy().tolist() == (2 * x.array).tolist()
            del y
    assert driver.count("begin_capture") == 2
    allocated = driver.count("alloc")
    executable.run_on_device([first])
    assert driver.count("alloc") == allocated


def test_a_replay_on_the_device_asks_the_driver_for_one_thing(driver):
    executable = loaded(driver)
    x = Given(driver.contexts[0], X)
    executable.run_on_device([x])
    before = len(driver.calls)
    executable.run_on_device([x])
    assert [call[0] for call in driver.calls[before:]] == ["replay"]


def test_runs_that_were_not_used_for_long_are_given_back(driver):
    executable = loaded(driver)
    xs = [Given(driver.contexts[0], X) for _ in range(MOST_RUNS + 3)]
    for x in xs:
        executable.run_on_device([x])
    assert driver.contexts[0].graphs == MOST_RUNS


def test_results_are_inputs_of_the_next_run(driver):
    executable = loaded(driver)
    (y,) = executable.run_on_device([Given(driver.contexts[0], X)])
    for _ in range(3):
        (y,) = executable.run_on_device([y])
    assert y.numpy().tolist() == (16 * X).tolist()
    assert not driver.named("copy", "upload")[1:]  # but the constants


def test_memory_of_results_comes_back_unless_another_stream_may_read_it(driver):
    executable = loaded(driver)
    x = Given(driver.contexts[0], X)
    (y,) = executable.run_on_device([x])
    (again,) = executable.run_on_device([x])
    assert again.address != y.address
    kept = y.address
    del y
    (y,) = executable.run_on_device([x])
    assert y.address == kept
    y.__dlpack__(stream=STREAM + 1)
    gc.collect()
    del y
    (y,) = executable.run_on_device([x])
    assert y.address not in (kept, again.address)


def test_an_input_of_another_stream_is_waited_for(driver):
    executable = loaded(driver)
    x = Given(driver.contexts[0], X, stream=5)
    executable.run_on_device([x], stream=6)
    assert driver.named("record", "wait", "replay") == [
        ("record", 5),
        ("wait", 6),
        ("replay", 6),
    ]


def test_without_a_stream_the_default_one_is_used(driver):
    executable = loaded(driver)
    executable.run_on_device([Given(driver.contexts[0], X, stream=None)])
    assert driver.named("replay") == [("replay", 1)]


def test_arrays_of_the_host_are_copied(driver):
    executable = loaded(driver)
    for n in range(2):
        assert executable.run_on_device([X + n])[0].numpy().tolist() == (2 * (X + n)).tolist()
    buffer = CudaBuffer(vector(), X)
    assert executable.run_on_device([buffer])[0].numpy().tolist() == (2 * X).tolist()


def test_an_unaligned_array_is_copied_on_the_device(driver):
    executable = loaded(driver)
    x = Given(driver.contexts[0], X, offset=4)
    assert executable.run_on_device([x])[0].numpy().tolist() == (2 * X).tolist()
    assert [call[3:] for call in driver.named("copy")] == [(16, STREAM)]


def test_an_array_that_does_not_lie_in_order_is_refused(driver):
    executable = loaded(driver)
    with pytest.raises(UsageError) as caught:
        executable.run_on_device([Given(driver.contexts[0], X, strides=(8,))])
    assert str(caught.value) == (
        "error: input 'x' does not lie in the memory of the GPU in order\n"
        "  help: give x.contiguous() (PyTorch) or cupy.ascontiguousarray(x)"
    )
    dense = Given(driver.contexts[0], X, strides=(4,))
    assert executable.run_on_device([dense])[0].numpy().tolist() == (2 * X).tolist()


def test_an_array_on_another_gpu_is_refused(driver):
    executable = loaded(driver)
    x = replace(device_tensor(Given(driver.contexts[0], X)), device=1)
    assert not executable.takes([x])
    with pytest.raises(UsageError) as caught:
        executable.run_on_device([x])
    assert str(caught.value) == (
        "error: input 'x' is on GPU 1, and the model on GPU 0\n"
        "  help: copy it there, or compile the model for --target cuda:1"
    )


@pytest.mark.parametrize("array", [X.astype("f8"), np.zeros((2, 2), np.float32)])
def test_an_array_of_another_type_is_refused(driver, array):
    executable = loaded(driver)
    for given in (array, Given(driver.contexts[0], array)):
        with pytest.raises(UsageError) as caught:
            executable.run_on_device([given])
        assert str(caught.value) == (
            f"error: input 'x' takes f32[4], got {array.dtype}{[*array.shape]}\n"
            "  help: convert it, or compile the model for this type and shape"
        )


def test_an_index_out_of_range_is_an_error_of_the_call(driver):
    checks = [CheckedIndex("pick", "gather", "indices", IndexRange(0, 9))]
    parts = (("check", "input 0", ["alarms", 16]), ("double", "input 0", "output 0"))
    executable = loaded(driver, parts, checks=checks)
    with pytest.raises(IndexRangeError, match="must be from 0 to 9, got 12"):
        executable.run_on_device([Given(driver.contexts[0], X + 12)])
    good = Given(driver.contexts[0], X)
    assert executable.run_on_device([good])[0].numpy().tolist() == (2 * X).tolist()


def test_states_are_read_when_the_run_has_ended(driver):
    executable = loaded(driver, (("add", "input 0", "state s", "output 0"),), states=("s",))
    state = CudaBuffer(vector())
    for number in (1, 2):
        (y,) = executable.run_on_device([Given(driver.contexts[0], X)], {"s": state})
        assert y.numpy().tolist() == (number * X).tolist()
    before = len(driver.calls)
    state.read()
    assert [call[0] for call in driver.calls[before:]] == ["wait", "download", "synchronize"]


def test_a_lack_of_memory_says_what_is_needed(driver):
    executable = loaded(driver)
    x = Given(driver.contexts[0], X)
    executable.run_on_device([x])
    gc.collect()
    executable._program.session.outputs.clear()
    driver.fail("alloc", OUT_OF_MEMORY)
    with pytest.raises(DeviceError, match="cannot allocate memory, which needs 16 bytes"):
        executable.run_on_device([x])
    assert executable.run_on_device([x])[0].numpy().tolist() == (2 * X).tolist()


def test_results_speak_both_protocols(driver):
    executable = loaded(driver)
    (y,) = executable.run_on_device([Given(driver.contexts[0], X)])
    assert isinstance(y, CudaArray)
    assert y.__dlpack_device__() == (2, 0)
    said = y.__cuda_array_interface__
    assert said == {
        "version": 3,
        "shape": (4,),
        "typestr": "<f4",
        "data": (y.address, False),
        "strides": None,
        "stream": STREAM,
    }
    read = device_tensor(replace_interface(y))
    assert (read.address, read.shape, read.dtype, read.device) == (y.address, (4,), "f4", 0)
    assert repr(y) == "<CudaArray f32[4] on cuda:0>"
    assert np.asarray(y).tolist() == (2 * X).tolist()


class replace_interface:  # noqa: N801
    """The same array, which has DLPack alone."""

    def __init__(self, array):
        self.__dlpack__ = array.__dlpack__
        self.__dlpack_device__ = array.__dlpack_device__


@pytest.mark.parametrize(("asked", "waits"), [(None, [1]), (5, [5]), (STREAM, []), (-1, [])])
def test_who_takes_a_result_on_another_stream_waits_for_it(driver, asked, waits):
    executable = loaded(driver)
    (y,) = executable.run_on_device([Given(driver.contexts[0], X)])
    before = len(driver.calls)
    y.__dlpack__(stream=asked, max_version=(1, 0))
    assert driver.calls[before:] == [("wait", stream) for stream in waits]


def test_a_result_is_not_copied_by_dlpack(driver):
    (y,) = loaded(driver).run_on_device([X])
    for wrong in ({"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError, match="is shared where it lies"):
            y.__dlpack__(**wrong)


def test_a_model_runs_where_its_inputs_lie(driver):
    model = ag.compile(ag.parse_module(IDENTITY), backend="interpreter", cache=False)
    compiled = model._static.compiled
    executable = compiled.executable = loaded(driver)
    compiled.interface = executable.artifact.interface
    assert executable.takes([Given(driver.contexts[0], X)])
    y = model(Given(driver.contexts[0], X))
    assert isinstance(y, CudaArray)
    assert y.numpy().tolist() == (2 * X).tolist()
    with pytest.raises(UsageError, match="input 'x' holds float32, got float64"):
        model(Given(driver.contexts[0], X.astype("f8")))


IDENTITY = """
    func @main(%x: f32[4]) {
      %y = neg(%x) : f32[4]
      return %y
    }
"""


def test_the_other_gpu_has_its_own_session():
    driver = FakeDriver(FACTS, replace(FACTS, number=1))
    executable = CudaExecutable(artifact(QUADRUPLED), driver, driver.facts[1])
    (y,) = executable.run_on_device([X])
    assert y.__dlpack_device__() == (2, 1)
