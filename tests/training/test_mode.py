"""Training mode: batch norms and dropouts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import afterglow as ag
from afterglow import nn
from afterglow.autodiff import gradients
from afterglow.graph import Builder, Function, Value, verify_module
from afterglow.graph.evaluate import run_function
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.reduction import ReduceSum
from afterglow.training.mode import to_training_mode
from afterglow.types import Array, TensorType
from afterglow.types.dtype import i64

SHAPE = (4, 3, 5, 2)


@dataclass(frozen=True)
class Learning:
    """A network of one input in training mode, whose outputs are y and gradients of sum(y g)."""

    function: Function
    states: dict[str, Array]

    @staticmethod
    def of(net: nn.Layer, shape: tuple[int, ...] = SHAPE, **options: object) -> Learning:
        module = net.module({"x": shape})
        values = {name: c.data.copy() for name, c in module.constants.items()}
        main = module.main
        step = module.state("step", TensorType(i64, ()))
        found = to_training_mode(main, step, **options)  # type: ignore[arg-type]
        states = {parameter.name: values[parameter.name] for parameter in found}
        assert not any(parameter.trains for parameter in found)
        g = main.input("g", main.outputs[0].value.type)
        b = Builder(main)
        y = main.outputs[0].value
        loss = b.emit(ReduceSum(tuple(range(y.type.rank)), False), b.emit(Mul(), y, g))
        (slope,) = gradients(b, [loss], [main.inputs[0]])
        assert slope is not None
        main.output("slope", slope)
        main.output("loss", loss)
        return Learning(main, {**states, "step": np.array(0)})

    def run(self, x: Array, g: Array) -> tuple[Array, ...]:
        return run_function(self.function, [x, g], self.states)


@pytest.fixture
def batch() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    x, g = (rng.standard_normal(SHAPE) for _ in range(2))
    return (2 * x + 1).astype(np.float32), g.astype(np.float32)


def normalized(x: Array) -> Array:
    centred = x - x.mean((0, 2, 3), keepdims=True)
    return np.asarray(centred / np.sqrt(centred.var((0, 2, 3), keepdims=True) + 1e-5))


def test_a_batch_norm_uses_the_statistics_of_the_batch(batch: tuple[Array, Array]) -> None:
    y, *_ = Learning.of(nn.BatchNorm(3)).run(*batch)
    np.testing.assert_allclose(y, normalized(batch[0].astype(np.float64)), atol=1e-5)


def test_the_gradient_of_a_batch_norm_goes_through_its_statistics(
    batch: tuple[Array, Array],
) -> None:
    """Against PyTorch's formula: (g - mean(g) - z mean(g z)) / deviation."""
    x, g = (part.astype(np.float64) for part in batch)
    _, slope, _ = Learning.of(nn.BatchNorm(3)).run(*batch)
    axes, z = (0, 2, 3), normalized(x)
    means = g.mean(axes, keepdims=True), (g * z).mean(axes, keepdims=True)
    deviation = np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    np.testing.assert_allclose(slope, (g - means[0] - z * means[1]) / deviation, atol=1e-5)


