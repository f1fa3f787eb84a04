"""Programs under a budget of memory."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow.graph import Builder, Function, Value, run_function
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.types import TensorType
from afterglow.types.dtype import f32


def conv(b: Builder, x: Value, channels: int, kernel: int = 1, groups: int = 1) -> Value:
    """A convolution with weights of its own, padded so that stride 1 keeps the extent."""
    inner = x.type.shape[-1] // groups
    rng = np.random.default_rng(channels * 31 + kernel)
    weight = rng.standard_normal((channels, kernel, kernel, inner)).astype(np.float32)
    pad = kernel // 2
    op = Conv((1, 1), (pad, pad, pad, pad), (1, 1), groups)
    return b.emit(op, x, b.constant(weight))


def inverted_residuals() -> Function:
    """Two blocks as in MobileNetV2: narrow, wide, depthwise, narrow, plus what came in."""
    f = Function("main")
    b = Builder(f)
    x = f.input("x", TensorType(f32, (1, 16, 16, 4)))
    for _ in range(2):
        start = conv(b, x, 4, 3)
        wide = conv(b, start, 24)
        deep = conv(b, wide, 24, 3, groups=24)
        x = b.emit(Add(), conv(b, deep, 4), start)
    f.output("y", conv(b, x, 2))
    return f


def check(f: Function, budget: int | str) -> int:
    """Compile under a budget and compare; returns the arena."""
    x = np.random.default_rng(0).standard_normal(f.inputs[0].type.shape).astype(np.float32)
    (want,) = run_function(f, [x])
    model = ag.compile(f.module, max_arena=budget, verify=True)
    np.testing.assert_allclose(model(x), want, rtol=1e-3, atol=1e-2)
    return model.memory.arena_bytes


def test_wide_blocks_run_in_bands_when_memory_is_small() -> None:
    f = inverted_residuals()
    whole = ag.compile(f.module).memory.arena_bytes
    assert check(f, whole // 2) <= whole // 2


def test_sizes_may_be_written_with_units() -> None:
    assert check(inverted_residuals(), "1MiB") <= 1 << 20


@pytest.mark.parametrize("text", ["", "lots", "12 apples", "-5", "1KB2"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ag.AfterglowError):
        ag.compile(inverted_residuals().module, max_arena=text)
