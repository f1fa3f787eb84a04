"""Whole networks whose products go by emulated tiles have the bits that this machine computes."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow
from afterglow.graph import Builder, Function, Value
from afterglow.ops.quantization import QuantizeLinear
from afterglow.ops.quantized import QuantizedConv
from afterglow.types import TensorType
from afterglow.types.dtype import u8
from tests.emulation.tiles.bench import needs_quads
from tests.emulation.tiles.models import compiled_with_tiles

LAYERS = ((64, 3, 1), (32, 1, 1), (96, 3, 2), (33, 1, 1))
"""Channels of the result, extent of the window, and stride."""


def convolutions() -> Function:
    """Layers whose results are bytes: windows with padding, strides, and columns to spare."""
    rng = np.random.default_rng(0)
    function = Function("main")
    x: Value = function.input("x", TensorType(u8, (1, 14, 14, 32)))
    b = Builder(function)
    for columns, size, stride in LAYERS:
        op = QuantizedConv((stride, stride), (size // 2,) * 4, (1, 1), 1, 7)
        shape = (columns, size, size, x.type.shape[-1])
        weight = b.constant(rng.integers(-128, 128, shape).astype(np.int8))
        scale = b.constant(rng.uniform(1e-5, 1e-4, columns).astype(np.float32))
        made = b.emit(op, x, weight, scale)
        step, zero = b.constant(np.array(0.01, np.float32)), b.constant(np.array(120, np.uint8))
        x = b.emit(QuantizeLinear(3), made, step, zero)
    function.output("y", x)
    return function


@needs_quads
@pytest.mark.parametrize("threads", [1, 3])
def test_a_network_has_the_same_bits(threads: int) -> None:
    model, tiles = compiled_with_tiles(convolutions().module, threads=threads)
    x = np.random.default_rng(1).integers(0, 256, (1, 14, 14, 32)).astype(np.uint8)
    (result,) = model.run([x])
    tiles.check()
    np.testing.assert_array_equal(result, afterglow.compile(convolutions().module, cache=False)(x))
    assert np.unique(result).size > 100


@needs_quads
def test_what_a_network_does_with_tiles_is_counted() -> None:
    model, tiles = compiled_with_tiles(convolutions().module)
    assert tiles.count("tdpbusd") == 0
    model.run([np.zeros((1, 14, 14, 32), np.uint8)])
    once = tiles.count("tdpbusd")
    model.run([np.zeros((1, 14, 14, 32), np.uint8)])
    assert tiles.count("tdpbusd") == 2 * once > 0
    assert tiles.count("ldtilecfg") == tiles.count("tilerelease")
