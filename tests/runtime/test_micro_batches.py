"""Batches go through a program a few items at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from afterglow.runtime.buffers import HostExecutable
from afterglow.runtime.device import DeviceBuffer, Footprint, StepName
from afterglow.runtime.micro_batches import MicroBatchedExecutable, MicroBatches
from afterglow.runtime.trace import Recording, Row, Trace
from afterglow.support.errors import UsageError
from afterglow.types import Array, Interface, Port, TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import Dim, ranged

BATCH = Dim("batch", 1, 8)
BATCHES = MicroBatches(BATCH, 3, (1,))


class Scaled(HostExecutable):
    """Multiplies items by a row that all of them share, and notes how many there were."""

    footprint = Footprint(4)
    threads = 2

    def __init__(self) -> None:
        self.counts: list[int] = []

    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        row, x = inputs
        self.counts.append(len(x))
        return [x * row, x[:, 0]]

    def run_recorded(
        self, here: Recording, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]
    ) -> list[Array]:
        here.trace.add(here.row, "mul", 0.0, float(len(inputs[1])))
        return self.run(inputs, states)

    def steps(self) -> Sequence[StepName]:
        return [StepName("mul", "y"), StepName("copy", "z")]

    def time_steps(
        self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]
    ) -> list[float]:
        return [float(len(inputs[1])), 1.0]


def interface(batch: Dim) -> Interface:
    items = TensorType(f32, (ranged(batch), 4))
    inputs = Port("row", TensorType(f32, (4,))), Port("x", items)
    return Interface(inputs, (Port("y", items), Port("z", TensorType(f32, (ranged(batch),)))))


def batched() -> tuple[Scaled, MicroBatchedExecutable]:
    program = Scaled()
    return program, MicroBatchedExecutable(program, BATCHES, interface(BATCH))


def arrays(count: int) -> list[Array]:
    x = np.arange(count * 4, dtype=np.float32).reshape(count, 4)
    return [np.float32([1, 2, 3, 4]), x]


@pytest.mark.parametrize(
    ("count", "counts"), [(1, [1]), (3, [3]), (4, [2, 2]), (7, [2, 2, 3]), (8, [2, 3, 3])]
)
def test_a_batch_is_divided_into_parts_that_are_as_equal_as_can_be(count, counts) -> None:
    program, executable = batched()
    row, x = arrays(count)
    y, z = executable.run([row, x], {})
    np.testing.assert_array_equal(y, x * row)
    np.testing.assert_array_equal(z, x[:, 0])
    assert program.counts == counts


def test_a_batch_out_of_bounds_is_refused_before_anything_runs() -> None:
    program, executable = batched()
    with pytest.raises(UsageError) as caught:
        executable.run(arrays(9), {})
    assert caught.value.what == "dimension 'batch' of input 'x' is 9, out of its bounds 1..8"
    assert program.counts == []


def test_the_interface_of_batches_follows_from_that_of_micro_batches() -> None:
    assert BATCHES.part == Dim("batch", 1, 3)
    assert BATCHES.interface(interface(BATCHES.part)) == interface(BATCH)


def test_steps_are_timed_for_all_micro_batches() -> None:
    _, executable = batched()
    assert executable.time_steps(arrays(8), {}) == [8.0, 3.0]
    assert executable.time_steps(arrays(1), {}) == [1.0, 1.0]
    assert [step.kernel for step in executable.steps()] == ["mul", "copy"]


@pytest.mark.parametrize(("count", "counts"), [(1, [1]), (7, [2, 2, 3])])
def test_steps_are_recorded_for_each_micro_batch(count, counts) -> None:
    _, executable = batched()
    here = Recording(Trace(), 1, Row("cpu", "here"), with_steps=True)
    row, x = arrays(count)
    y, z = executable.run_recorded(here, [row, x], {})
    np.testing.assert_array_equal(y, x * row)
    np.testing.assert_array_equal(z, x[:, 0])
    assert sorted(span.end for span in here.trace.spans) == counts


def test_how_batches_are_divided_can_be_described_and_restored() -> None:
    assert BATCHES.describe() == [["batch", 1, 8, 1], 3, [1]]
    assert MicroBatches.restore(BATCHES.describe()) == BATCHES
    assert batched()[1].footprint == Footprint(4)
