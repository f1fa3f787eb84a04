"""What layers cost in integers, and which are kept in floats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import afterglow
from afterglow.quantization.metrics import Outputs
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


def test_it_is_kept_in_floats_and_the_profile_has_it(tmp_path: Path) -> None:
    made = quality()
    found = made.keep_within(0.001)
    assert (found.keep, found.layers) == (("second",), 3)
    assert found.loss <= 0.001 < found.loss_before
    assert made.profile.keep == ("second",)
    assert [layer.node for layer in made.report().layers] != []
    assert "second" not in [layer.node for layer in made.report().layers]
    made.profile.save(tmp_path / "p.json")
    text = afterglow.compile(
        NETWORK, precision="int8", profile=tmp_path / "p.json", backend="interpreter"
    ).ir("graph")
    assert text.count("= quantized_matmul(") == 2
    assert text.count("= matmul(") == 1


def test_nothing_is_kept_where_the_loss_is_small_enough() -> None:
    found = quality().keep_within(0.9, "top1")
    assert found.keep == ()
    assert found.loss == found.loss_before


def test_a_metric_may_be_a_function() -> None:
    seen = []

    def loss(expected: Outputs, found: Outputs) -> float:
        seen.append((len(expected), len(found), len(found[0])))
        pairs = zip(expected, found, strict=True)
        return max(float(np.abs(a[0] - b[0]).max()) for a, b in pairs)

    found = quality().keep_within(0.05, loss)
    assert found.keep == ("second",)
    assert {*seen} == {(10, 10, 1)}


def test_a_tolerance_that_cannot_be_met_says_what_was_reached() -> None:
    made = quality()
    with pytest.raises(UsageError) as caught:
        made.keep_within(1e-9, most=1)
    error = caught.value
    assert error.what == "the tolerance 1e-09 cannot be met with 1 of 3 layers in floats"
    assert error.excerpt[0].startswith("0.")
    assert error.excerpt[0].endswith(" with second")
    assert made.profile.keep == ()
    with pytest.raises(UsageError, match="the tolerance must be at least 0, got -1"):
        made.keep_within(-1)


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


def test_a_metric_that_noise_does_not_tell_has_a_ranking_of_its_own() -> None:
    """Only the first layer decides the loss, whatever noise the others make."""
    made = quality()
    layers = {layer.origin: layer.name for layer in made.measurement.layers.values()}
    exact = made.measurement.simulated([layers["second"], layers["third"]])

    def loss(expected: Outputs, found: Outputs) -> float:
        pairs = zip(exact, found, strict=True)
        return sum(float(np.abs(one[0] - other[0]).max()) for one, other in pairs)

    found = made.keep_within(1e-4, loss, most=1)
    assert found.keep == ("first",)
    assert found.loss_before > 1e-3
