"""Steps before and after an anchor, on kernels that run."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.broadcast import chain_strides
from afterglow.backends.cpu.codegen.write import can_fuse
from afterglow.backends.cpu.micro.fusion import _leading_to
from afterglow.backends.cpu.target import Target
from afterglow.instr import Stack
from afterglow.ops.activation import Relu
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.functions import Exp
from afterglow.ops.linear import MatMul
from afterglow.ops.softmax import Softmax
from afterglow.types import DType
from afterglow.types.dtype import bf16, f16, f32
from tests.backends.cpu.kernels.harness import Bench

TARGETS = [Target.host(), Target.of("x86-64-v3")]
RANDOM = np.random.default_rng(7)


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("target", TARGETS, ids=["host", "v3"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (2, 5, 33), (7,), ()])
def test_chains_of_element_wise_steps(shape: tuple[int, ...], target: Target) -> None:
    bench = Bench(target)
    x, z = bench.input(numbers(*shape)), bench.input(numbers(*shape))
    a = bench.step(Mul(), x, z)
    b = bench.step(Exp(), a)
    bench.step(Add(), b, a, stored=True)
    bench.check()
    bench.check(pieces=3)


BROADCAST = [(5, 1), (1, 17), (17,), (1,), (), (5, 17)]


@pytest.mark.parametrize("shape", BROADCAST, ids=str)
def test_operands_are_broadcast(shape: tuple[int, ...]) -> None:
    bench = Bench()
    x, z = bench.input(numbers(5, 17), gaps=True), bench.input(numbers(*shape))
    product = bench.step(Mul(), x, z)
    bench.step(Relu(), product, stored=True, gaps=True)
    bench.check()
    bench.check(pieces=3)


def test_a_chain_may_store_more_than_its_end() -> None:
    bench = Bench()
    x = bench.input(numbers(4, 9))
    e = bench.step(Exp(), x, stored=True)
    bench.step(Relu(), e, stored=True)
    bench.check()


@pytest.mark.parametrize("target", TARGETS, ids=["host", "v3"])
@pytest.mark.parametrize("shape", [(9,), (1, 9), (6, 9), (6, 1), ()])
def test_what_follows_a_product(shape: tuple[int, ...], target: Target) -> None:
    bench = Bench(target)
    x, w = bench.input(numbers(6, 5)), bench.constant(numbers(5, 9))
    product = bench.step(MatMul(), x, w)
    shifted = bench.step(Add(), product, bench.input(numbers(*shape)))
    bench.step(Relu(), shifted, stored=True, gaps=True)
    bench.check()
    bench.check(pieces=3)


def test_what_is_computed_while_it_is_read() -> None:
    bench = Bench()
    x, z = bench.input(numbers(6, 21)), bench.input(numbers(21))
    scaled = bench.step(Mul(), x, z)
    bench.step(Softmax(axis=-1), scaled, stored=True)
    if not can_fuse(bench.job()):
        pytest.skip("softmax reads only what lies in memory")
    bench.check()


def test_only_the_steps_that_lead_to_an_operand() -> None:
    bench = Bench()
    x = bench.input(numbers(3, 3))
    a = bench.step(Exp(), x)
    b = bench.step(Relu(), x)
    c = bench.step(Add(), a, x)
    steps = bench.steps
    assert _leading_to(c, steps) == (steps[0], steps[2])
    assert _leading_to(b, steps) == (steps[1],)
    assert _leading_to(x, steps) == ()


def test_strides_of_all_that_a_chain_touches() -> None:
    bench = Bench()
    x, z = bench.input(numbers(4, 3)), bench.input(numbers(3))
    y = bench.step(Add(), x, z, stored=True)
    strides = chain_strides(bench.steps, (4, 3))
    assert strides == {x: (3, 1), z: (0, 1), y: (3, 1)}


def test_what_does_not_fit_is_not_fused() -> None:
    bench = Bench()
    x, w = bench.input(numbers(6, 5)), bench.input(numbers(5, 9))
    product = bench.step(MatMul(), x, w)
    larger = bench.step(Add(), product, bench.input(numbers(2, 6, 9)), stored=True)
    assert larger.type.shape == (2, 6, 9)
    assert not can_fuse(bench.job())


def test_a_stack_without_locals_is_one_job() -> None:
    bench = Bench()
    x = bench.input(numbers(2, 8))
    a = bench.step(Exp(), x, stored=True)
    bench.step(Add(), a, x, stored=True)
    assert bench.job().steps == Stack(tuple(bench.steps), ()).body
    bench.check(pieces=2)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_narrow_floats_are_rounded_where_they_are_stored_or_become_others(dtype: DType) -> None:
    bench = Bench()
    x = bench.input(np.array([2048.0, 1.0, -3.0], dtype.numpy))
    one = bench.input(np.array([1.0], dtype.numpy))
    sum = bench.step(Add(), x, one)  # 2049 is none of f16
    twice = bench.step(Add(), sum, one, stored=True)
    bench.step(Cast(f32), sum, stored=True)
    bench.step(Cast(f32), twice, stored=True)
    (rounded, wide, end) = bench.run()
    assert rounded.tolist() == np.array([2050, 3, -1], dtype.numpy).tolist()
    assert wide.tolist() == [2048, 2, -2]
    assert end.tolist() == rounded.astype(np.float32).tolist()
