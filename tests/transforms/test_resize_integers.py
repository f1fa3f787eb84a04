"""Resampling of bytes: what stays in integers, and which numbers come out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import afterglow
from afterglow.graph import Builder, Function, Module, parse_module, print_module
from afterglow.ops.convolution import Conv
from afterglow.ops.image import Coordinates, Interpolation, Resize
from afterglow.transforms.drop_dead import drop_dead_nodes
from afterglow.transforms.integer_islands import INTEGER_ISLANDS
from afterglow.transforms.resize_integers import RESIZE_INTEGERS
from afterglow.types import TensorType
from afterglow.types.dtype import f32, u8

SCALES = (1.0, 2.0, 2.0, 1.0)


def text(op: Resize, scale: str) -> str:
    module = Module()
    function = Function("main", module)
    x = function.input("x", TensorType(f32, (1, 2, 2, 1)))
    function.output("y", Builder(function).emit(op, x, name="y"))
    line = print_module(module).splitlines()[1].replace("(%x)", "(%real)")
    return f"""
        const @s : f32[] = [0.5]
        const @t : f32[] = [{scale}]
        const @z : u8[] = [3]

        func @main(%x: u8[1, 2, 2, 1]) {{
          %real = dequantize_linear(%x, @s, @z) {{axis = 3, block_size = 0}} : f32[1, 2, 2, 1]
          {line.strip()}
          %q = quantize_linear(%y, @t, @z) {{axis = 3, dtype = u8, block_size = 0}} : u8[1, 4, 4, 1]
          return %q
        }}
    """


def ops(op: Resize, scale: str, *passes: Any) -> list[str]:
    module = parse_module(text(op, scale))
    for each in passes:
        each.run(module.main)
    drop_dead_nodes(module.main)
    return [node.op.mnemonic for node in module.main.nodes]


def test_bytes_are_resampled_where_the_scale_stays() -> None:
    linear = Resize((1, 4, 4, 1), SCALES, Interpolation.LINEAR)
    both = (RESIZE_INTEGERS, INTEGER_ISLANDS)
    assert ops(linear, "0.5", *both) == ["resize"]
    assert ops(linear, "0.25", *both) == ["dequantize_linear", "resize", "quantize_linear"]
    cubic = Resize((1, 4, 4, 1), SCALES, Interpolation.CUBIC)
    assert ops(cubic, "0.5", *both) == ["dequantize_linear", "resize", "quantize_linear"]


def test_bytes_are_repeated_whatever_their_scale() -> None:
    nearest = Resize((1, 4, 4, 1), SCALES)
    assert ops(nearest, "0.5", INTEGER_ISLANDS) == ["resize"]
    found = ops(nearest, "0.25", INTEGER_ISLANDS)
    assert found == ["resize", "dequantize_linear", "quantize_linear"]


def test_halves_are_rounded_to_even_and_weights_to_whole_parts() -> None:
    x = np.array([[0, 1], [2, 255]], np.uint8).reshape(1, 2, 2, 1)
    op = Resize((1, 3, 3, 1), (1, 1.5, 1.5, 1), Interpolation.LINEAR, Coordinates.ALIGN_CORNERS)
    found = op.evaluate(x)[0, :, :, 0]
    assert found.tolist() == [[0, 0, 1], [1, 64, 128], [2, 128, 255]]
    _, weights = Resize((7,), (7 / 5,), Interpolation.LINEAR).table(0, 5, whole=True)
    assert (weights.sum(1) == 1).all()
    assert (weights * 2048 % 1 == 0).all()


@pytest.mark.parametrize("extents", [(7, 10), (3, 2)])
def test_machine_code_has_the_same_bits(extents: tuple[int, int]) -> None:
    module = Module()
    function = Function("main", module)
    x = function.input("x", TensorType(u8, (1, 5, 4, 19)))
    scales = (1.0, extents[0] / 5, extents[1] / 4, 1.0)
    op = Resize((1, *extents, 19), scales, Interpolation.LINEAR)
    function.output("y", Builder(function).emit(op, x))
    numbers = np.random.default_rng(0).integers(0, 256, (1, 5, 4, 19)).astype(np.uint8)
    made = afterglow.compile(module, cache=False)(numbers)
    np.testing.assert_array_equal(made, op.evaluate(numbers))


@pytest.mark.parametrize("mode", [Interpolation.NEAREST, Interpolation.LINEAR])
def test_a_quantized_model_resizes_bytes(mode: Interpolation) -> None:
    rng = np.random.default_rng(0)
    module = Module()
    function = Function("main", module)
    b = Builder(function)
    x = function.input("x", TensorType(f32, (1, 4, 4, 8)))
    for number in range(2):
        weight = b.constant(rng.standard_normal((8, 1, 1, 8)).astype(np.float32), "w")
        x = b.emit(Conv((1, 1), (0,) * 4, (1, 1)), x, weight)
        if not number:
            x = b.emit(Resize((1, 8, 8, 8), SCALES, mode), x, name="resized")
    function.output("y", x)
    samples = [rng.standard_normal((1, 4, 4, 8)).astype(np.float32) for _ in range(3)]
    profile = afterglow.profile(module, samples)
    made = afterglow.compile(module, precision="int8", profile=profile, cache=False)
    (line,) = (line for line in made.ir("graph").splitlines() if " = resize(" in line)
    assert line.endswith(": u8[1, 8, 8, 8]")
    plain = afterglow.compile(module, backend="interpreter", cache=False)(samples[0])
    error = np.abs(made(samples[0]) - plain).max() / np.abs(plain).max()
    assert error < 0.03
