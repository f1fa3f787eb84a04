"""A quantized model computes the same integers on every machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import onnx
import pytest
from _pytest.mark import ParameterSet

import afterglow as ag
from afterglow.backends.cpu.target import Target
from afterglow.types import Array
from tests.emulation.make import skip_without_emulator
from tests.emulation.models import DIGITS, Weights, _model
from tests.frontends.models import node
from tests.quantization.same_bits import Quantized

HOSTED = ("host", "x86-64-v4", "x86-64-v3", "x86-64-v2")
EMULATED = ("aarch64", "aarch64-dotprod", "cortex-m4", "wasm32")


def network() -> onnx.ModelProto:
    """What networks for images are made of, without functions that machines round differently."""
    w, pads = Weights(), {"pads": [1, 1, 1, 1]}
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], **pads}
    nodes = [
        node("Conv", ["x", w.add("w1", 12, 3, 3, 3), w.add("b1", 12)], ["c1"], **pads),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", w.add("w2", 12, 1, 3, 3), w.add("b2", 12)], ["c2"], group=12, **pads),
        node("HardSwish", ["c2"], ["r2"]),
        node("Conv", ["r2", w.add("w3", 12, 12, 1, 1), w.add("b3", 12)], ["c3"]),
        node("Add", ["c3", "r1"], ["sum"]),
        node("AveragePool", ["sum"], ["average"], **pool),
        node("MaxPool", ["sum"], ["largest"], **pool),
        node("Conv", ["largest", w.add("w4", 10, 12, 1, 1)], ["c4"]),
        node("LeakyRelu", ["c4"], ["l4"]),
        node("Concat", ["average", "l4"], ["both"], axis=1),
        node("Conv", ["both", w.add("w5", 16, 22, 3, 3), w.add("b5", 16)], ["c5"], **pads),
        node("GlobalAveragePool", ["c5"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", w.add("w6", 16, 10), w.add("b6", 10)], ["y"]),
    ]
    return _model(nodes, w, (1, 3, 20, 18), (1, 10))


def functions() -> onnx.ModelProto:
    """The same with functions of all kinds, channels that are weighted, and a part per window."""
    w, pads = Weights(), {"pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", ["x", w.add("w1", 12, 3, 3, 3), w.add("b1", 12)], ["c1"], **pads),
        node("Sigmoid", ["c1"], ["s1"]),
        node("Mul", ["c1", "s1"], ["r1"]),
        node("GlobalAveragePool", ["r1"], ["g1"]),
        node("Conv", ["g1", w.add("w2", 12, 12, 1, 1), w.add("b2", 12)], ["c2"]),
        node("Sigmoid", ["c2"], ["s2"]),
        node("Mul", ["r1", "s2"], ["weighted"]),
        node("Conv", ["weighted", w.add("w3", 12, 12, 1, 1), w.add("b3", 12)], ["c3"]),
        node("Add", ["c3", "r1"], ["sum"]),
        node("AveragePool", ["sum"], ["a"], kernel_shape=[3, 3], strides=[2, 2], **pads),
        node("Conv", ["a", w.add("w4", 16, 12, 3, 3), w.add("b4", 16)], ["c4"], **pads),
        node("Tanh", ["c4"], ["t4"]),
        node("GlobalAveragePool", ["t4"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", w.add("w6", 16, 10), w.add("b6", 10)], ["y"]),
    ]
    return _model(nodes, w, (1, 3, 20, 18), (1, 10))


def transformer() -> onnx.ModelProto:
    """A block of one: layer norms, attention, GELU, places that are added, and softmax."""
    w, width, heads, tokens = Weights(), 16, 2, 5
    nodes = [
        node("MatMul", ["x", w.add("we", 12, width)], ["embedded"]),
        node("Add", ["embedded", w.add("places", 1, tokens, width)], ["x0"]),
        *_norm(w, "x0", "n1", width),
    ]
    apart = w.put("apart", [1, tokens, heads, width // heads], "int64")
    for part, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        weight, bias = w.add(f"w{part}", width, width), w.add(f"b{part}", width)
        nodes += [
            node("MatMul", ["n1", weight], [f"{part}0"]),
            node("Add", [f"{part}0", bias], [f"{part}1"]),
            node("Reshape", [f"{part}1", apart], [f"{part}2"]),
            node("Transpose", [f"{part}2"], [part], perm=perm),
        ]
    nodes += [
        node("MatMul", ["q", "k"], ["scores"]),
        node("Mul", ["scores", w.put("scale", 0.35, "f4")], ["scaled"]),
        node("Softmax", ["scaled"], ["weights"], axis=-1),
        node("MatMul", ["weights", "v"], ["mixed"]),
        node("Transpose", ["mixed"], ["together"], perm=[0, 2, 1, 3]),
        node("Reshape", ["together", w.put("flat", [1, tokens, width], "int64")], ["heads"]),
        node("MatMul", ["heads", w.add("wo", width, width)], ["out0"]),
        node("Add", ["out0", w.add("bo", width)], ["out"]),
        node("Add", ["x0", "out"], ["x1"]),
        *_norm(w, "x1", "n2", width),
        node("MatMul", ["n2", w.add("w1", width, 24)], ["up0"]),
        node("Add", ["up0", w.add("b1", 24)], ["up"]),
        node("Gelu", ["up"], ["gelu"]),
        node("MatMul", ["gelu", w.add("w2", 24, width)], ["down"]),
        node("Add", ["x1", "down"], ["x2"]),
        node("Softmax", ["x2"], ["shares"], axis=-1),
        node("MatMul", ["shares", w.add("wy", width, 4)], ["y"]),
    ]
    return _model(nodes, w, (1, tokens, 12), (1, tokens, 4), opset=20)


def _norm(w: Weights, x: str, name: str, width: int) -> list[onnx.NodeProto]:
    parameters = w.add(f"{name}.scale", width), w.add(f"{name}.bias", width)
    return [node("LayerNormalization", [x, *parameters], [name], axis=-1)]


@cache
def cnn_of_16_bits() -> Quantized:
    return Quantized.of(network(), samples(), activations="int16")


@cache
def functions_of_16_bits() -> Quantized:
    return Quantized.of(functions(), samples(), activations="int16", integer_only=True)


@cache
def transformer_alone() -> Quantized:
    random = np.random.default_rng(6)
    rows = random.standard_normal((6, 1, 5, 12)).astype(np.float32)
    quantized = Quantized.of(transformer(), list(rows), integer_only=True)
    return replace(quantized, bytes_only=True)


@cache
def integers_alone() -> Quantized:
    return Quantized.of(functions(), samples(), integer_only=True)


@cache
def digits() -> Quantized:
    images = np.load(DIGITS.with_name("test_images.npz"))["images"]
    return Quantized.of(DIGITS, list(images[:8].reshape(8, 1, 1, 8, 8).astype(np.float32)))


@cache
def cnn() -> Quantized:
    return Quantized.of(network(), samples())


def samples() -> list[Array]:
    random = np.random.default_rng(5)
    return list(random.standard_normal((4, 1, 3, 20, 18)).astype(np.float32))


MODELS = {
    "digits": digits,
    "cnn": cnn,
    "integers-alone": integers_alone,
    "transformer-alone": transformer_alone,
    "cnn-16": cnn_of_16_bits,
    "functions-16": functions_of_16_bits,
}
FAST_TARGETS = {
    "transformer-alone": ("x86-64-v3",),
    "cnn-16": ("x86-64-v2",),
    "functions-16": (),
}
"""Targets on which a model is not slow to test; all, unless it is said."""


@cache
def expected(model: str) -> Mapping[str, Array]:
    """What the interpreter computes."""
    found = MODELS[model]().bits_of("host", "interpreter")
    assert len(found) > 4
    return found


def models_on(targets: tuple[str, ...]) -> list[ParameterSet]:
    """Every model on every target; those that are slow are marked."""
    return [
        pytest.param(target, model, marks=[pytest.mark.slow] if is_slow(target, model) else [])
        for target in targets
        for model in MODELS
    ]


def is_slow(target: str, model: str) -> bool:
    return target not in FAST_TARGETS.get(model, (target,))


def assert_same(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    assert list(found) == list(wanted)
    different = [name for name in wanted if not np.array_equal(found[name], wanted[name])]
    assert different == []


@pytest.mark.parametrize(("target", "model"), models_on(HOSTED))
def test_this_machine_computes_the_integers_of_the_interpreter(target: str, model: str) -> None:
    missing = Target.of(target).missing_here()
    if missing:
        pytest.skip(f"this machine has no {', '.join(missing)}")
    assert_same(MODELS[model]().bits_of(target), expected(model))


@pytest.mark.parametrize(("target", "model"), models_on(EMULATED))
def test_emulated_machines_compute_the_integers_of_the_interpreter(target: str, model: str) -> None:
    skip_without_emulator(target)
    assert_same(MODELS[model]().emulated_bits_of(target), expected(model))


@pytest.mark.parametrize("model", [integers_alone, transformer_alone])
def test_integers_alone_have_no_floats_between_them(model: Callable[[], Quantized]) -> None:
    _, module = model().module_for("host", "cpu")
    floats = [n for n in module.main.nodes if n.results[0].type.dtype.is_float]
    assert [node.op.mnemonic for node in floats] == ["quantized_matmul"]  # the output


@pytest.mark.parametrize("model", [integers_alone, transformer_alone])
def test_integers_alone_are_about_as_exact(model: Callable[[], Quantized]) -> None:
    quantized = model()
    wanted = ag.compile(quantized.source, backend="interpreter")(quantized.x)
    found = ag.compile(
        quantized.source,
        backend="interpreter",
        precision="int8",
        profile=quantized.profile,
        quantization=quantized.config,
    )(quantized.x)
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()
    assert (found * wanted).sum() > 0.999 * np.sqrt((found**2).sum() * (wanted**2).sum())
