"""Runs that are bound to memory."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow.backends.cuda.executable import CudaExecutable
from afterglow.backends.cuda.memory import CudaBuffer
from afterglow.runtime.native.program import CheckedIndex
from afterglow.support.errors import DeviceError, IndexRangeError, UsageError
from afterglow.types import IndexRange
from tests.backends.cuda.fake_driver import DOUBLED, QUADRUPLED, FakeDriver, artifact, vector
from tests.backends.cuda.test_device_runs import STREAM, Given, X, loaded


@pytest.fixture
def driver():
    return FakeDriver()


def test_a_bound_run_reads_what_the_memory_holds_by_then(driver):
    executable = loaded(driver)
    x = Given(driver.contexts[0], X)
    run = executable.bind_on_device([x])
    run()
    (y,) = run.outputs
    assert y.numpy().tolist() == (2 * X).tolist()
    driver.contexts[0].at(x.address, 16).view("f4")[:] = 5
    run()
    assert run.outputs[0] is y
    assert y.numpy().tolist() == [10, 10, 10, 10]


def test_a_bound_run_is_one_replay_on_the_stream_of_its_inputs(driver):
    run = loaded(driver).bind_on_device([Given(driver.contexts[0], X)])
    run()
    before = len(driver.calls)
    run()
    run()
    assert driver.calls[before:] == [("replay", STREAM)] * 2


def test_other_runs_between_do_not_matter(driver):
    executable = loaded(driver, QUADRUPLED)
    run = executable.bind_on_device([Given(driver.contexts[0], X)])
    for number in range(3):
        (other,) = executable.run_on_device([Given(driver.contexts[0], X + number)])
        run()
        assert other.numpy().tolist() == (4 * (X + number)).tolist()
        assert run.outputs[0].numpy().tolist() == (4 * X).tolist()


def test_a_bound_run_goes_on_from_its_states(driver):
    executable = loaded(driver, (("add", "input 0", "state s", "output 0"),), states=("s",))
    state = CudaBuffer(vector())
    state.write(np.zeros(4, np.float32)).result()
    run = executable.bind_on_device([Given(driver.contexts[0], X)], {"s": state})
    for times in (1, 2, 3):
        run()
        assert run.outputs[0].numpy().tolist() == (times * X).tolist()


def test_a_bound_run_waits_where_indices_are_checked(driver):
    checks = [CheckedIndex("gather", "gather", "indices", IndexRange(0, 9))]
    parts = (("check", "input 0", ["alarms", 16]), ("double", "input 0", "output 0"))
    executable = loaded(driver, parts, checks=checks)
    x = Given(driver.contexts[0], X)
    run = executable.bind_on_device([x])
    run()
    driver.contexts[0].at(x.address, 16).view("f4")[:] = 10
    with pytest.raises(IndexRangeError):
        run()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (lambda context: X, "on the host"),
        (lambda context: Given(context, X, offset=4), "odd bytes"),
    ],
)
def test_memory_that_would_have_to_be_copied_is_refused(driver, given, why):
    executable = loaded(driver)
    with pytest.raises(UsageError, match=f"'x' cannot be bound: .*{why}"):
        executable.bind_on_device([given(driver.contexts[0])])


def test_a_bound_run_ends_with_its_context(driver):
    executable = loaded(driver)
    run = executable.bind_on_device([Given(driver.contexts[0], X)])
    executable._program.session.lose()
    with pytest.raises(DeviceError, match="bind the run anew"):
        run()


def test_as_many_results_as_a_program_gives_are_used_again():
    driver = FakeDriver()
    session = loaded(driver)._program.session
    session.outputs.expect([64] * 20)
    memories = [session.allocate(64) for _ in range(50)]
    addresses = sorted(memory.address for memory in memories)
    for memory in memories:
        session.outputs.give(memory, STREAM)
    del memories, memory
    taken = [session.outputs.take(64, STREAM) for _ in range(41)]
    assert taken[-1] is None
    assert [memory.address for memory in taken[:-1]] == addresses[:40]


def test_a_model_is_bound_to_arrays_of_the_host():
    model = ag.compile("examples/digits/digits.onnx", backend="cuda", target="emulated")
    x = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    run = model.bind(x)
    wanted = model(x)
    assert run() is run.outputs
    np.testing.assert_array_equal(run.outputs, wanted)
    x *= 0.5
    np.testing.assert_array_equal(run(), model(x))


def test_executables_bind_what_artifacts_describe(driver):
    executable = CudaExecutable(artifact(DOUBLED), driver, driver.facts[0])
    assert len(executable.bind_on_device([Given(driver.contexts[0], X)], stream=3).outputs) == 1
