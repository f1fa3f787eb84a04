"""A training step that computes values again gives the same weights, in less memory."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow.autodiff import gradients
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Builder, Function, Module
from afterglow.ops.elementwise import Mul, Sub
from afterglow.ops.functions import Tanh
from afterglow.ops.linear import MatMul
from afterglow.ops.reduction import ReduceSum
from afterglow.runtime import CompiledFunction
from afterglow.support.errors import UsageError
from afterglow.types import TensorType
from afterglow.types.dtype import f32

SQUARE = TensorType(f32, (64, 64))


def step(layers: int = 6) -> Module:
    """A step of a network of products and activations."""
    function = Function("main")
    b = Builder(function)
    weights = [function.module.state(f"w{i}", SQUARE) for i in range(layers)]
    y = x = function.input("x", SQUARE)
    for weight in weights:
        y = b.emit(Tanh(), b.emit(MatMul(), y, weight))
    loss = b.emit(ReduceSum((0, 1), keepdims=False), b.emit(Mul(), y, x))
    function.output("loss", loss)
    for weight, slope in zip(weights, gradients(b, [loss], weights), strict=True):
        assert slope is not None
        function.update(weight, b.emit(Sub(), weight, slope))
    return function.module


def trained(options: Options) -> tuple[CompiledFunction, list[np.ndarray]]:
    """A step that has run twice, and the weights that it gave."""
    module, rng = step(), np.random.default_rng(0)
    arrays = {name: rng.standard_normal((64, 64)).astype(np.float32) / 8 for name in module.states}
    function = Stages(options).finish(module)
    function.reset(arrays)
    for _ in range(2):
        function.run([rng.standard_normal((64, 64)).astype(np.float32)])
    return function, [state.read().result() for state in function.states.values()]


def test_weights_are_the_same_to_the_bit_in_less_memory() -> None:
    plain, weights = trained(Options(threads=1, verify=True))
    budget = plain.plan.arena_bytes * 3 // 4
    for options in (Options(threads=1, checkpoint="auto"), Options(threads=1, max_arena=budget)):
        function, again = trained(options)
        assert function.plan.arena_bytes <= budget
        for mine, theirs in zip(again, weights, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_what_is_no_checkpoint_is_refused() -> None:
    with pytest.raises(UsageError) as error:
        ag.compile(step(), checkpoint=0)
    assert str(error.value) == (
        "error: checkpoint must be a number of segments or names of nodes, got 0\n"
        '  help: write checkpoint="auto" for the least memory'
    )
