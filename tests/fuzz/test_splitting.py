"""Random chains under random budgets: never wrong numbers, never more memory than was allowed."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from afterglow.backends.interpreter import Machine
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Function, Op, Value, run_function
from afterglow.ops.activation import Clip, Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.movement import Concat, Pad, Transpose
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.support.errors import UnsupportedError
from afterglow.testing.graphs import functions_of_floats
from afterglow.types import Array, DType
from afterglow.types.dtype import f32, i32
from tests.lowering.networks import Network, network
from tests.transforms.rewriting import random_inputs

Draw: TypeAlias = st.DrawFn
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
THOROUGH = settings(QUICK, max_examples=2000)


def window(draw: Draw, x: Value) -> tuple[tuple[int, ...], ...]:
    """Kernel, strides, pads and dilations that leave something of x."""
    spatial = x.type.shape[1:-1]
    kernel = tuple(draw(st.integers(1, 4)) for _ in spatial)
    strides = tuple(draw(st.sampled_from([1, 1, 2, 3])) for _ in spatial)
    pads = tuple(draw(st.integers(0, k - 1)) for k in (*kernel, *kernel))
    dilations = tuple(draw(st.sampled_from([1, 1, 2])) for _ in spatial)
    sides = zip(spatial, pads, pads[len(spatial) :], kernel, dilations, strict=False)
    assume(all(n + begin + end > d * (k - 1) for n, begin, end, k, d in sides))
    return kernel, strides, pads, dilations


def convolution(draw: Draw, n: Network, x: Value) -> Value:
    kernel, strides, pads, dilations = window(draw, x)
    channels = x.type.shape[-1]
    groups = draw(st.sampled_from([1, 1, channels]))
    weight = n.constant(
        groups * draw(st.integers(1, 4)), *kernel, channels // groups, dtype=x.type.dtype
    )
    return n.emit(Conv(strides, pads, dilations, groups), x, weight)


def pooling(draw: Draw, n: Network, x: Value) -> Value:
    geometry = window(draw, x)
    ceil = draw(st.booleans())
    mean = x.type.dtype is f32 and draw(st.booleans())
    op = AvgPool(*geometry, ceil, draw(st.booleans())) if mean else MaxPool(*geometry, ceil)
    return n.emit(op, x)


def pointwise(draw: Draw, n: Network, x: Value) -> Value:
    if draw(st.booleans()) and x.type.dtype is f32:
        return n.emit(Clip(-3.0, 3.0), x)
    op: Op = draw(st.sampled_from([Relu(), Add(), Mul()]))
    if isinstance(op, Relu):
        return n.emit(op, x)
    return n.emit(op, x, n.constant(x.type.shape[-1], dtype=x.type.dtype))


def residual(draw: Draw, n: Network, x: Value) -> Value:
    kernel = draw(st.sampled_from([1, 3]))
    y = n.conv(x, x.type.shape[-1], kernel)
    return n.emit(Add(), *draw(st.permutations([x, n.emit(Relu(), y)])))


def concatenated(draw: Draw, n: Network, x: Value) -> Value:
    parts = [n.conv(x, 2, draw(st.sampled_from([1, 3]))) for _ in range(draw(st.integers(1, 3)))]
    return n.emit(Concat(-1), *draw(st.permutations([x, *parts])))


def padded(draw: Draw, n: Network, x: Value) -> Value:
    counts = [(0, *(draw(st.integers(0, 2)) for _ in x.type.shape[1:-1]), 0) for _ in range(2)]
    return n.emit(Pad(*counts), x)


STEPS = [convolution, convolution, pooling, pointwise, residual, concatenated, padded]


@st.composite
def chains(draw: Draw, dtype: DType = f32) -> Function:
    def build(n: Network) -> tuple[Value, ...]:
        spatial = [draw(st.integers(3, 16)) for _ in range(draw(st.sampled_from([2, 2, 2, 1, 3])))]
        x = n.input(
            draw(st.sampled_from([1, 1, 2])), *spatial, draw(st.integers(1, 4)), dtype=dtype
        )
        if draw(st.booleans()):
            x = n.emit(Transpose((*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2)), x)
        values = [x]
        for _ in range(draw(st.integers(2, 7))):
            made = draw(st.sampled_from(STEPS))(draw, n, values[-1])
            assume(0 < made.type.size <= 20_000)
            values.append(made)
        early = [draw(st.sampled_from(values))] if draw(st.booleans()) else []
        return (values[-1], *early)

    return network(build)


def check(function: Function, share: float, tolerance: float, backend: str = "interpreter") -> None:
    """Right numbers within the budget, or no program at all."""
    free = Stages(Options(backend=backend))
    whole = free.plan(free.lower(free.optimise(function.module.clone())))[1].arena_bytes
    budget = int(whole * share)
    tight = Stages(Options(backend=backend, verify=True, max_arena=budget))
    try:
        program, plan = tight.plan(tight.lower(tight.optimise(function.module.clone())))
    except UnsupportedError:
        return
    assert plan.arena_bytes <= budget
    inputs = random_inputs(function)
    want = run_function(function, inputs)
    for machine in (Machine(program), Machine(program, tile=3)):
        for have, expected in zip(machine.run(inputs, {}), want, strict=True):
            assert_close(have, expected, tolerance)


def assert_close(have: Array, expected: Array, tolerance: float) -> None:
    scale = float(np.abs(expected).max(initial=1.0))
    np.testing.assert_allclose(have, expected, rtol=tolerance, atol=tolerance * scale)


SHARES = st.sampled_from([0.95, 0.8, 0.6, 0.4, 0.25])


@QUICK
@given(chains(), SHARES)
def test_chains_under_a_budget_compute_the_same(function: Function, share: float) -> None:
    check(function, share, 1e-5)


@QUICK
@given(chains(i32), SHARES)
def test_chains_of_integers_are_the_same_to_the_bit(function: Function, share: float) -> None:
    check(function, share, 0.0)


@QUICK
@given(functions_of_floats(), SHARES)
def test_any_graph_under_a_budget_computes_the_same(function: Function, share: float) -> None:
    check(function, share, 2e-3)


@pytest.mark.slow
@THOROUGH
@given(chains(), functions_of_floats(most_steps=25), SHARES)
def test_many_graphs_under_a_budget(chain: Function, graph: Function, share: float) -> None:
    check(chain, share, 1e-5)
    check(graph, share, 2e-3, "primitives")
