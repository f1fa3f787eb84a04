"""Normalizations where versions of ONNX differ."""

from __future__ import annotations

import numpy as np

from afterglow.testing.cases.case import f16, f32, f64
from tests.frontends.onnx.one_node import Form, check, each_form, form, giving

X = f32(2, 3, 4, 5)
FOUR = (f32(3), f32(3), f32(3), f32(3))
POSITIVE = {"low": 0.1, "tolerance": 1e-5}


def normalized(x: np.ndarray, *rest: np.ndarray) -> np.ndarray:
    """As batch normalization, for parameters that broadcast."""
    scale, bias, mean, variance = rest
    return (x - mean) / np.sqrt(variance + np.float32(1e-5)) * scale + bias


def by_channel(x: np.ndarray, *rest: np.ndarray) -> np.ndarray:
    return normalized(x, *(each[:, None, None] for each in rest))


@each_form(
    form("BatchNormalization", (7, 9, 14, 15), X, *FOUR, **POSITIVE),
    form("BatchNormalization", (7, 9, 14), X, *FOUR, **POSITIVE, epsilon=0.1),
    form("BatchNormalization", (9, 15), f32(4, 3), *FOUR, **POSITIVE),
    form("BatchNormalization", 15, f32(2, 3, 4), *FOUR, **POSITIVE),
    form("BatchNormalization", 15, f64(2, 3, 4), *[f64(3)] * 4, **POSITIVE),
    giving(by_channel, form("BatchNormalization", 6, X, *FOUR, **POSITIVE, is_test=1)),
    giving(
        by_channel,
        form("BatchNormalization", 1, X, *FOUR, **POSITIVE, is_test=1, consumed_inputs=[0] * 5),
    ),
)
def test_batch_normalization_by_given_statistics(form: Form) -> None:
    check(form)


@each_form(
    giving(
        normalized,
        form("BatchNormalization", 7, X, *[f32(3, 4, 5)] * 4, **POSITIVE, spatial=0),
        form("BatchNormalization", 6, X, *[f32(3, 4, 5)] * 4, **POSITIVE, spatial=0, is_test=1),
    ),
)
def test_batch_normalization_by_statistics_of_each_element(form: Form) -> None:
    check(form)


@each_form(
    form("BatchNormalization", (14, 15), X, *FOUR, **POSITIVE, training_mode=1, outputs=3),
    form("BatchNormalization", 15, X, *FOUR, **POSITIVE, training_mode=1, momentum=0.3, outputs=3),
    form("BatchNormalization", 15, f32(4, 3), *FOUR, **POSITIVE, training_mode=1, outputs=3),
    form("BatchNormalization", 15, X, *FOUR, **POSITIVE, training_mode=1),
)
def test_batch_normalization_by_statistics_of_the_batch(form: Form) -> None:
    check(form)


@each_form(
    form("InstanceNormalization", (1, 6, 22), X, f32(3), f32(3)),
    form("InstanceNormalization", 6, f32(2, 3, 4), f32(3), f32(3), epsilon=0.1),
    form("GroupNormalization", 18, f32(2, 6, 4), f32(3), f32(3), num_groups=3),
    form("GroupNormalization", 18, X, f32(1), f32(1), num_groups=1, epsilon=0.1),
    form("GroupNormalization", 21, f32(2, 6, 4), f32(6), f32(6), num_groups=3),
    form("GroupNormalization", 21, f16(2, 4, 3, 3), f16(4), f16(4), num_groups=2),
)
def test_groups_of_channels(form: Form) -> None:
    check(form)


@each_form(
    form("LayerNormalization", 17, X, f32(5), f32(5)),
    form("LayerNormalization", 17, X, f32(4, 5), f32(4, 5), axis=2, epsilon=0.1),
    form("LayerNormalization", 17, X, f32(5)),
    form("LayerNormalization", 17, X, f32(3, 4, 5), axis=-3, outputs=3),
    form("LayerNormalization", 17, X, f32(5), f32(5), outputs=(True, False, True)),
    form("LayerNormalization", 17, f64(2, 3), f64(3), f64(3)),
    form("LayerNormalization", 17, f16(2, 3), f16(3), f16(3)),
    form("RMSNormalization", 23, X, f32(5)),
    form("RMSNormalization", 23, X, f32(4, 5), axis=-2, epsilon=0.1),
)
def test_layers(form: Form) -> None:
    check(form)


def by_four_channels(x: np.ndarray) -> np.ndarray:
    """Of an even number of channels, one more lies behind than before."""
    squares = np.pad(x * x, [(0, 0), (1, 2), (0, 0), (0, 0)])
    total = sum(squares[:, i : i + x.shape[1]] for i in range(4))
    return x / (1 + np.float32(1e-4 / 4) * total) ** np.float32(0.75)


@each_form(
    *(form("LRN", (1, 13), f32(2, 6, 3, 3), size=size) for size in (1, 3, 5)),
    giving(by_four_channels, form("LRN", (1, 13), f32(2, 6, 3, 3), size=4)),
    form("LRN", 13, f32(2, 6, 3, 3), size=3, alpha=0.3, beta=0.6, bias=1.5),
    *(form("LpNormalization", (1, 22), f32(2, 3, 4), axis=1, p=p) for p in (1, 2)),
    form("LpNormalization", 1, f32(2, 3, 4)),
    form("LpNormalization", 22, np.zeros((2, 3), np.float32)),
    form("MeanVarianceNormalization", (9, 13), X, tolerance=1e-4),
    form("MeanVarianceNormalization", 13, X, axes=[1, 2], tolerance=1e-4),
)
def test_other_lengths(form: Form) -> None:
    check(form)
