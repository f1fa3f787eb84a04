"""Observers in a function, and what recorders make of many runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from afterglow.driver.api import compile
from afterglow.graph import Builder, Function, Module
from afterglow.ops.functions import Exp
from afterglow.quantization.observation import LARGEST_REACH, LEAST_REACH, Observation
from afterglow.quantization.observe import (
    ObservationError,
    Observers,
    Recorder,
    add_observers,
    merge_observations,
    sampling_step,
)
from afterglow.types import Array, TensorType
from afterglow.types.dtype import boolean, f32
from afterglow.types.extent import Dim, ranged
from tests.quantization.checks import assert_same


def observed(*shape: int, extents: dict[str, int] | None = None) -> tuple[Module, Observers]:
    """A function that returns exp(x), and observes x and that."""
    f = Function("main")
    x = f.input("x", TensorType(f32, shape))
    y = Builder(f, origins=("the node",)).emit(Exp(), x, name="y")
    f.output("y", y)
    return f.module, add_observers(f, [x, y], extents)


def recorded(runs: Sequence[Array], *shape: int, backend: str = "cpu") -> Recorder:
    module, observers = observed(*(shape or runs[0].shape))
    model, recorder = compile(module, threads=1, backend=backend), Recorder(observers)
    for x in runs:
        recorder.add(model.run(None, {"x": x})[1:])
    return recorder


def numbers(*shape: int, scale: float = 1.0) -> Array:
    return (np.random.default_rng(3).standard_normal(shape) * scale).astype(np.float32)


def test_a_run_observes_what_numpy_does() -> None:
    x = numbers(5, 7, 20)
    found = recorded([x]).observations()
    assert list(found) == ["x", "y"]
    assert_same(found["x"], Observation.of(x))


@pytest.mark.parametrize("scales", [(1, 1, 1), (1, 8, 0.01), (5, 1e-20, 20)])
def test_runs_are_merged_as_observations_are(scales: tuple[float, ...]) -> None:
    runs = [numbers(5, 20, scale=scale) for scale in scales]
    wanted = Observation.of(runs[0])
    for x in runs[1:]:
        wanted = wanted.merge(Observation.of(x))
    assert_same(recorded(runs).observations()["x"], wanted)


def test_reaches_are_within_bounds() -> None:
    zeros, huge = np.zeros((2, 3), np.float32), np.full((2, 3), 3e38, np.float32)
    assert recorded([zeros]).observations()["x"].reach == LEAST_REACH
    assert_same(recorded([zeros]).observations()["x"], Observation.of(zeros))
    f = Function("main")
    observers = add_observers(f, [f.input("x", TensorType(f32, (2, 3)))])
    recorder = Recorder(observers)
    recorder.add(compile(f.module, threads=1).run(None, {"x": -huge}))
    assert recorder.observations()["x"].reach == LARGEST_REACH
    assert_same(recorder.observations()["x"], Observation.of(-huge))


@pytest.mark.parametrize("shape", [(), (6,)])
def test_values_without_channels_have_none(shape: tuple[int, ...]) -> None:
    x = numbers(*shape)
    found = recorded([x], *shape).observations()["x"]
    assert found.channels is None
    assert_same(found, Observation.of(x))


def test_values_with_ranged_channels_have_none() -> None:
    columns = ranged(Dim("c", 1, 9))
    module, observers = observed(4, columns)
    assert [value.channels for value in observers.values] == [0, 0]
    model, recorder = compile(module, threads=1), Recorder(observers)
    recorder.add(model.run(None, {"x": numbers(4, 5)})[1:])
    assert_same(recorder.observations()["x"], replaced_channels(Observation.of(numbers(4, 5))))


def replaced_channels(observation: Observation) -> Observation:
    own = {**vars(observation), "channels": None}
    return Observation(**own)


def test_runs_without_elements_count_for_nothing() -> None:
    rows = ranged(Dim("r", 0, 9))
    module, observers = observed(rows, 3)
    model, recorder = compile(module, threads=1), Recorder(observers)
    x = numbers(4, 3)
    for run in (x[:0], x, x[:0]):
        recorder.add(model.run(None, {"x": run})[1:])
    found = recorder.observations()["x"]
    assert_same(found, Observation.of(x))
    assert found.runs == 1


def test_a_function_without_values_has_no_outputs_more() -> None:
    f = Function("main")
    f.output("y", f.input("x", TensorType(f32, (2,))))
    observers = add_observers(f, [])
    assert len(f.outputs) == 1
    Recorder(observers).add([])
    assert Recorder(observers).observations() == {}


@pytest.mark.parametrize(
    ("number", "what", "where"),
    [
        (np.nan, "value %x is NaN", "an input of the model"),
        (np.inf, "value %x is infinite", "an input of the model"),
        (100.0, "value %y is infinite", "in node 'the node'"),
    ],
)
def test_values_without_a_range_are_refused(number: float, what: str, where: str) -> None:
    x = numbers(4, 3)
    x[2, 1] = number
    with pytest.raises(ObservationError) as caught:
        recorded([x])
    assert str(caught.value) == (
        f"error: {what}, so it has no range to quantize\n  {where}\n"
        "  help: quantize a model that computes finite numbers, and give samples like its inputs"
    )


def test_large_values_are_sampled_by_rows() -> None:
    x = numbers(60, 60, 32)
    found = recorded([x]).observations()["x"]
    whole = Observation.of(x)
    assert 10_000 < found.total < 20_000
    assert (found.low, found.high) == (whole.low, whole.high)
    share = found.counts / found.total - whole.counts / whole.total
    assert abs(np.cumsum(share)).max() < 0.02


@pytest.mark.parametrize(
    ("shape", "step"),
    [
        ((1, 8, 8, 16), 1),
        ((1, 112, 112, 96), 75),
        ((1, 128, 4096), 33),
        ((1 << 20,), 1),
        ((1, 1 << 20), 64),
    ],
)
def test_sampled_rows_are_of_all_places(shape: tuple[int, ...], step: int) -> None:
    assert sampling_step(TensorType(f32, shape)) == step


def test_ranged_values_are_sampled_as_in_a_typical_run() -> None:
    rows = ranged(Dim("r", 1, 1 << 20))
    module, _ = observed(rows, 64, extents={"r": 1024})
    steps = [n.op.every for n in module.main.nodes if n.op.mnemonic == "histogram"]  # type: ignore[attr-defined]  # it is one
    assert steps == [4, 4]


def test_values_that_may_be_undefined_are_left_out() -> None:
    f = Function("main")
    b = Builder(f)
    x, flag = f.input("x", TensorType(f32, (2, 3))), f.input("flag", TensorType(boolean, ()))
    with b.when(flag):
        y = b.emit(Exp(), x, name="y")
    f.output("y", y)
    assert [value.name for value in add_observers(f, [x, y]).values] == ["x"]


def test_observations_of_other_values_are_kept() -> None:
    one, other = Observation.of(numbers(3)), Observation.of(numbers(4))
    merged = merge_observations({"a": one, "b": one}, {"b": other, "c": other})
    assert list(merged) == ["a", "b", "c"]
    assert_same(merged["b"], one.merge(other))


@pytest.mark.parametrize("backend", ["interpreter", "primitives"])
def test_observers_run_everywhere(backend: str) -> None:
    x = numbers(5, 20)
    assert_same(recorded([x], backend=backend).observations()["x"], Observation.of(x))
