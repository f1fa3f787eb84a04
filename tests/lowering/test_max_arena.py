"""Programs under a budget of memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import afterglow as ag
from afterglow.graph import Builder, Function, Value, run_function
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.ops.pooling import MaxPool
from afterglow.types import DType, TensorType
from afterglow.types.dtype import f32, i32


def conv(
    b: Builder, x: Value, channels: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> Value:
    """A convolution with weights of its own, padded so that stride 1 keeps the extent."""
    inner = x.type.shape[-1] // groups
    rng = np.random.default_rng(channels * 31 + kernel)
    weight = rng.integers(-3, 4, (channels, kernel, kernel, inner)).astype(x.type.dtype.numpy)
    if x.type.dtype is f32:
        weight = weight / np.float32(kernel * np.sqrt(inner))
    pad = kernel // 2
    op = Conv((stride, stride), (pad, pad, pad, pad), (1, 1), groups)
    return b.emit(op, x, b.constant(weight))


def inverted_residuals(dtype: DType) -> Function:
    """Two blocks as in MobileNetV2: narrow, wide, depthwise, narrow, plus what came in."""
    f = Function("main")
    b = Builder(f)
    x = f.input("x", TensorType(dtype, (1, 16, 16, 4)))
    for _ in range(2):
        start = conv(b, x, 4, 3)
        wide = conv(b, start, 24)
        deep = conv(b, wide, 24, 3, groups=24)
        x = b.emit(Add(), conv(b, deep, 4), start)
    f.output("y", conv(b, x, 2))
    return f


def check(f: Function, budget: int | str, tolerance: float = 1e-4) -> int:
    """Compile under a budget and compare; returns the arena."""
    rng = np.random.default_rng(0)
    type = f.inputs[0].type
    x = rng.integers(-4, 5, type.shape).astype(type.dtype.numpy)
    (want,) = run_function(f, [x])
    model = ag.compile(f.module, max_arena=budget, verify=True)
    np.testing.assert_allclose(model(x), want, rtol=tolerance, atol=tolerance)
    return model.memory.arena_bytes


def test_wide_blocks_run_in_bands_when_memory_is_small() -> None:
    f = inverted_residuals(f32)
    whole = ag.compile(f.module).memory.arena_bytes
    assert check(f, whole // 2) <= whole // 2


def test_integers_are_the_same_to_the_bit() -> None:
    f = inverted_residuals(i32)
    whole = ag.compile(f.module).memory.arena_bytes
    assert check(f, whole // 2, tolerance=0) <= whole // 2


def test_sizes_may_be_written_with_units() -> None:
    assert check(inverted_residuals(f32), "1MiB") <= 1 << 20


def test_a_budget_that_nothing_reaches_is_refused() -> None:
    with pytest.raises(ag.AfterglowError) as caught:
        ag.compile(inverted_residuals(f32).module, max_arena=256)
    assert "256" in str(caught.value)


@pytest.mark.parametrize("text", ["", "lots", "12 apples", "-5", "1KB2"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ag.AfterglowError):
        ag.compile(inverted_residuals(f32).module, max_arena=text)


@st.composite
def chains(draw: st.DrawFn) -> Function:
    """Convolutions, pooling and sums, with strides and residuals."""
    f = Function("main")
    b = Builder(f)
    x: Value = f.input("x", TensorType(f32, (1, draw(st.integers(6, 14)), 9, 3)))
    for _ in range(draw(st.integers(2, 6))):
        match draw(st.integers(0, 3)):
            case 0:
                x = conv(b, x, draw(st.integers(1, 8)), draw(st.sampled_from([1, 3, 5])))
            case 1:
                x = conv(b, x, draw(st.integers(1, 8)), 3, draw(st.sampled_from([1, 2])))
            case 2 if min(x.type.shape[1:3]) >= 3:
                x = b.emit(MaxPool((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)), x)
            case _:
                x = b.emit(Add(), b.emit(Relu(), conv(b, x, x.type.shape[-1], 3)), x)
    f.output("y", x)
    return f


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(chains(), st.sampled_from([0.9, 0.7, 0.5]))
def test_what_fits_a_budget_is_right(f: Function, share: float) -> None:
    whole = ag.compile(f.module).memory.arena_bytes
    budget = int(whole * share)
    try:
        assert check(f, budget, tolerance=1e-3) <= budget
    except ag.AfterglowError as error:
        assert "budget" in error.what or "arena" in error.what  # noqa: PT017  both ways are right
