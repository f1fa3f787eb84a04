"""What layers cost in integers, and which are kept in floats."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow
from afterglow.report.quality import quantization_quality
from afterglow.support.errors import UsageError
from tests.frontends.models import info, model, node
from tests.quantization.broken_layer import NETWORK, SAMPLES, network, profile, quality


def test_the_layer_that_breaks_a_model_comes_first() -> None:
    costs = quality().measurement.costs()
    assert costs[0].layer.origin == "second"
    assert costs[0].output > 30 * costs[1].output
    assert costs[0].alone > 30 * costs[1].alone
    by_name = {cost.layer.origin: cost for cost in costs}
    assert by_name["first"].accumulated < 1e-4 < 1e-3 < by_name["third"].accumulated


def test_dynamic_dimensions_are_measured_as_samples_bring_them() -> None:
    made = network("n")
    samples = [np.repeat(x, 1 + place % 2, axis=0) for place, x in enumerate(SAMPLES[:4])]
    found = afterglow.profile(made, [{"x": x} for x in samples], backend="interpreter")
    measured = quantization_quality(made, found, [{"x": x} for x in samples], backend="interpreter")
    assert measured.measurement.costs()[0].layer.origin == "second"


def test_there_must_be_samples_of_the_same_model() -> None:
    with pytest.raises(UsageError, match="there are no samples"):
        quantization_quality(NETWORK, profile(), [], backend="interpreter")
    with pytest.raises(UsageError, match="the profile is of another model"):
        quantization_quality(network(seed=8), profile(), SAMPLES, backend="interpreter")
    with pytest.raises(UsageError, match="does not take an array of shape"):
        quantization_quality(
            NETWORK, profile(), [SAMPLES[0][:, :3]], backend="interpreter"
        ).report()


def test_values_whose_channels_were_scaled_have_a_histogram_again() -> None:
    random = np.random.default_rng(3)
    first, second = (random.standard_normal((8, 8)).astype(np.float32) for _ in range(2))
    nodes = [
        node("MatMul", ["x", "a"], ["p"], name="first"),
        node("Relu", ["p"], ["r"], name="rectify"),
        node("MatMul", ["r", "b"], ["y"], name="second"),
    ]
    constants = {"a": first * 4.0 ** np.arange(8, dtype=np.float32), "b": second}
    made = model(
        nodes, inputs=[info("x", (4, 8))], outputs=[info("y", (4, 8))], constants=constants
    )
    samples = [random.standard_normal((4, 8)).astype(np.float32) for _ in range(3)]
    found = afterglow.profile(made, samples, backend="interpreter")
    config = afterglow.QuantizationConfig(equalise=True)
    measured = quantization_quality(
        made, found, samples, quantization=config, backend="interpreter"
    )
    layers = measured.report().layers
    scaled = next(layer for layer in layers if layer.node == "second")
    assert scaled.high < found.observations["r"].high / 4
    assert sum(scaled.histogram) > 0
    assert 30 < scaled.storing_snr < 60
