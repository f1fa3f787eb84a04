"""Functions are split until their arena fits a budget, or it is said how far that goes."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest

import afterglow as ag
from afterglow.backends.interpreter import Machine
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Builder, Function, Module, Value, print_module, run_function
from afterglow.instr import Copy
from afterglow.lowering.splitting.profile import Profile
from afterglow.lowering.splitting.search import Search
from afterglow.ops.activation import Relu
from afterglow.ops.attention import Attention
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, Transpose
from afterglow.ops.pooling import MaxPool
from afterglow.ops.reduction import ReduceMean
from afterglow.ops.softmax import Softmax
from afterglow.runtime.buffers import HostBuffer
from afterglow.support.errors import UnsupportedError
from afterglow.types import TensorType
from afterglow.types.dtype import f32, i32
from tests.lowering.networks import Network, network
from tests.transforms.rewriting import random_inputs


def block(n: Network, x: Value, factor: int, channels: int, stride: int = 1) -> Value:
    """An inverted residual: narrow, wide, depthwise, narrow, plus what came in."""
    wide = x.type.shape[-1] * factor
    y = n.emit(Relu(), n.conv(x, wide, 1, bias=True))
    y = n.emit(Relu(), n.conv(y, wide, 3, stride=stride, groups=wide))
    y = n.conv(y, channels, 1)
    return n.emit(Add(), y, x) if y.type == x.type else y


def mobile(n: Network) -> Value:
    x = n.emit(Transpose((0, 2, 3, 1)), n.input(1, 3, 32, 32))
    x = n.emit(Relu(), n.conv(x, 8, 3, stride=2))
    x = block(n, x, 4, 6, stride=2)
    x = block(n, x, 6, 6)
    x = block(n, x, 6, 10, stride=2)
    x = n.emit(ReduceMean((1, 2), keepdims=False), n.emit(Relu(), n.conv(x, 40, 1)))
    return n.emit(Softmax(-1), n.emit(MatMul(), x, n.constant(40, 5)))


def start_of_mobile(n: Network) -> Value:
    x = n.emit(Relu(), n.conv(n.input(1, 16, 16, 3), 8, 3, stride=2))
    return block(n, block(n, x, 4, 6, stride=2), 6, 6)


def fire(n: Network) -> Value:
    x = n.emit(Relu(), n.conv(n.input(1, 19, 19, 3), 12, 3, stride=2, pad=0))
    for _ in range(2):
        x = n.emit(MaxPool((3, 3), (2, 2), (0, 0, 0, 0), (1, 1), True), x)
        squeezed = n.emit(Relu(), n.conv(x, 4, 1))
        x = n.emit(Concat(3), n.conv(squeezed, 12, 1), n.conv(squeezed, 12, 3))
    return x


def whole_numbers(n: Network) -> Value:
    x = n.input(1, 24, 9, 2, dtype=i32)
    x = n.conv(n.conv(x, 16, 3, bias=True), 12, 3, stride=2)
    return n.emit(MatMul(), n.conv(x, 2, 1), n.constant(2, 3, dtype=i32))


def dense(n: Network) -> Value:
    x = n.emit(Relu(), n.emit(MatMul(), n.input(32, 8), n.constant(8, 64)))
    return n.emit(MatMul(), x, n.constant(64, 4))


def attention(n: Network) -> Value:
    x = n.input(1, 4, 32, 8)
    q, k, v = (n.emit(MatMul(), x, n.constant(8, 8)) for _ in range(3))
    return n.emit(MatMul(), n.emit(Attention(0.3), q, k, v), n.constant(8, 8))


def stages(budget: int | None = None) -> Stages:
    return Stages(Options(max_arena=budget, verify=True))


def check(function: Function, budget: int, tolerance: float = 1e-5) -> Module:
    """Compile under a budget, run as a whole and in small tiles; the module that was planned."""
    inputs = random_inputs(function)
    want = run_function(function, inputs)
    module = stages(budget).lower(stages().optimise(function.module.clone()))
    program, plan = stages().plan(module)
    assert plan.arena_bytes <= budget
    assert not any(isinstance(step, Copy) for step in program.body)
    for machine in (Machine(program), Machine(program, tile=2)):
        for have, expected in zip(machine.run(inputs, {}), want, strict=True):
            scale = max(1.0, float(np.abs(expected).max()))
            np.testing.assert_allclose(have, expected, rtol=tolerance, atol=tolerance * scale)
    return module


def arena(function: Function) -> int:
    return ag.compile(function.module).memory.arena_bytes


def work(function: Function) -> int:
    return sum(Profile(function, stages().memory).work.values())


@pytest.mark.parametrize(
    ("build", "parts"),
    [(mobile, 5), (fire, 2.2), (whole_numbers, 4), (dense, 8), (attention, 1.6)],
    ids=["mobile", "fire", "whole numbers", "dense", "attention"],
)
def test_networks_fit_a_part_of_their_arena(
    build: Callable[[Network], Value], parts: float
) -> None:
    function = network(build)
    tolerance = 0 if function.inputs[0].type.dtype is i32 else 1e-5
    whole = arena(function)
    for budget in (int(whole * 0.9), int(whole / (1 + parts) * 2), int(whole / parts)):
        check(function, budget, tolerance)


def test_what_fits_is_left_alone() -> None:
    function = network(mobile)
    free = stages().lower(stages().optimise(function.module.clone()))
    tight = stages(arena(function)).lower(stages().optimise(function.module.clone()))
    assert print_module(tight) == print_module(free)


def test_the_result_is_the_same_each_time() -> None:
    function = network(mobile)
    budget = arena(function) // 6
    assert print_module(check(function, budget)) == print_module(check(function, budget))


def test_a_mild_budget_costs_little() -> None:
    function = network(mobile)
    before = work(stages().lower(stages().optimise(function.module.clone())).main)
    after = work(check(function, arena(function) // 2).main)
    assert before <= after <= 1.1 * before


def test_matrix_products_fit_without_computing_anything_twice() -> None:
    function = network(dense)
    before = work(function)
    assert work(check(function, arena(function) // 8).main) == before


def test_bands_are_split_again_where_that_is_needed() -> None:
    """And with less in use around them than the budget allows, where nothing else fits."""
    function = network(start_of_mobile)
    module = check(function, arena(function) // 9)
    assert any(".band1.band1" in node.name for node in module.main.nodes)


def test_state_is_updated_from_bands() -> None:
    function = network(lambda n: n.conv(n.conv(n.input(1, 16, 8, 2), 16), 2))
    (output,) = function.outputs
    state = function.module.state("memory", output.value.type)
    n = Network(function, Builder(function), seed=9)
    function.update(state, n.emit(Add(), n.conv(n.conv(state, 16), 2), output.value))
    inputs = random_inputs(function)
    want, got = ({"memory": np.ones(state.type.shape, np.float32)} for _ in range(2))
    states = {"memory": HostBuffer(state.type, got["memory"])}
    run_function(function, inputs, want)
    budget = arena(function) // 2
    program, plan = stages().plan(stages(budget).lower(function.module.clone()))
    Machine(program).run(inputs, states)
    assert plan.arena_bytes <= budget
    np.testing.assert_allclose(got["memory"], want["memory"], rtol=1e-5)


def test_a_budget_out_of_reach_is_refused() -> None:
    def build(n: Network) -> Value:
        x = n.emit(Softmax(-1), n.emit(Softmax(0), n.input(8, 8), name="columns"), name="rows")
        return n.emit(ReduceMean((0, 1)), x, name="mean")

    with pytest.raises(UnsupportedError) as caught:
        stages(100).lower(network(build).module)
    assert str(caught.value) == inspect.cleandoc("""
        error: the arena does not fit 100 bytes, but would fit 256
          in function @main, where most bytes are in use:
            %columns = softmax(…) : f32[8, 8]
          help: allow 256 bytes, or make the tensors there smaller: fewer samples, rows or channels, or narrower elements
    """)  # noqa: E501  as users see it


def test_the_smallest_arena_is_refused_a_byte_less() -> None:
    def build(n: Network) -> Value:
        return n.emit(ReduceMean((0,)), n.emit(Softmax(0), n.input(3)))

    function = network(build)
    assert arena(function) == 64
    check(function, 64)
    for budget in (0, 1, 31, 62, 63):
        with pytest.raises(UnsupportedError, match="but would fit 64"):
            check(function, budget)


def test_the_search_says_that_there_is_no_way() -> None:
    profile = Profile(network(dense), stages().memory)
    assert Search(profile, stages().memory, {}).within(64) is None


def test_only_the_main_function_is_split() -> None:
    module = Module()
    body = Function("body", module)
    body.output("y", body.input("x", TensorType(f32, (2,))))
    main = Function("main", module)
    main.output("y", main.input("x", TensorType(f32, (2,))))
    assert stages(0).lower(module).main is main
