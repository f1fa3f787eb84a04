"""Inputs and outputs as integers: in Python, in saved files, and for C."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import afterglow
from afterglow import CompiledModel, QuantizationConfig
from afterglow.driver.bundles import compile_bundle
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.graph import Builder, Function, Module, parse_module, print_module
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Mul, scalar
from afterglow.ops.linear import MatMul
from afterglow.quantization.interface import QuantizeInterface
from afterglow.quantization.profile import Profile
from afterglow.runtime.bundle import BundleRequest
from afterglow.support.errors import UsageError
from afterglow.types import Array, Quantization, TensorType
from afterglow.types.dtype import f32
from tests.backends.cpu.bundle.files.building import build, run
from tests.frontends.models import info, model, node

BYTES = QuantizationConfig(integer_only=True, quantized_io=True)
BEFORE = """
const @s : f32[] = [0.5]
const @z : u8[] = [3]

func @main(%x: f32[2]) {
  %q = quantize_linear(%x, @s, @z) {axis = 0, dtype = u8, block_size = 0, saturate = true} : u8[2]
  %r = max(%q, @z) : u8[2]
  %y = dequantize_linear(%r, @s, @z) {axis = 0, dtype = f32, block_size = 0} : f32[2]
  return %y
}
"""


def network() -> Module:
    rng = np.random.default_rng(0)
    module = Module("net")
    function = Function("main", module)
    b = Builder(function)
    x = function.input("x", TensorType(f32, (1, 8)))
    first, second = (
        b.constant(rng.standard_normal(shape).astype(np.float32), "w")
        for shape in ((8, 16), (16, 3))
    )
    halved = b.emit(Mul(), x, scalar(b, 0.5, x))
    hidden = b.emit(Relu(), b.emit(MatMul(), halved, first))
    function.output("y", b.emit(MatMul(), hidden, second))
    return module


def samples() -> list[Array]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((1, 8)).astype(np.float32) for _ in range(20)]


@cache
def profile() -> Profile:
    return afterglow.profile(network(), samples())


def compiled(quantization: QuantizationConfig, backend: str = "interpreter") -> CompiledModel:
    options = {"precision": "int8", "profile": profile(), "cache": False}
    return afterglow.compile(network(), backend=backend, quantization=quantization, **options)


def to_bytes(x: Array, q: Quantization) -> Array:
    return np.clip(np.rint(x / q.scales[0]) + q.offsets[0], 0, 255).astype(np.uint8)


def test_quantization_moves_out_of_the_function() -> None:
    module = parse_module(BEFORE)
    QuantizeInterface().run(module.main)
    text = print_module(module)
    assert "func @main(%x: u8[2]) {\n  %r = max(%x, @z) : u8[2]" in text
    assert 'return %r as "y"' in text
    assert module.main.inputs[0].quantization == Quantization((0.5,), (3,))
    assert module.main.outputs[0].quantization == Quantization((0.5,), (3,))
    copy = module.clone().main
    assert copy.inputs[0].quantization == copy.outputs[0].quantization == Quantization((0.5,), (3,))


def test_an_input_that_is_read_in_floats_is_an_error() -> None:
    text = BEFORE.replace("%r = max(%q, @z)", "%e = exp(%x) : f32[2]\n  %r = max(%q, @z)")
    with pytest.raises(UsageError, match="input 'x' cannot be integers: node 'e' reads what was"):
        QuantizeInterface().run(parse_module(text).main)


def test_bytes_go_in_and_come_out() -> None:
    plain, small = compiled(QuantizationConfig(integer_only=True)), compiled(BYTES)
    assert "f32" not in small.ir("graph")
    given, returned = small.inputs[0].quantization, small.outputs[0].quantization
    assert given is not None
    assert returned is not None
    assert str(small.inputs[0]).startswith("x: u8[1, 8; scale 0.0")
    for x in samples():
        y = returned.scales[0] * (
            small(to_bytes(x, given)).astype(np.float32) - returned.offsets[0]
        )
        np.testing.assert_allclose(y, plain(x), atol=2.1 * returned.scales[0])
    with pytest.raises(UsageError, match="float32"):
        small(samples()[0])


def test_a_model_that_calls_compile_is_refused() -> None:
    weight = np.eye(8, dtype=np.float32)
    dynamic = model(
        [node("MatMul", ["x", "w"], ["y"])],
        inputs=[info("x", ("n", 8))],
        outputs=[info("y", ("n", 8))],
        constants={"w": weight},
    )
    seen = afterglow.profile(dynamic, samples())
    with pytest.raises(UsageError) as caught:
        afterglow.compile(
            dynamic,
            precision="int8",
            profile=seen,
            quantization=QuantizationConfig(quantized_io=True),
            cache=False,
        )
    assert str(caught.value) == (
        "error: inputs and outputs can be integers only of a model that is compiled once\n"
        "  help: bind all dimensions with dims or shapes, or give their bounds"
    )


PROGRAM = r"""
#include <stdalign.h>
#include <stdio.h>
#include "net.h"

static alignas(NET_ARENA_ALIGN) unsigned char arena[NET_ARENA_BYTES + 1];

int main(int count, char **numbers) {
    uint8_t x[NET_INPUT_X_COUNT], y[NET_OUTPUT_Y_COUNT];
    for (int i = 0; i < NET_INPUT_X_COUNT; i++) {
        int number = NET_INPUT_X_ZERO_POINT; /* zero */
        if (i + 1 < count) sscanf(numbers[i + 1], "%d", &number);
        x[i] = (uint8_t)number;
    }
    net_io io = {x, y};
    if (net_run(&io, arena) != NET_OK) return 1;
    for (int i = 0; i < NET_OUTPUT_Y_COUNT; i++) printf("%d ", y[i]);
    printf("%g %d\n", (double)NET_OUTPUT_Y_SCALE, NET_OUTPUT_Y_ZERO_POINT);
    return 0;
}
"""


def test_c_sees_only_bytes_and_is_told_what_they_stand_for(tmp_path: Path) -> None:
    options = Options(precision="int8", profile=profile(), quantization=BYTES)
    request = BundleRequest("x86-64-v3", "net", embed_weights=True)
    bundle = compile_bundle(open_source(network()), options, request).write(
        tmp_path, shared=False, force=False, never=()
    )
    header = (tmp_path / "net.h").read_text()
    assert "const uint8_t *x; /* input u8[1, 8], stands for " in header
    small = compiled(BYTES)
    q, returned = small.inputs[0].quantization, small.outputs[0].quantization
    assert q is not None
    assert returned is not None
    (port,) = bundle.description["entries"][0]["inputs"]
    assert port["quantization"] == {"scale": q.scales[0], "zero_point": q.offsets[0]}
    (tmp_path / "bytes.c").write_text(PROGRAM)
    program = build(tmp_path, [tmp_path / "bytes.c", tmp_path / "net.o"], options=[f"-I{tmp_path}"])
    x = to_bytes(samples()[0], q)
    *found, scale, zero = run(program, *x.ravel()).split()
    assert [int(number) for number in found] == small(x).ravel().tolist()
    assert float(scale) == pytest.approx(returned.scales[0], 1e-5)
    assert int(zero) == returned.offsets[0]
