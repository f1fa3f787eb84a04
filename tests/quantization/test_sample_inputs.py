"""Samples of what layers read."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Builder, Function, run_function, verify_module
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.linear import MatMul
from afterglow.quantization.layers import input_moments
from afterglow.quantization.sample_inputs import (
    InputSampler,
    LayerInputs,
    SampleError,
    add_input_outputs,
)
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32


def model() -> Function:
    """A convolution, and two products that read what it computes."""
    f = Function("main")
    b = Builder(f)
    shapes = {"v": (4, 3, 3, 2), "w": (4, 6), "u": (4, 5)}
    v, w, u = (b.constant(np.ones(shape, np.float32), n) for n, shape in shapes.items())
    x = f.input("x", TensorType(f32, (1, 5, 5, 2)))
    r = b.emit(Relu(), b.emit(Conv((1, 1), (1, 1, 1, 1), (1, 1)), x, v, name="c"), name="r")
    f.output("y", b.emit(MatMul(), r, w, name="y"))
    f.output("z", b.emit(MatMul(), r, u, name="z"))
    return f


def sampled(runs: int, most: int = 10**6) -> tuple[Function, LayerInputs, list[list[Array]]]:
    function, inputs = model(), LayerInputs(most_rows=most)
    sampler = add_input_outputs(function, inputs)
    verify_module(function.module)
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(runs):
        x = rng.normal(size=(1, 5, 5, 2)).astype(np.float32)
        outputs = run_function(function, [x])[2:]
        sampler.add(outputs)
        seen.append(outputs)
    return function, inputs, seen


def test_a_value_that_several_layers_read_is_returned_once() -> None:
    function, inputs, seen = sampled(1)
    assert [output.name for output in function.outputs][2:] == ["\0read x", "\0read r"]
    assert [x.shape for x in seen[0]] == [(1, 5, 5, 2), (1, 5, 5, 4)]
    assert inputs.moments["y"] is inputs.moments["z"]


def test_moments_are_those_of_all_runs() -> None:
    function, inputs, seen = sampled(3)
    layers = {node.name: node for node in function.nodes}
    for name, place in (("c", 0), ("y", 1), ("z", 1)):
        node = layers[name]
        shape = node.operands[1].type.shape
        expected = np.mean([input_moments(node.op, shape, run[place]) for run in seen], 0)
        (found,) = inputs.moments[name].whole()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_run_adds_few_rows() -> None:
    _, inputs, seen = sampled(1, most=2)
    (found,) = inputs.moments["y"].whole()
    rows = seen[0][1].reshape(-1, 4)[[0, -1]]
    np.testing.assert_allclose(found[0], rows.T @ rows / 2, rtol=1e-5)


def test_versions_of_a_model_share_moments() -> None:
    inputs = LayerInputs()
    first, second = (add_input_outputs(model(), inputs) for _ in range(2))
    x, r = np.ones((1, 5, 5, 2), np.float32), np.ones((1, 5, 5, 4), np.float32)
    first.add([x, 2 * r])
    second.add([x, 4 * r])
    (found,) = inputs.moments["y"].whole()
    np.testing.assert_allclose(found, 10)


def test_only_chosen_layers_are_sampled() -> None:
    inputs = LayerInputs()
    sampler = add_input_outputs(model(), inputs, lambda node: node.name == "z")
    assert sampler.output_names == ["\0read r"]
    assert [*inputs.moments] == ["z"]


def test_inputs_that_are_not_finite_are_refused() -> None:
    function, inputs = model(), LayerInputs()
    sampler: InputSampler = add_input_outputs(function, inputs)
    x = np.full((1, 5, 5, 2), np.nan, np.float32)
    with pytest.raises(SampleError) as error:
        sampler.add([x, np.ones((1, 5, 5, 4), np.float32)])
    assert str(error.value).splitlines() == [
        "error: a layer reads NaN or infinity, by which no weights can be rounded",
        "  in %c",
        "  help: give samples that are like the inputs of later runs",
    ]
