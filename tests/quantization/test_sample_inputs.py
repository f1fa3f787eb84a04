"""Samples of what layers read."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Builder, Function, run_function, verify_module
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.linear import MatMul
from afterglow.quantization.layers import input_moments
from afterglow.quantization.sample_inputs import InputSampler, add_input_outputs
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32


def model() -> Function:
    """A convolution, and two products that read what it computes."""
    f = Function("main")
    b = Builder(f)
    shapes = {"v": (4, 3, 3, 2), "w": (4, 6), "u": (4, 5)}
    v, w, u = (b.constant(np.ones(shape, np.float32), n) for n, shape in shapes.items())
    x = f.input("x", TensorType(f32, (1, 5, 5, 2)))
    r = b.emit(Relu(), b.emit(Conv((1, 1), (1, 1, 1, 1), (1, 1)), x, v), name="r")
    f.output("y", b.emit(MatMul(), r, w, name="y"))
    f.output("z", b.emit(MatMul(), r, u, name="z"))
    return f


def sampled(runs: int, most: int = 10**6) -> tuple[InputSampler, list[list[Array]]]:
    function = model()
    sampler = add_input_outputs(function, most)
    verify_module(function.module)
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(runs):
        x = rng.normal(size=(1, 5, 5, 2)).astype(np.float32)
        outputs = run_function(function, [x])[2:]
        sampler.add(outputs)
        seen.append(outputs)
    return sampler, seen


def test_a_value_that_several_layers_read_is_returned_once() -> None:
    sampler, seen = sampled(1)
    assert sampler.output_names == ["\0read x", "\0read r"]
    assert [x.shape for x in seen[0]] == [(1, 5, 5, 2), (1, 5, 5, 4)]


def test_moments_are_those_of_all_runs() -> None:
    sampler, seen = sampled(3)
    for node, place in zip(sampler.layers, (0, 1, 1), strict=True):
        shape = node.operands[1].type.shape
        expected = np.mean([input_moments(node.op, shape, run[place]) for run in seen], 0)
        np.testing.assert_allclose(sampler.moments(node.name), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("most", [1, 7, 40])
def test_few_rows_are_held_and_come_from_all_runs(most: int) -> None:
    sampler, seen = sampled(20, most)
    rows = sampler.rows("y")[0]
    assert 1 <= len(rows) <= most
    owners = {
        number
        for number, (_, run) in enumerate(seen)
        for row in rows
        if (run.reshape(-1, 4) == row).all(1).any()
    }
    assert len(owners) >= min(most, 20) * 0.4
