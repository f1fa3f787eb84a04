"""Products with, and look-ups in, matrices stored as integers with scales."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target, assembly
from afterglow.backends.cpu.codegen.write import plans_for
from afterglow.backends.policy import Policy
from afterglow.driver.api import compile
from afterglow.graph import Builder, Function, Module, Op, run_function
from afterglow.ops.activation import Tanh
from afterglow.ops.elementwise import Add
from afterglow.ops.stored import StoredGather, StoredMatMul
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types import Array, TensorType
from afterglow.types.dtype import DType, bf16, f32, i4, i8, i64, u4, u8
from afterglow.types.extent import Dim, ranged
from tests.backends.cpu.kernels.harness import Bench, best_kernel

RNG = np.random.default_rng(5)
TYPES = (i8, u8, i4, u4)
TARGETS = ("host", "x86-64-v2", "x86-64-v3", "x86-64-v4")


def matrix(
    dtype: DType, rows: int, depth: int, block: int = 0, *, zeros: bool = True, scales: DType = f32
) -> list[Array]:
    """Integers of all sizes; scales with which products are about 1; zero points if asked for."""
    shape = (rows, -(-depth // block)) if block else (rows,)
    low, high = dtype.limits

    def integers(*shape: int) -> Array:
        return RNG.integers(low, high + 1, shape).astype(dtype.numpy)

    scale = RNG.uniform(0.5, 1, shape) / (high * np.sqrt(depth))
    parts = [integers(rows, depth), scale.astype(scales.numpy)]
    return [*parts, integers(*shape)] if zeros else parts


def rows(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def bench(op: Op, x: Array, parts: list[Array], target: str = "host", after: Op | None = None):
    made = Bench(Target.of(target))
    y = made.step(op, made.input(x), *map(made.constant, parts), stored=after is None)
    if after is not None:
        made.step(after, y, stored=True)
    return made


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("block", "zeros"), [(0, False), (0, True), (16, True), (128, False)])
def test_products_of_one_row(dtype: DType, block: int, zeros: bool) -> None:
    for target in TARGETS:
        parts = matrix(dtype, 70, 133, block, zeros=zeros)
        bench(StoredMatMul(block), rows(1, 133), parts, target).check(pieces=2)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 20, 70])
@pytest.mark.parametrize(("dtype", "depth"), [(u4, 96), (i8, 45)])
def test_products_of_several_rows(count: int, dtype: DType, depth: int) -> None:
    for target in ("host", "x86-64-v3"):
        parts = matrix(dtype, 40, depth, 32 if dtype is u4 else 0, scales=bf16)
        op = StoredMatMul(32 if dtype is u4 else 0)
        bench(op, rows(count, depth), parts, target).check(pieces=2)


@pytest.mark.parametrize("count", [1, 7])
def test_steps_that_follow_a_product_work_on_its_results(count: int) -> None:
    bench(StoredMatMul(16), rows(count, 48), matrix(u4, 37, 48, 16), after=Tanh()).check()


@pytest.mark.parametrize("depth", [1, 7, 8, 9, 31, 33, 64, 65])
def test_depths_that_fill_no_word_or_block(depth: int) -> None:
    for target in ("host", "x86-64-v3"):
        bench(StoredMatMul(32), rows(1, depth), matrix(u4, 5, depth, 32), target).check()
        bench(StoredMatMul(), rows(2, depth), matrix(i8, 5, depth), target).check()


def test_rows_of_very_large_very_small_and_no_numbers() -> None:
    parts = matrix(u4, 20, 64, 32)
    for factor in (1e30, 1e-30, 0.0):
        x = rows(1, 64) * np.float32(factor)
        made = bench(StoredMatMul(32), x, parts)
        (result,) = made.run()
        wanted = StoredMatMul(32).evaluate(x, *parts)
        np.testing.assert_allclose(result, wanted, atol=4e-6 * factor, rtol=1e-5)


def test_a_row_that_is_not_a_number_gives_none() -> None:
    x = rows(2, 64)
    x[0, 5] = np.nan
    for target in ("host", "x86-64-v3"):
        (result,) = bench(StoredMatMul(32), x, matrix(u4, 20, 64, 32), target).run()
        assert np.isnan(result[0]).all()
        assert np.isfinite(result[1]).all()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("block", [0, 16])
def test_look_ups(dtype: DType, block: int) -> None:
    places = np.array([[0, 69, -1], [-70, 33, 64]])
    for depth in (48, 45):
        for zeros in (False, True):
            parts = matrix(dtype, 70, depth, block, zeros=zeros)
            bench(StoredGather(block), places, parts).check(pieces=2, rtol=0, atol=0)


def module_of(shape: tuple[int, ...], parts: list[Array], block: int) -> Module:
    """A product, plus a bias."""
    function = Function("main")
    b = Builder(function)
    x = function.input("x", TensorType(f32, shape))
    product = b.emit(StoredMatMul(block), x, *map(b.constant, parts))
    function.output("y", b.emit(Add(), product, b.constant(rows(parts[0].shape[0]))))
    return function.module


def test_rows_of_any_number() -> None:
    extent = ranged(Dim("s", 1, 30))
    runs = [{"s": n} for n in (1, 2, 3, 4, 7, 30)]
    check_ranged(module_of((extent, 64), matrix(u4, 100, 64, 32), 32), runs)
    check_ranged(module_of((2, extent, 33), matrix(i8, 20, 33, zeros=False), 0), runs)


@pytest.mark.parametrize("count", [1, 9])
def test_two_threads(count: int) -> None:
    module = module_of((count, 256), matrix(u4, 700, 256, 32), 32)
    x = rows(count, 256)
    (wanted,) = run_function(module.main, [x])
    result = compile(module, threads=2, cache=False)(x)
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def test_a_table_that_is_multiplied_and_looked_up_is_in_memory_once() -> None:
    function = Function("main")
    b = Builder(function)
    parts = [b.constant(part) for part in matrix(u4, 512, 256, 32, scales=bf16)]
    taken = b.emit(StoredGather(32), function.input("i", TensorType(i64, (1,))), *parts)
    function.output("y", b.emit(StoredMatMul(32), taken, *parts))
    model = compile(function.module, cache=False)
    words, scales, zeros = 512 * 128, 512 * 8 * 2, 512 * 8
    assert model.memory.weight_bytes == words + scales + zeros


@pytest.mark.parametrize("target", ["aarch64", "aarch64-dotprod", "wasm32"])
def test_code_for_other_machines(target: str) -> None:
    for count in (1, 6):
        made = bench(StoredMatMul(32), rows(count, 64), matrix(u4, 40, 64, 32))
        aim = Target.of(target)
        assert assembly(best_kernel(made.job(), aim).module, aim)


def test_blocks_that_cut_words_are_not_kernels() -> None:
    function = Function("main")
    b = Builder(function)
    x = function.input("x", TensorType(f32, (2, 64)))
    function.output("y", b.emit(StoredMatMul(12), x, *map(b.constant, matrix(u4, 40, 64, 12))))
    given = rows(2, 64)
    (wanted,) = run_function(function, [given])
    result = compile(function.module, cache=False)(given)
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [1, 3])
def test_exact_products_multiply_floats(count: int) -> None:
    made = bench(StoredMatMul(32), rows(count, 64), matrix(u4, 40, 64, 32))
    made.policy = Policy(exact=True)
    assert plans_for(made.job(), made.target, made.policy)[0].settings["rows"] == "floats"
    made.check()
