"""The same expressions for other machines: run where this one can, compiled where not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from afterglow.backends.cpu import Module, Target, compile_module
from afterglow.graph import Op
from afterglow.ops import activation, conversion, elementwise, functions, quantization
from afterglow.ops.power import Pow
from afterglow.types import dtype as d
from afterglow.types.dtype import DType, f32
from tests.backends.cpu.pointwise.checking import run_and_check
from tests.backends.cpu.pointwise.harness import Job, write
from tests.backends.cpu.pointwise.samples import pairs, sample
from tests.backends.cpu.running import RUNNABLE

ELSEWHERE = ["aarch64", "cortex-m4", "riscv64", "wasm32"]
_UNARY: list[tuple[Op, tuple[DType, ...]]] = [
    *((op(), (d.f32, d.f64, d.f16)) for op in (functions.Tanh, activation.Sigmoid)),
    *((op(), (d.f32, d.bf16)) for op in (activation.Gelu, activation.Swish, activation.Elu)),
    *((op(), (d.f32, d.f64)) for op in (activation.Softplus, activation.Mish)),
    (elementwise.Round(), (d.f32, d.f64, d.f8e5m2)),
    (elementwise.Sign(), (d.f32, d.i8, d.u16)),
]
_BINARY: list[tuple[Op, tuple[DType, ...]]] = [
    (elementwise.Div(), (d.i8, d.i32, d.i64, d.u32)),
    (elementwise.Mod(), (d.i16, d.i64, d.f32)),
    (elementwise.Mod(truncated=True), (d.f32,)),
    (Pow(), (d.f32, d.i32)),
    (elementwise.ShiftRight(), (d.i8, d.u64)),
    (elementwise.Max(), (d.f32, d.f16)),
]
_CASTS = [(d.f32, d.u8), (d.f64, d.i64), (d.f32, d.u32), (d.f32, d.f8e4m3fn), (d.i4, d.f16)]


def jobs() -> Iterator[Job]:
    rng = np.random.default_rng(0)
    for op, dtypes in _UNARY:
        yield from (Job(op, dtype, (sample(dtype, rng),)) for dtype in dtypes)
    for op, dtypes in _BINARY:
        yield from (Job(op, dtype, pairs(dtype, rng)) for dtype in dtypes)
    for source, dtype in _CASTS:
        yield Job(conversion.Cast(dtype), dtype, (sample(source, rng),))
    x = sample(f32, rng)
    scale, zero = np.full(x.size, 0.1, np.float32), np.full(x.size, 3, np.int8)
    for dtype in (d.i8, d.u8):
        numbers = (x, scale, zero.astype(dtype.numpy))
        yield Job(quantization.QuantizeLinear(dtype=dtype), dtype, numbers)


@pytest.mark.parametrize("name", RUNNABLE)
def test_expressions_are_right_on(name: str) -> None:
    run_and_check(list(jobs()), Target.of(name))


@pytest.mark.parametrize("name", ELSEWHERE)
def test_expressions_compile_for(name: str) -> None:
    target = Target.of(name)
    module = Module(target)
    for place, job in enumerate(jobs()):
        with module.function(f"job{place}") as e:
            write(e, job)
    assert compile_module(module, target)
