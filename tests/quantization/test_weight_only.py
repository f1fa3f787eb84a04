"""Weights stored in few bits, with activations in floats."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Builder, Function, Module, print_module, run_function, verify_module
from afterglow.ops.elementwise import Add
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.quantization.moments import InputMoments
from afterglow.quantization.rounding import Rounding
from afterglow.quantization.scheme import Scheme
from afterglow.quantization.weight_only import FORMATS as DEFAULTS
from afterglow.quantization.weight_only import QuantizeWeights, WeightFormat
from afterglow.types import Array, TensorType
from afterglow.types.dtype import bf16, f8e4m3fn, f16, f32, i4, i8, i64, u4

FORMATS = {
    "4 bits with zero points": (WeightFormat(), 17),
    "4 bits": (WeightFormat(i4, 64, Scheme.SYMMETRIC), 15),
    "8 bits": (WeightFormat(i8, 0, Scheme.SYMMETRIC), 35),
    "8 bits with zero points": (WeightFormat(i8, 0), 35),
    "floats of 8 bits": (DEFAULTS[f8e4m3fn], 30),
}
each_format = pytest.mark.parametrize(("format", "decibels"), FORMATS.values(), ids=FORMATS)


def weights(*shape: int) -> Array:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def product(weight: Array, *, transposed: bool = False) -> Module:
    f = Function("main")
    b = Builder(f)
    depth = weight.shape[1 if transposed else 0]
    x = f.input("x", TensorType(f32, (3, 5, depth)))
    f.output("y", b.emit(MatMul(transpose_rhs=transposed), x, b.constant(weight, "w"), name="y"))
    return f.module


def tied(weight: Array) -> Module:
    """An embedding, and logits by the same table."""
    f = Function("main")
    b = Builder(f)
    table = b.constant(weight, "w")
    rows = b.emit(Gather(0), table, f.input("i", TensorType(i64, (2, 7))), name="rows")
    f.output("rows", rows)
    f.output("y", b.emit(MatMul(transpose_rhs=True), rows, table, name="y"))
    return f.module


def signal_to_noise(want: Array, got: Array) -> float:
    return float(10 * np.log10(np.square(want).mean() / np.square(got - want).mean()))


@each_format
@pytest.mark.parametrize("transposed", [False, True])
def test_products_read_rows_of_integers(format, decibels, transposed: bool) -> None:
    weight = weights(100, 80)
    module = product(weight, transposed=transposed)
    x = np.random.default_rng(0).normal(size=(3, 5, weight.shape[transposed])).astype(np.float32)
    (want,) = run_function(module.main, [x])
    assert QuantizeWeights(format, least_size=0).run(module.main)
    verify_module(module)
    rows = (100, 80) if transposed else (80, 100)
    assert module.constants["w.stored"].type == TensorType(format.dtype, rows)
    (got,) = run_function(module.main, [x])
    assert signal_to_noise(want, got) > decibels
    assert [output.value.name for output in module.main.outputs] == ["y"]


@each_format
def test_a_table_that_is_looked_up_and_multiplied_is_stored_once(format, decibels) -> None:
    module = tied(weights(50, 96))
    places = np.random.default_rng(0).integers(0, 50, (2, 7))
    want = run_function(module.main, [places])
    assert QuantizeWeights(format, least_size=0).run(module.main)
    verify_module(module)
    assert module.constants["w.stored"].use_count == 2
    for expected, got in zip(want, run_function(module.main, [places]), strict=True):
        assert signal_to_noise(expected, got) > decibels


@pytest.mark.parametrize("dtype", [f16, bf16])
def test_weights_of_half_precision_are_stored_in_few_bits_too(dtype) -> None:
    module = tied(weights(50, 96).astype(dtype.numpy))
    places = np.random.default_rng(0).integers(0, 50, (2, 7))
    want = run_function(module.main, [places])
    assert QuantizeWeights(DEFAULTS[u4], least_size=0).run(module.main)
    verify_module(module)
    got = run_function(module.main, [places])
    assert [each.dtype for each in got] == [each.dtype for each in want]
    for expected, found in zip(want, got, strict=True):
        assert signal_to_noise(expected.astype("f4"), found.astype("f4")) > 17


def test_rows_of_zeros_stay_zeros_as_floats_of_eight_bits() -> None:
    rows = np.stack([np.zeros(8), np.full(8, 3.0)]).astype(np.float32)
    found = DEFAULTS[f8e4m3fn].quantize(rows)
    np.testing.assert_allclose(found.dequantized(), rows, rtol=1e-6)


def test_products_with_moments_are_rounded_by_them() -> None:
    weight = weights(96, 80)
    mixing = np.random.default_rng(2).normal(size=(20, 96))
    x = (np.random.default_rng(0).normal(size=(3, 5, 20)) @ mixing).astype(np.float32)
    noise = []
    seen = InputMoments(1, 96)
    seen.add(x.reshape(1, -1, 96))
    for rounding in (None, Rounding(lambda: {"y": seen})):
        module = product(weight)
        (want,) = run_function(module.main, [x])
        QuantizeWeights(rounding=rounding, least_size=0).run(module.main)
        noise.append(signal_to_noise(want, run_function(module.main, [x])[0]))
    assert noise[1] > noise[0] + 3


def test_small_weights_and_kept_ones_stay() -> None:
    for step in (
        QuantizeWeights(),
        QuantizeWeights(least_size=0, keep=lambda node: node.name == "y"),
    ):
        module = product(weights(64, 64))
        before = print_module(module)
        assert not step.run(module.main)
        assert print_module(module) == before


def test_what_is_read_otherwise_as_well_stays() -> None:
    module = product(weights(5, 5))
    function = module.main
    b = Builder(function)
    function.output("z", b.emit(Add(), function.outputs[0].value, module.constants["w"]))
    assert not QuantizeWeights(least_size=0).run(function)


def test_half_bytes_with_zero_points_are_what_is_stored_unless_told_otherwise() -> None:
    module = product(weights(256, 128))
    assert QuantizeWeights().run(module.main)
    types = {name: constant.type for name, constant in module.constants.items() if name != "w"}
    assert types == {
        "w.stored": TensorType(u4, (128, 256)),
        "w.scale": TensorType(f32, (128, 8)),
        "w.zero": TensorType(u4, (128, 8)),
    }


def test_scales_of_groups_are_stored_in_16_bits() -> None:
    module = product(weights(100, 80))
    assert QuantizeWeights(DEFAULTS[u4], least_size=0).run(module.main)
    assert module.constants["w.scale"].type == TensorType(bf16, (80, 4))
    stored, scale, zero = (module.constants[f"w.{part}"] for part in ("stored", "scale", "zero"))
    steps = weights(100, 80).T.reshape(80, -1)[:, :32] / scale.data[:, :1].astype(np.float32)
    nearest = np.clip(np.rint(steps) + zero.data[:, :1].astype(np.float32), 0, 15)
    np.testing.assert_array_equal(stored.data[:, :32].astype(np.float32), nearest)
