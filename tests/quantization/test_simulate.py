"""Layers that are switched between floats and what integers stand for."""

from __future__ import annotations

import numpy as np

import afterglow
from afterglow.graph import Module, parse_module
from afterglow.quantization.convert import Convert
from afterglow.quantization.observation import Observation
from afterglow.quantization.simulate import SWITCHES, add_probes, add_simulation, stored_values
from afterglow.types import Array

MATMUL = "{transpose_lhs = false, transpose_rhs = false}"
RANDOM = np.random.default_rng(5)
X = RANDOM.uniform(-1, 2, (3, 2)).astype(np.float32)
FLOAT = f"""
const @w : f32[2, 2] = [63.5, 2.0, -3.0, 127.0]
const @b : f32[2] = [0.5, -1.0]
const @v : f32[1, 2] = [0.3, 0.7]

func @main(%x: f32[3, 2]) {{
  %p = matmul(%x, @w) {MATMUL} : f32[3, 2]
  %y = add(%p, @b) : f32[3, 2]
  %r = relu(%y) : f32[3, 2]
  %q = matmul(%r, @v) {{transpose_lhs = false, transpose_rhs = true}} : f32[3, 1]
  return %q as "q"
}}
"""


def outputs(module: Module, **inputs: Array) -> list[Array]:
    compiled = afterglow.compile(module, backend="interpreter", cache=False, optimize=False)
    return [np.array(x) for x in compiled.run(None, {"x": X, **inputs})]


def converted() -> Module:
    module = parse_module(FLOAT)
    hidden = np.maximum(X @ np.array([[63.5, 2], [-3, 127]], np.float32) + [0.5, -1], 0)
    Convert({"x": Observation.of(X), "r": Observation.of(hidden)}).run(module.main)
    return module


def test_layers_are_simulated_where_they_are_switched_on() -> None:
    module = parse_module(FLOAT)
    layers = add_simulation(module.main, converted().main)
    found = {
        switches: outputs(module, **{SWITCHES: np.array(switches)})
        for switches in ((False, False), (True, False), (False, True), (True, True))
    }
    exact, quantized = outputs(parse_module(FLOAT)), outputs(converted())
    np.testing.assert_array_equal(found[False, False][0], exact[0])
    np.testing.assert_allclose(found[True, True][0], quantized[0], rtol=1e-5)
    assert len({x[0].tobytes() for x in found.values()}) == 4
    assert [(x.name, x.point, x.weight_bytes, x.stored_bytes) for x in layers] == [
        ("p", "x", 16, 12),
        ("q", "r", 8, 6),
    ]


def test_powers_of_results_and_errors_are_those_of_the_layers_that_are_on() -> None:
    module = parse_module(FLOAT)
    add_simulation(module.main, converted().main)
    result, powers = outputs(module, **{SWITCHES: np.array([False, True])})
    exact = outputs(parse_module(FLOAT))[0]
    assert (powers[0], powers[2]) == (0, 0)
    np.testing.assert_allclose(powers[1], (exact**2).sum(), rtol=1e-6)
    np.testing.assert_allclose(powers[3], ((result - exact) ** 2).sum(), rtol=1e-4)


def test_probes_return_what_integers_stand_for() -> None:
    module = converted()
    (name,) = add_probes(module.main, stored_values(module.main, ["x"]))
    assert name == "\0value x"
    step = (X.max() - X.min()) / 255
    _, found = outputs(module)
    assert 0 < np.abs(found - X).max() <= step / 2 * 1.001


def test_large_values_are_sampled() -> None:
    module = parse_module('func @main(%x: f32[9, 512, 64]) {\n  return %x as "y"\n}\n')
    (x,) = module.main.inputs
    add_probes(module.main, {"x": x})
    array = RANDOM.standard_normal((9, 512, 64)).astype(np.float32)
    compiled = afterglow.compile(module, backend="interpreter", cache=False)
    np.testing.assert_array_equal(compiled(array)[1], array.reshape(-1, 64)[::5])
