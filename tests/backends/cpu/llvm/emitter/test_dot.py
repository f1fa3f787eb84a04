"""Sums of products of neighbours, with the instructions for them and without."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Emitter, Module, Target, assembly, compile_module
from afterglow.backends.cpu.llvm.emitter import (
    add_dot_quads,
    multiply_add_byte_pairs,
    multiply_add_pairs,
)
from afterglow.backends.cpu.target import NAMED
from afterglow.types.dtype import DType, f32, i8, i16, i32, u8
from tests.backends.cpu.running import RUNNABLE, build

each_target = pytest.mark.parametrize("target", RUNNABLE)


def integers(dtype: DType, size: int, seed: int) -> np.ndarray:
    info = np.iinfo(dtype.numpy)
    drawn = np.random.default_rng(seed).integers(info.min, info.max, size, dtype.numpy, True)
    drawn[: size // 4] = info.max
    drawn[size // 4 : size // 2] = info.min
    return drawn


@each_target
@pytest.mark.parametrize("lanes", [2, 8, 16, 32, 64])
def test_pairs(target: str, lanes: int) -> None:
    def write(e: Emitter) -> None:
        a, b, y = e.pointer("a", i16), e.pointer("b", i16), e.pointer("y", i32)
        y.store(multiply_add_pairs(a.load(0, lanes), b.load(0, lanes)))

    a, b = integers(i16, lanes, 1), integers(i16, lanes, 2)[::-1].copy()
    y = np.zeros(lanes // 2, np.int32)
    build(write, Target.of(target))(a, b, y)
    np.testing.assert_array_equal(y, (a.astype(np.int32) * b).reshape(-1, 2).sum(1))


@each_target
@pytest.mark.parametrize("lanes", [4, 16, 32, 64, 128])
def test_byte_pairs_saturate(target: str, lanes: int) -> None:
    def write(e: Emitter) -> None:
        a, b, y = e.pointer("a", u8), e.pointer("b", i8), e.pointer("y", i16)
        y.store(multiply_add_byte_pairs(a.load(0, lanes), b.load(0, lanes)))

    a, b = integers(u8, lanes, 1), integers(i8, lanes, 2)
    y = np.zeros(lanes // 2, np.int16)
    build(write, Target.of(target))(a, b, y)
    exact = (a.astype(np.int32) * b).reshape(-1, 2).sum(1)
    np.testing.assert_array_equal(y, exact.clip(-32768, 32767))


@each_target
@pytest.mark.parametrize("dtype", [u8, i8], ids=str)
@pytest.mark.parametrize("lanes", [1, 4, 8, 16, 32])
def test_quads_are_exact(target: str, dtype: DType, lanes: int) -> None:
    def write(e: Emitter) -> None:
        a, b, y = e.pointer("a", dtype), e.pointer("b", i8), e.pointer("y", i32)
        y.store(add_dot_quads(y.load(0, lanes), a.load(0, 4 * lanes), b.load(0, 4 * lanes)))

    a, b = integers(dtype, 4 * lanes, 1), integers(i8, 4 * lanes, 2)
    y = np.arange(lanes, dtype=np.int32)
    build(write, Target.of(target))(a, b, y)
    exact = (a.astype(np.int32) * b).reshape(-1, 4).sum(1)
    np.testing.assert_array_equal(y, np.arange(lanes) + exact)


@pytest.mark.parametrize(
    ("target", "dtype", "instruction"),
    [
        ("x86_64-unknown-linux-gnu+x86-64-v4+avx512vnni", u8, "vpdpbusd\t"),
        ("x86_64-unknown-linux-gnu+x86-64-v3+avxvnni", u8, "vpdpbusd\t"),
        ("aarch64-dotprod", i8, "sdot\t"),
        ("aarch64-unknown-linux-gnu+aarch64-dotprod+i8mm", u8, "usdot\t"),
    ],
)
def test_the_instruction_is_used_where_it_is(target: str, dtype: DType, instruction: str) -> None:
    module = Module(Target.of(target))
    with module.function("f") as e:
        lanes = e.lanes(i32)
        a, b, y = e.pointer("a", dtype), e.pointer("b", i8), e.pointer("y", i32)
        y.store(add_dot_quads(y.load(0, lanes), a.load(0, 4 * lanes), b.load(0, 4 * lanes)))
    assert instruction in assembly(module, module.target)


@pytest.mark.parametrize("name", NAMED)
def test_every_target_has_them(name: str) -> None:
    module = Module(Target.of(name))
    with module.function("f") as e:
        lanes = 4 * e.lanes(i32)
        a, b, y = e.pointer("a", u8), e.pointer("b", i8), e.pointer("y", i32)
        y.store(add_dot_quads(y.load(0, lanes), a.load(0, 4 * lanes), b.load(0, 4 * lanes)))
    assert compile_module(module, module.target)


def test_other_types_are_refused() -> None:
    module = Module(Target.of("x86-64-v3"))
    with module.function("f") as e:
        x = e.argument("x", f32, 8)
        with pytest.raises(TypeError, match="the operand must be i16, got f32"):
            multiply_add_pairs(x, x)
