"""Channels that products read, scaled so that weights are rounded finely where it matters."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Builder, Function, Module, print_module, run_function, verify_module
from afterglow.ops.activation import Clip, Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.normalization import LayerNorm
from afterglow.quantization.moments import InputMoments
from afterglow.quantization.round_weights import output_error, second_moments
from afterglow.quantization.rounding import Rounding
from afterglow.quantization.scale_inputs import ScaleInputs, best_factors
from afterglow.quantization.weight_only import QuantizeWeights, WeightFormat
from afterglow.quantization.weights import quantize_groups
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32
from tests.quantization.test_round_weights import DEPTH, correlated, weights

ROWS = 200


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def quantized(w: Array) -> Array:
    return quantize_groups(w, 1, 32, search=False).dequantized()


def test_scaled_inputs_have_less_error() -> None:
    weight, x = weights(), correlated(800)
    x[:, ::16] *= 30
    moments = second_moments(x)

    def error(factors: Array) -> float:
        return output_error(quantized(weight * factors) / factors - weight, moments)

    factors = best_factors(np.abs(x).mean(0), error)
    assert factors.dtype == np.float32
    assert factors.min() * factors.max() == pytest.approx(1, rel=1e-5)
    assert error(factors) < 0.8 * error(np.ones(DEPTH, np.float32))


def test_equal_inputs_are_not_scaled() -> None:
    def error(factors: Array) -> float:
        return float(np.square(np.rint(weights() * factors) / factors - weights()).sum())

    for magnitudes in (np.ones(DEPTH), np.zeros(DEPTH)):
        np.testing.assert_array_equal(best_factors(magnitudes, error), np.ones(DEPTH))


def network(kind: str) -> Module:
    """Channels of very different size, and two products that read them."""
    f = Function("main")
    b = Builder(f)
    x = f.input("x", TensorType(f32, (ROWS, DEPTH)))
    sizes = np.geomspace(0.05, 8, DEPTH)[np.random.default_rng(5).permutation(DEPTH)]
    if kind == "norm":
        parts = (b.constant(sizes.astype(np.float32), "g"), b.constant(normal(DEPTH), "h"))
        read = b.emit(LayerNorm(), x, *parts, name="norm")
    else:
        weight = (normal(DEPTH, DEPTH) * sizes / 8).astype(np.float32)
        made = b.emit(MatMul(), x, b.constant(weight, "p"), name="made")
        read = b.emit(Add(), made, b.constant(normal(DEPTH), "q"), name="sum")
        if kind != "linear":
            read = b.emit(Clip(-4, 4) if kind == "clip" else Relu(), read, name="r")
    y = b.emit(MatMul(), read, b.constant(weights(DEPTH, 40), "w"), name="y")
    z = b.emit(MatMul(transpose_rhs=True), read, b.constant(weights(24, DEPTH), "v"), name="z")
    f.output("y", y)
    f.output("z", z)
    if kind == "output":
        f.output("read", read)
    return f.module


def rounding_for(module: Module, x: Array) -> Rounding:
    """Rounding by what the products read in two runs."""
    probed = module.clone()
    read = next(n for n in probed.main.nodes if n.name == "y").operands[0]
    probed.main.output("probe", read)
    seen = InputMoments(1, DEPTH)
    for part in (x, x[::-1] * 0.9):
        seen.add(run_function(probed.main, [np.ascontiguousarray(part)])[-1][None])
    return Rounding(lambda: {"y": seen, "z": seen})


def errors(module: Module, want: list[Array], x: Array) -> float:
    got = run_function(module.main, [x])
    return sum(float(np.square(a - b).mean()) for a, b in zip(want, got, strict=True))


@pytest.mark.parametrize("kind", ["norm", "linear", "relu"])
def test_what_computes_channels_divides_them_and_weights_round_better(kind: str) -> None:
    module, x, format = network(kind), normal(ROWS, DEPTH, seed=2), WeightFormat(search=False)
    rounding = rounding_for(module, x)
    want = run_function(module.main, [x])
    scaled, plain = module.clone(), module.clone()
    step = ScaleInputs(format.nearest, rounding)
    assert step.run(scaled.main)
    verify_module(scaled)
    assert errors(scaled, want, x) < 1e-6 * float(np.square(want[0]).mean())
    assert [*step.divided] == ["y", "z"]
    kept = {"keep": lambda node: node.name == "made", "least_size": 0}
    found = []
    for each, rounds, divided in (
        (plain.clone(), None, None),
        (scaled.clone(), None, None),
        (plain, rounding, None),
        (scaled, rounding, step.divided),
    ):
        QuantizeWeights(format, rounding=rounds, divided=divided, **kept).run(each.main)
        found.append(errors(each, want, x))
    nearest, only_scaled, only_rounded, both = found
    assert only_scaled < 0.9 * nearest
    assert both < 0.9 * only_rounded


@pytest.mark.parametrize("kind", ["clip", "output"])
def test_channels_that_nothing_divides_for_free_stay(kind: str) -> None:
    module, x = network(kind), normal(ROWS, DEPTH, seed=2)
    before = print_module(module)
    step = ScaleInputs(WeightFormat().nearest, rounding_for(module, x))
    assert not step.run(module.main)
    assert print_module(module) == before


def test_factors_are_remembered() -> None:
    module, x = network("norm"), normal(ROWS, DEPTH, seed=2)
    other = module.clone()
    rounding = rounding_for(module, x)
    for each in (module, other):
        assert ScaleInputs(WeightFormat().nearest, rounding).run(each.main)
        rounding._collect = dict
        rounding.release()
    assert print_module(module) == print_module(other)
