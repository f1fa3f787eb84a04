"""Arithmetic before numbers that are quantized by their own range."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import afterglow as ag
from afterglow.transforms.arithmetic import ARITHMETIC
from afterglow.transforms.recognise_activations import RECOGNISE_ACTIVATIONS
from tests.transforms.rewriting import check_declines, check_rewrites, program

QUANTIZE = "{axis = 0, dtype = u8, block_size = 0, saturate = true}"


def test_factors_stay_apart_before_a_computed_scale() -> None:
    check_declines(
        ARITHMETIC,
        program(
            "%x: f32[4], %s: f32[], %z: u8[]",
            "const @c : f32[] = [0.3]",
            "const @d : f32[] = [0.7]",
            "%a = mul(%x, @c) : f32[4]",
            "%b = mul(%a, @d) : f32[4]",
            f"%y = quantize_linear(%b, %s, %z) {QUANTIZE} : u8[4]",
        ),
    )


def test_factors_are_merged_before_a_constant_scale() -> None:
    check_rewrites(
        ARITHMETIC,
        before=program(
            "%x: f32[4]",
            "const @c : f32[] = [0.25]",
            "const @d : f32[] = [0.5]",
            "const @s : f32[] = [0.1]",
            "%a = mul(%x, @c) : f32[4]",
            "%b = mul(%a, @d) : f32[4]",
            f"%y = quantize_linear(%b, @s) {QUANTIZE} : u8[4]",
        ),
        after=program(
            "%x: f32[4]",
            "const @s : f32[] = [0.1]",
            "const @d_1 : f32[] = [0.125]",
            "%b = mul(%x, @d_1) : f32[4]",
            f"%y = quantize_linear(%b, @s) {QUANTIZE} : u8[4]",
        ),
    )


def test_a_hard_swish_stays_as_it_is_written() -> None:
    check_declines(
        RECOGNISE_ACTIVATIONS,
        program(
            "%x: f32[4], %s: f32[], %z: u8[]",
            "const @three : f32[] = [3.0]",
            "const @six : f32[] = [6.0]",
            "%a = add(%x, @three) : f32[4]",
            "%c = clip(%a) {low = 0.0, high = 6.0} : f32[4]",
            "%m = mul(%x, %c) : f32[4]",
            "%d = div(%m, @six) : f32[4]",
            f"%y = quantize_linear(%d, %s, %z) {QUANTIZE} : u8[4]",
        ),
    )


def test_layers_quantized_as_they_run_are_bit_for_bit_those_of_onnx_runtime(
    tmp_path: Path,
) -> None:
    path = tmp_path / "chain.onnx"
    onnx.save(_chain(6), path)
    x = np.random.default_rng(3).standard_normal((1, 16, 12, 12)).astype(np.float32)
    (wanted,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})
    np.testing.assert_array_equal(ag.compile(path, cache=False)(x), wanted)


def _chain(layers: int) -> onnx.ModelProto:
    """Convolutions of bytes, each with its scales, a batch normalization and a hard swish."""
    rng, nodes, value = np.random.default_rng(5), [], "x"
    constants = {"three": np.float32(3), "six": np.float32(6), "zero": np.float32(0)}
    constants["w_scale"] = np.float32(0.0043)
    for name, low, high in (("g", 0.5, 2), ("b", -1, 1), ("m", -1, 1), ("v", 0.5, 2)):
        constants[name] = rng.uniform(low, high, 16).astype(np.float32)
    for i in range(layers):
        constants[f"w{i}"] = rng.integers(-60, 60, (16, 16, 3, 3)).astype(np.int8)
        nodes += [
            helper.make_node("DynamicQuantizeLinear", [value], [f"q{i}", f"s{i}", f"z{i}"]),
            helper.make_node(
                "ConvInteger", [f"q{i}", f"w{i}", f"z{i}"], [f"i{i}"], pads=[1, 1, 1, 1]
            ),
            helper.make_node("Cast", [f"i{i}"], [f"f{i}"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Mul", [f"s{i}", "w_scale"], [f"p{i}"]),
            helper.make_node("Mul", [f"f{i}", f"p{i}"], [f"c{i}"]),
            helper.make_node("BatchNormalization", [f"c{i}", "g", "b", "m", "v"], [f"n{i}"]),
            helper.make_node("Add", [f"n{i}", "three"], [f"a{i}"]),
            helper.make_node("Clip", [f"a{i}", "zero", "six"], [f"k{i}"]),
            helper.make_node("Mul", [f"n{i}", f"k{i}"], [f"h{i}"]),
            helper.make_node("Div", [f"h{i}", "six"], [f"y{i}"]),
        ]
        value = f"y{i}"
    shape = (1, 16, 12, 12)
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
