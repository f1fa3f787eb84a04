"""Products with, and look-ups in, matrices stored as integers with scales."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afterglow.backends.cpu import Target, assembly
from afterglow.backends.cpu.codegen.write import plans_for
from afterglow.backends.policy import Policy
from afterglow.driver.api import compile
from afterglow.graph import Builder, Function, Module, Op, run_function
from afterglow.ops.activation import Tanh
from afterglow.ops.elementwise import Add
from afterglow.ops.rounded_rows import round_rows
from afterglow.ops.stored import Activations, StoredGather, StoredMatMul
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types import Array, TensorType
from afterglow.types.dtype import DType, bf16, f16, f32, i4, i8, i64, u4, u8
from afterglow.types.extent import Dim, ranged
from tests.backends.cpu.kernels.harness import Bench, best_kernel

RNG = np.random.default_rng(5)
TYPES = (i8, u8, i4, u4)
INT8 = Activations.INT8
NAMES = ("host", "x86-64-v2", "x86-64-v3", "x86-64-v4")
TARGETS = [name for name in NAMES if not Target.of(name).missing_here()]
VNNI = "x86_64-unknown-linux-gnu+x86-64-v4+avx512vnni"


def matrix(
    dtype: DType, rows: int, depth: int, block: int = 0, *, zeros: bool = True, scales: DType = f32
) -> list[Array | None]:
    """Integers of all sizes; scales with which products are about 1; zero points if asked for."""
    return matrix_of(StoredMatMul(block), dtype, rows, depth, zeros=zeros, scales=scales)


def matrix_of(
    op: StoredMatMul,
    dtype: DType,
    rows: int,
    depth: int,
    *,
    zeros: bool = False,
    minimums: bool = False,
    scales: DType = f32,
) -> list[Array | None]:
    """Integers of all sizes that an op allows, and what else it takes."""
    shape = (rows, -(-depth // op.block_size)) if op.block_size else (rows,)
    low, high = (limit >> (dtype.bits - (op.bits or dtype.bits)) for limit in dtype.limits)

    def integers(*shape: int) -> Array:
        return RNG.integers(low, high + 1, shape).astype(dtype.numpy)

    scale = RNG.uniform(0.5, 1, shape) / (high * np.sqrt(depth))
    minimum = (-high * RNG.uniform(0, 1, shape) * scale).astype(scales.numpy)
    parts = [integers(rows, depth), scale.astype(scales.numpy)]
    parts += [integers(*shape) if zeros else None, minimum if minimums else None]
    while parts[-1] is None:
        parts.pop()
    return parts


def rows(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def bench(
    op: Op, x: Array, parts: list[Array | None], target: str = "host", after: Op | None = None
):
    made = Bench(Target.of(target))
    given = [None if part is None else made.constant(part) for part in parts]
    y = made.step(op, made.input(x), *given, stored=after is None)
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
    for target in TARGETS:
        parts = matrix(dtype, 40, depth, 32 if dtype is u4 else 0, scales=bf16)
        op = StoredMatMul(32 if dtype is u4 else 0)
        bench(op, rows(count, depth), parts, target).check(pieces=2)


@pytest.mark.parametrize("count", [1, 7])
def test_steps_that_follow_a_product_work_on_its_results(count: int) -> None:
    bench(StoredMatMul(16), rows(count, 48), matrix(u4, 37, 48, 16), after=Tanh()).check()


@pytest.mark.parametrize("depth", [1, 7, 8, 9, 31, 33, 64, 65])
def test_depths_that_fill_no_word_or_block(depth: int) -> None:
    for target in TARGETS:
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
    for target in TARGETS:
        (result,) = bench(StoredMatMul(32), x, matrix(u4, 20, 64, 32), target).run()
        assert np.isnan(result[0]).all()
        assert np.isfinite(result[1]).all()


FORMATS = [
    (i4, StoredMatMul(32), {"scales": f16}),
    (u4, StoredMatMul(32), {"minimums": True, "scales": f16}),
    (i8, StoredMatMul(32, bits=5), {}),
    (u8, StoredMatMul(32, bits=5), {"zeros": True, "minimums": True}),
    (i8, StoredMatMul(16, bits=6), {}),
    (i8, StoredMatMul(64, bits=7), {"zeros": True}),
    (u8, StoredMatMul(48, bits=3), {}),
    (u4, StoredMatMul(4, bits=2), {}),
    (i8, StoredMatMul(32), {"scales": f16}),
    (u8, StoredMatMul(), {"zeros": True, "minimums": True}),
]
"""Types, ops and what else there is, as files of language models have them, and others."""


@pytest.mark.parametrize(("dtype", "op", "more"), FORMATS)
def test_formats_with_activations_of_either_kind(dtype: DType, op: StoredMatMul, more) -> None:
    for activations in Activations:
        own = replace(op, activations=activations)
        bench(own, rows(1, 133), matrix_of(op, dtype, 37, 133, **more)).check(pieces=2)
    bench(own, rows(6, 64), matrix_of(op, dtype, 37, 64, **more)).check(pieces=2)


@pytest.mark.parametrize("target", TARGETS[1:])
def test_rounded_rows_on_other_machines(target: str) -> None:
    for dtype, bits in ((i4, 0), (u8, 5), (i8, 0)):
        op = StoredMatMul(32, bits, INT8)
        for count in (1, 6):
            bench(op, rows(count, 64), matrix_of(op, dtype, 37, 64), target).check(pieces=2)


@pytest.mark.parametrize("depth", [200, 256, 300, 609])
def test_rows_rounded_in_larger_blocks(depth: int) -> None:
    x = rows(3, depth) * np.linspace(1, 9, depth, dtype=np.float32)
    x[2, -1] = np.nan
    for dtype, bits in ((i4, 0), (u8, 5)):
        op = StoredMatMul(32, bits, INT8, row_block=256)
        parts = matrix_of(op, dtype, 37, depth, minimums=True)
        for target in TARGETS:
            bench(op, x[:2], parts, target).check(pieces=2)
        (result,) = bench(op, x, parts).run()
        assert np.isnan(result[2]).all()
    assert not np.array_equal(round_rows(x[:1]), round_rows(x[:1], 256))


@pytest.mark.parametrize(("dtype", "op", "more"), FORMATS)
def test_look_ups_in_formats(dtype: DType, op: StoredMatMul, more) -> None:
    gather, parts = StoredGather(op.block_size, op.bits), matrix_of(op, dtype, 70, 45, **more)
    bench(gather, np.array([0, 69, -1, 33]), parts).check(pieces=2)


def test_rounded_rows_meet_integers_exactly() -> None:
    whole = RNG.integers(-127, 128, (3, 96)).astype(np.float32)
    whole[:, ::32] = 127
    for dtype, bits in ((i4, 0), (i8, 5), (i8, 6), (i8, 0)):
        op = StoredMatMul(32, bits, INT8)
        parts = matrix_of(op, dtype, 40, 96)
        parts[1] = np.ones_like(parts[1])
        exact = whole.astype(np.int64) @ parts[0].astype(np.int64).T
        (result,) = bench(op, whole, parts).run()
        np.testing.assert_array_equal(result, exact)


def test_the_largest_sums_of_pairs_are_exact() -> None:
    x = np.full((1, 64), 127, np.float32)
    for bits in (4, 5, 6, 7, 8):
        op = StoredMatMul(32, bits, INT8)
        parts = [np.full((8, 64), (1 << bits) - 1, np.uint8), np.ones((8, 2), np.float32)]
        (result,) = bench(op, x, parts).run()
        np.testing.assert_array_equal(result, np.full((1, 8), 64 * 127 * ((1 << bits) - 1)))


def test_rounded_rows_that_are_not_numbers_give_none() -> None:
    x = rows(3, 64)
    x[0, 5], x[1, 40] = np.nan, np.inf
    op = StoredMatMul(32, activations=INT8)
    (result,) = bench(op, x, matrix(i4, 20, 64, 32, zeros=False)).run()
    assert np.isnan(result[:2]).all()
    assert np.isfinite(result[2]).all()


def test_rounding_is_off_by_half_a_step_at_most() -> None:
    x = rows(4, 100) * np.float32(1e3)
    off = np.abs(round_rows(x) - x)
    assert (off <= np.abs(x).max() / 254 * 1.0001).all()
    assert (round_rows(np.zeros((1, 40), np.float32)) == 0).all()


def test_numbers_that_need_more_bits_than_promised_are_not_packed() -> None:
    function = Function("main")
    b = Builder(function)
    x = function.input("x", TensorType(f32, (2, 64)))
    parts = matrix(i8, 40, 64, 32, zeros=False)
    function.output("y", b.emit(StoredMatMul(32, bits=6), x, *map(b.constant, parts)))
    given = rows(2, 64)
    (wanted,) = run_function(function, [given])
    result = compile(function.module, cache=False)(given)
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("block", [0, 16])
def test_look_ups(dtype: DType, block: int) -> None:
    places = np.array([[0, 69, -1], [-70, 33, 64]])
    for depth in (48, 45):
        for zeros in (False, True):
            parts = matrix(dtype, 70, depth, block, zeros=zeros)
            bench(StoredGather(block), places, parts).check(pieces=2, rtol=0, atol=0)


def module_of(
    shape: tuple[int, ...],
    parts: list[Array],
    block: int,
    activations: Activations = Activations.FLOAT32,
) -> Module:
    """A product, plus a bias."""
    function = Function("main")
    b = Builder(function)
    x = function.input("x", TensorType(f32, shape))
    product = b.emit(StoredMatMul(block, activations=activations), x, *map(b.constant, parts))
    function.output("y", b.emit(Add(), product, b.constant(rows(parts[0].shape[0]))))
    return function.module


def test_rows_of_any_number() -> None:
    extent = ranged(Dim("s", 1, 30))
    runs = [{"s": n} for n in (1, 2, 3, 4, 7, 30)]
    check_ranged(module_of((extent, 64), matrix(u4, 100, 64, 32), 32), runs)
    check_ranged(module_of((2, extent, 33), matrix(i8, 20, 33, zeros=False), 0), runs)
    check_ranged(module_of((extent, 64), matrix(i4, 100, 64, 32, zeros=False), 32, INT8), runs)


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


def test_instructions_for_products_of_bytes_are_used() -> None:
    wanted = {
        "x86-64-v3": "vpmaddubsw",
        VNNI: "vpdpbusd",
        "aarch64-dotprod": "sdot",
    }
    op = StoredMatMul(32, activations=INT8)
    for target, instruction in wanted.items():
        made, aim = bench(op, rows(1, 64), matrix_of(op, i4, 40, 64)), Target.of(target)
        assert instruction in assembly(best_kernel(made.job(), aim).module, aim)


@pytest.mark.parametrize(
    "target", ["aarch64", "aarch64-dotprod", "wasm32", "riscv64", "cortex-m4", VNNI]
)
def test_code_for_other_machines(target: str) -> None:
    aim = Target.of(target)
    for count in (1, 6):
        for bits in (5, 8):
            for activations in Activations:
                op = StoredMatMul(32, bits, activations)
                made = bench(op, rows(count, 64), matrix_of(op, u8, 40, 64))
                assert assembly(best_kernel(made.job(), aim).module, aim)


def test_blocks_that_cut_quads_are_not_kernels() -> None:
    function = Function("main")
    b = Builder(function)
    x = function.input("x", TensorType(f32, (2, 64)))
    function.output("y", b.emit(StoredMatMul(6), x, *map(b.constant, matrix(u4, 40, 64, 6))))
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
