"""Which layers return to floats, or to 16 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import afterglow
from afterglow.quantization.metrics import Outputs
from afterglow.report.quality import quantization_quality
from afterglow.support.errors import UsageError
from tests.quantization.broken_layer import NETWORK, SAMPLES, broken_weights, profile, quality


def test_it_is_kept_in_floats_and_the_profile_has_it(tmp_path: Path) -> None:
    made = quality()
    found = made.keep_within(0.001, precisions=["float"])
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

    found = quality().keep_within(0.05, loss, precisions=["float"])
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


def test_a_metric_that_noise_does_not_tell_has_a_ranking_of_its_own() -> None:
    """Only the first layer decides the loss, whatever noise the others make."""
    made = quality()
    layers = {layer.origin: layer.name for layer in made.measurement.layers.values()}
    exact = made.measurement.simulated([layers["second"], layers["third"]])

    def loss(expected: Outputs, found: Outputs) -> float:
        pairs = zip(exact, found, strict=True)
        return sum(float(np.abs(one[0] - other[0]).max()) for one, other in pairs)

    found = made.keep_within(1e-4, loss, most=1, precisions=["float"])
    assert found.keep == ("first",)
    assert found.loss_before > 1e-3


def test_a_layer_whose_activations_break_it_returns_to_16_bits(tmp_path: Path) -> None:
    made = quality()
    found = made.keep_within(0.001)
    assert (found.keep, found.int16) == ((), ("second",))
    assert found.loss <= 0.001 < found.loss_before
    types = {layer.node: layer.zero_point for layer in made.report().layers}
    assert types["second"] == 0
    assert made.report().int16 == ("second",)
    made.profile.save(tmp_path / "p.json")
    loaded = afterglow.Profile.load(tmp_path / "p.json")
    assert loaded.kept == {"second": "int16"}
    text = afterglow.compile(NETWORK, precision="int8", profile=loaded, backend="interpreter").ir(
        "graph"
    )
    assert text.count("= quantized_matmul(") == 4
    assert text.count("= matmul(") == 0


def test_a_layer_whose_weights_break_it_returns_to_floats() -> None:
    made = broken_weights()
    found = made.keep_within(1e-3)
    assert (found.keep, found.int16) == (("second",), ())
    assert found.loss <= 1e-3


def test_integers_alone_return_to_16_bits_only() -> None:
    config = afterglow.QuantizationConfig(integer_only=True)
    made = quantization_quality(
        NETWORK, profile(), SAMPLES, quantization=config, backend="interpreter", cache=False
    )
    found = made.keep_within(0.001)
    assert (found.keep, found.int16) == ((), ("second",))
    with pytest.raises(UsageError, match="cannot be met with 1 of 3 layers with 16 bits"):
        made.keep_within(1e-9, most=1)
    with pytest.raises(UsageError) as caught:
        made.keep_within(0.001, precisions=["float"])
    assert caught.value.what == "there is nothing that layers may return to"
    with pytest.raises(UsageError, match="no precision 'int4'"):
        made.keep_within(0.001, precisions=["int4"])