def test_running_statistics_follow_with_the_unbiased_variance(batch: tuple[Array, Array]) -> None:
    learning = Learning.of(nn.BatchNorm(3, momentum=0.3))
    x = batch[0].astype(np.float64)
    mean, variance = np.zeros(3), np.ones(3)
    for _ in range(2):
        learning.run(*batch)
        mean = 0.7 * mean + 0.3 * x.mean((0, 2, 3))
        variance = 0.7 * variance + 0.3 * x.var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(learning.states["running_mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(learning.states["running_var"], variance, rtol=1e-5)


def test_statistics_that_two_norms_share_are_updated_by_both() -> None:
    module = ag.Module()
    f = ag.Function("main", module)
    x = f.input("x", TensorType.of(np.ones((2, 1), np.float32)))
    scope = nn.Scope(Builder(f), 0)
    first = nn.BatchNorm(1).build(scope, x)
    norm = first.producer
    assert norm is not None
    f.output("y", Builder(f).emit(norm.op, first, *norm.operands[1:]))
    to_training_mode(f, module.state("step", TensorType(i64, ())))
    states = {"running_mean": np.zeros(1, np.float32), "running_var": np.ones(1, np.float32)}
    run_function(f, [np.array([[1.0], [3.0]], np.float32)], states)
    assert states["running_mean"] == pytest.approx([0.9 * 0.1 * 2.0])  # the second mean is 0
    assert states["running_var"] == pytest.approx([0.9 * (0.9 + 0.1 * 2) + 0.1 * 2], rel=1e-4)


def test_frozen_batch_norms_go_on_as_in_inference(batch: tuple[Array, Array]) -> None:
    net = nn.Sequential(nn.BatchNorm(3), nn.BatchNorm(3))
    learning = Learning.of(net, frozen=("0.*",))
    assert sorted(learning.states) == ["1.running_mean", "1.running_var", "step"]
    (y, *_), other = learning.run(*batch), Learning.of(nn.BatchNorm(3))
    np.testing.assert_allclose(y, other.run(*batch)[0], atol=2e-5)
    with pytest.raises(ag.UsageError, match=r"no running mean of a batch norm matches 'one\.\*'"):
        Learning.of(net, frozen=("one.*",))


def test_a_batch_of_one_value_per_channel_is_refused() -> None:
    with pytest.raises(ag.UsageError) as raised:
        Learning.of(nn.BatchNorm(3), (1, 3))
    assert str(raised.value) == (
        "error: batch norm %batch_norm has one value per channel, whose variance is 0\n"
        "  help: train with a larger batch, or freeze the running statistics"
    )


def test_dropout_keeps_the_mean_and_the_share_that_it_should() -> None:
    x = np.full((100, 200), 3.0, np.float32)
    learning = Learning.of(nn.Dropout(0.3), x.shape)
    y, slope, _ = learning.run(x, np.ones_like(x))
    assert set(np.unique(y)) == {np.float32(0), np.float32(3) * np.float32(1 / 0.7)}
    assert (y == 0).mean() == pytest.approx(0.3, abs=0.01)
    assert y.mean() == pytest.approx(3.0, abs=0.05)
    np.testing.assert_allclose(slope, y / 3, rtol=1e-6)


def test_every_dropout_and_every_step_drops_other_elements() -> None:
    def both(scope: nn.Scope, x: Value) -> Value:
        return scope.emit(Mul(), *(scope.layer(name, nn.Dropout(), x) for name in "ab"))

    x = np.ones((32, 32), np.float32)
    masks = []
    for step in (0, 1, 0):
        learning = Learning.of(nn.Sequential(both), x.shape)
        learning.states["step"][...] = step
        masks.append(learning.run(x, x)[0])
    assert (masks[0] == masks[2]).all()
    assert (masks[0] != masks[1]).mean() == pytest.approx(0.375, abs=0.1)
    assert (masks[0] > 0).mean() == pytest.approx(0.25, abs=0.06)


def test_the_number_of_the_step_may_be_computed() -> None:
    x = np.ones((8, 8), np.float32)
    module = nn.Sequential(nn.Dropout(), nn.Dropout(0.1)).module({"x": x.shape})
    part = module.main.input("part", TensorType(i64, ()))
    b = Builder(module.main, next(module.main.nodes))
    to_training_mode(module.main, b.emit(Add(), part, part))
    verify_module(module)
    counted = Learning.of(nn.Sequential(nn.Dropout(), nn.Dropout(0.1)), x.shape)
    counted.states["step"][...] = 6
    (y,) = run_function(module.main, [x, np.array(3)])
    np.testing.assert_array_equal(y, counted.run(x, x)[0])


def test_a_dropout_of_rate_0_is_nothing() -> None:
    learning = Learning.of(nn.Sequential(nn.ReLU(), nn.Dropout(0.0)), (2, 2))
    assert "random_uniform" not in ag.print_module(learning.function.module)


def test_another_seed_drops_other_elements() -> None:
    x = np.ones((8, 8), np.float32)
    first, other = (Learning.of(nn.Dropout(), x.shape, seed=seed).run(x, x)[0] for seed in (0, 1))
    assert (first != other).any()


def test_masks_are_the_same_for_the_interpreter_and_for_any_number_of_threads() -> None:
    x = np.ones((64, 96), np.float32)
    module = nn.Dropout(0.4).module({"x": x.shape})
    to_training_mode(module.main, module.state("step", TensorType(i64, ())))
    (wanted,) = run_function(module.main, [x], {"step": np.array(0)})
    for options in ({"threads": 1}, {"threads": 2}, {"backend": "interpreter"}):
        model = ag.compile(module, cache=False, **options)  # type: ignore[arg-type]
        np.testing.assert_array_equal(model(x), wanted)
