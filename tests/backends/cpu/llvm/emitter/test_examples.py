"""The example kernels compute what they say, on every target that runs here."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Module, Target, assembly
from tests.backends.cpu.llvm.emitter.example_kernels import axpy, matmul_tiles, softmax_rows
from tests.backends.cpu.running import RUNNABLE, build

each_target = pytest.mark.parametrize("target", RUNNABLE)


@each_target
@pytest.mark.parametrize("size", [0, 1, 3, 16, 17, 100])
def test_axpy(target: str, size: int) -> None:
    rng = np.random.default_rng(size)
    x, y = (rng.normal(size=128).astype(np.float32) for _ in range(2))
    wanted = y.copy()
    wanted[:size] += np.float32(3) * x[:size]
    build(axpy, Target.of(target))(size, np.float32(3), x, y)
    np.testing.assert_allclose(y, wanted, 1e-5, 1e-6)
    np.testing.assert_array_equal(y[size:], wanted[size:])


@each_target
@pytest.mark.parametrize("depth", [1, 4, 7, 64])
def test_matmul(target: str, depth: int) -> None:
    machine = Target.of(target)
    width = 2 * machine.vector_bits // 32
    rng = np.random.default_rng(depth)
    a = rng.normal(size=(3, 6, depth)).astype(np.float32)
    panel = np.zeros(depth * width + 16, np.float32)
    start = (-panel.ctypes.data // 4) % 16
    b = panel[start : start + depth * width].reshape(depth, width)
    b[...] = rng.normal(size=b.shape)
    c = np.ones((3, 6, width), np.float32)
    build(lambda e: matmul_tiles(e, 6, 2, depth), machine)(3, a, b, c)
    np.testing.assert_allclose(c, 1 + a @ b, 1e-5, 1e-5)


def test_the_matmul_stays_in_registers() -> None:
    module = Module(Target.of("x86-64-v3"))
    with module.function("matmul") as e:
        matmul_tiles(e, 6, 2, 256)
    text = assembly(module, module.target)
    assert not [line for line in text.splitlines() if "ymm" in line and "(%rsp)" in line]
    assert text.count("vfmadd") == 4 * 12


@each_target
def test_softmax(target: str) -> None:
    x = np.random.default_rng(0).normal(0, 3, (5, 64)).astype(np.float32)
    y = np.zeros_like(x)
    build(lambda e: softmax_rows(e, 64), Target.of(target))(5, x, y)
    power = np.exp(x - x.max(1, keepdims=True), dtype=np.float64)
    np.testing.assert_allclose(y, power / power.sum(1, keepdims=True), 2e-6)
