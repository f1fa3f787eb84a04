"""A quantized model computes the same integers on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx
import pytest

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


MODELS = {"digits": digits, "cnn": cnn, "integers-alone": integers_alone}


@cache
def expected(model: str) -> Mapping[str, Array]:
    """What the interpreter computes."""
    found = MODELS[model]().bits_of("host", "interpreter")
    assert len(found) > 4
    return found


def assert_same(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    assert list(found) == list(wanted)
    different = [name for name in wanted if not np.array_equal(found[name], wanted[name])]
    assert different == []


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("target", HOSTED)
def test_this_machine_computes_the_integers_of_the_interpreter(model: str, target: str) -> None:
    missing = Target.of(target).missing_here()
    if missing:
        pytest.skip(f"this machine has no {', '.join(missing)}")
    assert_same(MODELS[model]().bits_of(target), expected(model))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("target", EMULATED)
def test_emulated_machines_compute_the_integers_of_the_interpreter(model: str, target: str) -> None:
    skip_without_emulator(target)
    assert_same(MODELS[model]().emulated_bits_of(target), expected(model))


def test_integers_alone_have_no_floats_between_them() -> None:
    _, module = integers_alone().module_for("host", "cpu")
    floats = [n for n in module.main.nodes if n.results[0].type.dtype.is_float]
    assert [node.op.mnemonic for node in floats] == ["quantized_matmul"]  # the output


def test_integers_alone_are_about_as_exact() -> None:
    quantized = integers_alone()
    wanted = ag.compile(quantized.source)(quantized.x)
    found = ag.compile(
        quantized.source,
        precision="int8",
        profile=quantized.profile,
        quantization=quantized.config,
    )(quantized.x)
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()
