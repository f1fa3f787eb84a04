"""Models that several devices run, from one end to the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import afterglow as ag
from afterglow.driver import partitioning
from afterglow.ops.activation import Relu
from afterglow.ops.linear import MatMul
from afterglow.partition.plan import parse_plan
from afterglow.runtime.partitioned.executable import PartitionedExecutable
from afterglow.runtime.rates import MemoryLevel, Rates
from afterglow.support.errors import MemoryLimitError, UsageError
from afterglow.types.dtype import f32

FIRST, SECOND = ag.LogicalDevice("cpu:0", threads=1), ag.LogicalDevice("cpu:1", threads=1)
WIDTH = 64


def network(layers: int = 4) -> ag.Module:
    """Products one after the other, each with weights of its own."""
    random = np.random.default_rng(0)
    module = ag.Module("network")
    function = module.new_function("main")
    builder = ag.Builder(function)
    value = function.input("x", ag.TensorType(f32, (8, WIDTH)))
    for layer in range(layers):
        weights = random.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 8
        constant = builder.constant(weights, f"w{layer}")
        value = builder.emit(MatMul(), value, constant, origins=(f"layer{layer}/product",))
        value = builder.emit(Relu(), value, origins=(f"layer{layer}/relu",))
    function.output("y", value)
    return module


X = np.random.default_rng(1).standard_normal((8, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def expected():
    return ag.compile(network(), cache=False)(X)


def devices_of(model: ag.CompiledModel) -> list[str]:
    """The devices of the parts of a model; none if it is in one piece."""
    executable = model.compiled.executable
    if not isinstance(executable, PartitionedExecutable):
        return []
    return [loaded.part.device.name for loaded in executable.parts]


@pytest.fixture(autouse=True)
def usual_rates(monkeypatch):
    """Rates as they might be: to measure them takes seconds."""
    rates = Rates(flops=1e11, levels=(MemoryLevel(1 << 30, 1e10),), run_seconds=1e-5)
    slow = replace(rates, flops=1e8)
    monkeypatch.setattr(
        partitioning, "rates_of", lambda device, _: slow if device.name == "interpreter" else rates
    )


def test_nodes_are_computed_where_a_user_places_them(expected):
    config = ag.PartitionConfig(placement={"layer0*": "cpu:1", "layer2*": "cpu:1", "*": "cpu:0"})
    model = ag.compile(network(), backend=[FIRST, SECOND], partition=config, cache=False)
    assert devices_of(model) == ["cpu:1", "cpu:0", "cpu:1", "cpu:0"]
    np.testing.assert_allclose(model(X), expected, rtol=1e-5, atol=1e-6)


def test_an_input_may_be_returned_as_it_is(expected):
    module = network()
    module.main.output("same", module.main.inputs[0])
    config = ag.PartitionConfig(placement={"layer0*": "cpu:1", "*": "cpu:0"})
    y, same = ag.compile(module, backend=[FIRST, SECOND], partition=config, cache=False)(X)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    assert np.array_equal(same, X)


def test_a_model_that_one_device_runs_fastest_is_in_one_piece(expected):
    model = ag.compile(network(), backend=["cpu", "interpreter"], cache=False)
    assert devices_of(model) == []
    assert model.compiled.artifact.device == "cpu"
    np.testing.assert_allclose(model(X), expected, rtol=1e-5, atol=1e-6)


def test_a_model_larger_than_each_device_runs_over_three():
    memory = 2 * 4 * WIDTH * WIDTH + 12_000  # for two of five layers
    devices = [ag.LogicalDevice(f"cpu:{n}", threads=1, memory=memory) for n in range(3)]
    model = ag.compile(network(5), backend=devices, cache=False)
    assert len({*devices_of(model)}) == 3
    assert all(part.nbytes <= memory for part in model.compiled.executable.parts)
    expected = ag.compile(network(5), cache=False)(X)
    np.testing.assert_allclose(model(X), expected, rtol=1e-5, atol=1e-6)


def test_devices_that_are_too_small_are_told(expected):
    device = ag.LogicalDevice("cpu:0", memory="1KiB")
    with pytest.raises(MemoryLimitError, match="no placement was found that fits"):
        ag.compile(network(), backend=[device], cache=False)


def test_a_partitioned_model_is_one_file(tmp_path, expected):
    config = ag.PartitionConfig(placement={"layer1*": "cpu:1", "*": "cpu:0"})
    model = ag.compile(network(), backend=[FIRST, SECOND], partition=config, cache=False)
    model.save(tmp_path / "model.agc")
    loaded = ag.load(tmp_path / "model.agc")
    assert devices_of(loaded) == devices_of(model) == ["cpu:0", "cpu:1", "cpu:0"]
    assert np.array_equal(loaded(X), model(X))


def test_each_device_gets_some_items_of_a_batch(expected):
    config = ag.PartitionConfig(split_batch=True)
    model = ag.compile(network(), backend=[FIRST, SECOND], partition=config, cache=False)
    assert devices_of(model) == ["cpu:0", "cpu:1"]
    assert [p.part.inputs for p in model.compiled.executable.parts] == [("x[0:4]",), ("x[4:8]",)]
    np.testing.assert_allclose(model(X), expected, rtol=1e-5, atol=1e-6)


def test_tasks_are_measured_where_there_is_time_for_it(expected, monkeypatch):
    measured = []

    def measure(backend, program, options, seconds):
        measured.append((backend.name, seconds))
        return [1e-6 if options.threads == 1 else 2e-6]

    monkeypatch.setattr(partitioning, "measure_steps", measure)
    devices = [ag.LogicalDevice("cpu:0", threads=2), SECOND]
    model = ag.compile(network(), backend=devices, tune=0.2, cache=False)
    assert measured == [("cpu", 0.002)] * 2  # equal layers once
    assert model.compiled.executable.threads == 1
    np.testing.assert_allclose(model(X), expected, rtol=1e-5, atol=1e-6)


def test_what_is_where_is_told_as_text():
    config = ag.PartitionConfig(placement={"layer1*": "cpu:1", "*": "cpu:0"})
    model = ag.compile(network(), backend=[FIRST, SECOND], partition=config, cache=False)
    plan = parse_plan(model.ir("partitions"))
    assert [task.device for task in plan.tasks] == ["cpu:0", "cpu:1", "cpu:0", "cpu:0"]
    with pytest.raises(UsageError, match="no stage 'llvm' of a model on several devices"):
        model.ir("llvm")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backend": "cpu", "partition": ag.PartitionConfig()}, "on 'cpu' alone is not partition"),
        ({"backend": ["cpu", "gpu"]}, "backend 'gpu'"),
        ({"backend": ["cpu", "cpu"]}, "two devices are named 'cpu'"),
        ({"backend": [FIRST, SECOND], "tune": -1}, "cannot tune for -1 s"),
        ({"backend": [FIRST, SECOND], "partition": {}}, r"must be a PartitionConfig, got \{\}"),
        ({"backend": 3}, "backend must be a name or a list of devices, got 3"),
        ({"backend": [FIRST, SECOND], "target": "cortex-m4"}, "cannot be that of several"),
        (
            {"backend": [FIRST], "partition": ag.PartitionConfig(placement={"conv9": "cpu:0"})},
            "conv9",
        ),
        (
            {"backend": [FIRST], "partition": ag.PartitionConfig(placement={"*": "tpu"})},
            "is placed on 'tpu', which is not among the devices",
        ),
    ],
)
def test_wrong_uses_are_told(arguments, message):
    with pytest.raises(UsageError, match=message):
        ag.compile(network(), **arguments, cache=False)


def test_weights_come_from_where_those_of_the_whole_model_fit(monkeypatch):
    seen = set()

    def estimated(program, rates, working_set, real=partitioning.estimate_steps):
        seen.add(working_set)
        return real(program, rates, working_set)

    monkeypatch.setattr(partitioning, "estimate_steps", estimated)
    ag.compile(network(3), backend=[FIRST, SECOND], cache=False)
    assert seen == {3 * WIDTH * WIDTH * 4}
