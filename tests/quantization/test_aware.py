"""Quantization-aware training: what is learnt is what integers compute."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow import nn
from afterglow.autodiff import gradients
from afterglow.graph import Builder, Function, run_function
from afterglow.ops.fake_quantize import FakeQuantize
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32, i8


def data() -> tuple[Array, Array]:
    """Images, and whether they are bright."""
    x = np.random.default_rng(0).standard_normal((64, 1, 6, 6), np.float32)
    return x, (x.mean((1, 2, 3)) > 0).astype(np.int64)


@pytest.fixture(scope="module")
def network() -> ag.Module:
    layers = (nn.Conv2d(1, 4, 3), nn.BatchNorm(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    return nn.Sequential(*layers).module({"x": (16, 1, 6, 6)})


@pytest.fixture(scope="module")
def profile(network: ag.Module) -> ag.Profile:
    x, _ = data()
    return ag.profile(network, [{"x": x[i : i + 16]} for i in range(0, 64, 16)])


@pytest.fixture(scope="module")
def trained(network: ag.Module, profile: ag.Profile) -> tuple[ag.Trainer, list[float]]:
    aware = ag.quantization_aware(network, profile)
    trainer = ag.Trainer(aware, "cross_entropy", ag.optim.Adam(lr=1e-2), threads=1)
    x, y = data()
    losses = [trainer.step(x[i : i + 16], y[i : i + 16]) for _ in range(6) for i in (0, 16, 32, 48)]
    return trainer, losses


def test_weights_and_ranges_learn(trained: tuple[ag.Trainer, list[float]]) -> None:
    trainer, losses = trained
    assert losses[-1] < 0.8 * losses[0]
    before = trainer.module().constants["x.scale"].data
    assert before.shape == (1,)
    assert "2.relu.scale" in trainer.parameters


def test_the_trained_model_computes_in_integers_what_was_learnt(
    trained: tuple[ag.Trainer, list[float]],
) -> None:
    trainer, _ = trained
    model = trainer.compile()
    text = model.ir("graph")
    assert text.count("quantized_conv(") == text.count("quantized_matmul(") == 1
    assert "fake_quantize" not in text
    x, _ = data()
    assert np.abs(model(x[:16]) - trainer.predict(x[:16])).max() < 1e-5


def test_ranges_can_stay_as_the_profile_has_them(network: ag.Module, profile: ag.Profile) -> None:
    aware = ag.quantization_aware(network, profile, learn_ranges=False)
    assert aware.constants["x.scale"].type.shape == ()
    assert "learns = true" not in ag.print_module(aware)


def test_what_training_cannot_simulate_is_refused(network: ag.Module, profile: ag.Profile) -> None:
    config = ag.QuantizationConfig(integer_only=True)
    with pytest.raises(ag.UsageError) as caught:
        ag.quantization_aware(network, profile, quantization=config)
    assert str(caught.value) == (
        "error: quantization-aware training does not take integer_only\n"
        "  help: train without it, and quantize the trained model with it"
    )


def test_gradients_pass_where_nothing_is_clipped() -> None:
    f = Function("main")
    x, scale = f.input("x", TensorType(f32, (4,))), f.input("scale", TensorType(f32, ()))
    b = Builder(f)
    y = b.emit(FakeQuantize(0, i8, learns=True), x, scale)
    for name, value in zip("xs", gradients(b, [y], [x, scale]), strict=True):
        assert value is not None
        f.output(name, value)
    given = np.array([0.3, -0.6, 100.0, -100.0], np.float32)
    slope, moved = run_function(f, [given, np.array(0.5, np.float32)])
    assert slope.tolist() == [1, 1, 0, 0]
    assert np.isclose(moved, (1 - 0.6) + (-1 + 1.2) + 127 - 128)


def test_a_profile_is_needed() -> None:
    with pytest.raises(ag.UsageError) as caught:
        ag.quantization_aware(ag.Module(), None)  # type: ignore[arg-type]
    assert caught.value.what == "a profile of the model is needed, got None"
