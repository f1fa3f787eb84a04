"""A model with a layer that integers break, its samples, and its profile."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx

import afterglow
from afterglow.quantization.profile import Profile
from afterglow.report.quality import QuantizationQuality, quantization_quality
from afterglow.types import Array
from tests.frontends.models import info, model, node

WIDTH = 16
SAMPLES = [
    np.random.default_rng(place).standard_normal((4, WIDTH)).astype(np.float32)
    for place in range(10)
]


def network(rows: int | str = 4, seed: int = 7) -> onnx.ModelProto:
    """Three products, of which the second reads a channel with huge numbers that do nothing.

    The function before it cannot be scaled, so that channels cannot be made alike.
    """
    random = np.random.default_rng(seed)

    def weights(*shape: int) -> Array:
        return (random.standard_normal(shape) / 4).astype(np.float32)

    shift, second = weights(WIDTH), weights(WIDTH, WIDTH)
    shift[0], second[0] = 60, 0
    nodes = [
        node("MatMul", ["x", "a"], ["p"], name="first"),
        node("Add", ["p", "b"], ["s"], name="shift"),
        node("Elu", ["s"], ["r"], name="rectify"),
        node("MatMul", ["r", "c"], ["q"], name="second"),
        node("Relu", ["q"], ["t"], name="again"),
        node("MatMul", ["t", "d"], ["y"], name="third"),
    ]
    constants = {"a": weights(WIDTH, WIDTH), "b": shift, "c": second, "d": weights(WIDTH, 8)}
    inputs, outputs = [info("x", (rows, WIDTH))], [info("y", (rows, 8))]
    return model(nodes, inputs=inputs, outputs=outputs, constants=constants)


NETWORK = network()


def broken_weights() -> QuantizationQuality:
    """Of a model whose second product has a huge weight in each column, for what is nearly 0."""
    random = np.random.default_rng(7)
    nodes = [
        node("MatMul", ["x", "a"], ["p"], name="first"),
        node("Elu", ["p"], ["r"], name="rectify"),
        node("MatMul", ["r", "b"], ["q"], name="second"),
        node("Relu", ["q"], ["t"], name="again"),
        node("MatMul", ["t", "d"], ["y"], name="third"),
    ]
    constants = {
        name: (random.standard_normal((WIDTH, WIDTH)) / 4).astype(np.float32) for name in "abd"
    }
    constants["a"][:, 0] *= 1e-4
    constants["b"][0] = 40
    inputs, outputs = [info("x", (4, WIDTH))], [info("y", (4, WIDTH))]
    made = model(nodes, inputs=inputs, outputs=outputs, constants=constants)
    found = afterglow.profile(made, SAMPLES, backend="interpreter")
    return quantization_quality(made, found, SAMPLES, backend="interpreter", cache=False)


@cache
def profile() -> Profile:
    return afterglow.profile(NETWORK, SAMPLES, backend="interpreter")


def quality(backend: str = "interpreter") -> QuantizationQuality:
    return quantization_quality(NETWORK, profile(), SAMPLES, backend=backend, cache=False)
