"""Constants held in 16 bits: the same numbers as in f32, in every kernel that reads them so."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.backends.cpu.codegen.constants import Constants
from afterglow.backends.cpu.codegen.write import can_write
from afterglow.backends.cpu.micro.kernel import Packed
from afterglow.backends.cpu.micro.storage_format import storage_type, to_storage
from afterglow.instr import Buffer
from afterglow.ops.activation import Gelu, Relu
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.recurrent import GRU, LSTM, RNN, Recurrent
from afterglow.types import Array, DType
from afterglow.types.dtype import bf16, f16, f32
from tests.backends.cpu.kernels.harness import Bench, best_kernel
from tests.backends.cpu.kernels.test_recurrent import arrays_of

HELD = [bf16, f16]
TARGETS = ["host", "x86-64-v3", "x86-64"]
ELSEWHERE = ["aarch64", "armv7a", "cortex-m4", "riscv64", "wasm32"]
PRODUCTS = [
    # rows, depth, columns
    (1, 1, 1),
    (1, 37, 130),
    (1, 64, 48),
    (1, 33, 17),
    (2, 5, 3),
    (3, 64, 70),
    (4, 100, 2),
    (9, 40, 1),
    (17, 19, 65),
    (40, 21, 97),
]
CELLS = [RNN(), GRU(), GRU(linear_before_reset=True), LSTM()]


def random(*shape: int, dtype: DType = f32) -> Array:
    rng = np.random.default_rng(len(shape) * 1000 + sum(shape))
    return rng.standard_normal(shape).astype(dtype.numpy)


def multiplied(op: MatMul, x: Array, weight: Array, target: str = "host") -> Bench:
    bench = Bench(Target.of(target))
    bench.step(op, bench.input(x), bench.constant(weight), stored=True)
    return bench


def packed_bytes(bench: Bench) -> int:
    """What the constants of the kernel take, with those that are read as they are."""
    kernel, constants = best_kernel(bench.job(), bench.target), Constants()
    for parameter in {p for function in kernel.functions for p in function.parameters}:
        if isinstance(parameter, Packed):
            constants.packed(kernel.job.buffers[parameter.number], parameter)
    return constants.size


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", HELD, ids=str)
@pytest.mark.parametrize(("rows", "depth", "columns"), PRODUCTS)
def test_products_are_those_of_the_widened_weights_bit_by_bit(
    rows: int, depth: int, columns: int, dtype: DType, target: str
) -> None:
    op = MatMul(transpose_rhs=rows % 2 == 1)
    shape = (columns, depth) if op.transpose_rhs else (depth, columns)
    x, weight = random(rows, depth), random(*shape, dtype=dtype)
    (narrow,) = multiplied(op, x, weight, target).run(pieces=3)
    (wide,) = multiplied(op, x, weight.astype(np.float32), target).run()
    np.testing.assert_array_equal(narrow, wide)


@pytest.mark.parametrize("dtype", HELD, ids=str)
@pytest.mark.parametrize(("left", "right"), [((3,), ()), ((), (3,)), ((2, 3), (2, 1))])
def test_batches(left: tuple[int, ...], right: tuple[int, ...], dtype: DType) -> None:
    for rows in (1, 7):
        x, weight = random(*left, rows, 18), random(*right, 18, 41, dtype=dtype)
        multiplied(MatMul(), x, weight).check(pieces=3)


@pytest.mark.parametrize("dtype", HELD, ids=str)
def test_weights_that_are_not_constant(dtype: DType) -> None:
    for op in (MatMul(), MatMul(transpose_rhs=True)):
        for rows in (1, 3, 25):
            bench = Bench()
            shape = (37, 20) if op.transpose_rhs else (20, 37)
            operands = bench.input(random(rows, 20)), bench.input(random(*shape, dtype=dtype))
            bench.step(op, *operands, stored=True)
            bench.check(pieces=2)


@pytest.mark.parametrize("dtype", HELD, ids=str)
def test_steps_after_a_product(dtype: DType) -> None:
    for rows, last in ((1, Relu()), (14, Gelu())):
        bench = Bench()
        weight = bench.constant(random(24, 75, dtype=dtype))
        y = bench.step(MatMul(), bench.input(random(rows, 24)), weight)
        biased = bench.step(Add(), y, bench.constant(random(75)))
        bench.step(last, biased, stored=True, gaps=True)
        bench.check(pieces=3)


def test_they_take_half_the_memory() -> None:
    for rows, columns in ((1, 512), (40, 512), (64, 3)):
        sizes = {
            dtype: packed_bytes(
                multiplied(MatMul(), random(rows, 64), random(64, columns, dtype=dtype))
            )
            for dtype in (f32, bf16, f16)
        }
        assert sizes[bf16] == sizes[f16] == sizes[f32] / 2


def recurrent(op: Recurrent, shape: tuple[int, ...], dtype: DType, target: str = "host") -> Bench:
    bench = Bench(Target.of(target))
    operands: list[Buffer | None] = []
    for name, array in zip(op.operand_names, arrays_of(op, shape), strict=True):
        assert array is not None
        is_weight = name in ("weight", "recurrence")
        given = array.astype(dtype.numpy) if is_weight else array
        operands.append(bench.constant(given) if is_weight else bench.input(given))
    bench.steps_of(op, *operands)
    return bench


@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize("dtype", HELD, ids=str)
@pytest.mark.parametrize("shape", [(5, 1, 7, 32), (4, 1, 19, 40), (2, 13, 6, 33)], ids=str)
@pytest.mark.parametrize("op", CELLS, ids=str)
def test_recurrent_layers(op: Recurrent, shape: tuple[int, ...], dtype: DType, target: str) -> None:
    recurrent(op, shape, dtype, target).check(pieces=3)


def test_recurrent_weights_take_half_the_memory() -> None:
    sizes = {d: packed_bytes(recurrent(LSTM(), (5, 1, 64, 64), d)) for d in (f32, bf16, f16)}
    assert sizes[bf16] == sizes[f16] == sizes[f32] / 2


@pytest.mark.parametrize("dtype", HELD, ids=str)
def test_rows_of_tables_are_widened_in_the_same_kernel(dtype: DType) -> None:
    for columns in (1, 40, 64):
        bench = Bench()
        table = bench.constant(random(9, columns, dtype=dtype))
        picked = bench.step(Gather(0), table, bench.input(np.array([[3, -1], [0, 8]])))
        bench.step(Cast(f32), picked, stored=True)
        bench.check(pieces=3, rtol=0, atol=0)


@pytest.mark.parametrize("target", ELSEWHERE)
def test_it_compiles_elsewhere(target: str) -> None:
    for dtype in HELD:
        benches = [
            multiplied(MatMul(), random(m, 40), random(40, 50, dtype=dtype), target)
            for m in (1, 20)
        ]
        for bench in (*benches, recurrent(LSTM(), (4, 1, 19, 40), dtype, target)):
            job = bench.job()
            assert can_write(job)
            compile_module(best_kernel(job, bench.target).module, bench.target)


def test_what_is_not_easily_read_is_held_in_f32() -> None:
    assert storage_type(f16, Target.of("x86-64-v3")) is f16
    assert storage_type(f16, Target.of("x86-64")) is f32
    assert storage_type(bf16, Target.of("wasm32")) is bf16


def test_pairs_of_vectors_lie_interleaved() -> None:
    line = np.arange(10, dtype=bf16.numpy).reshape(1, 10)
    wanted = [0, 2, 1, 3, 4, 6, 5, 7, 8, 9]
    np.testing.assert_array_equal(to_storage(line, 2, bf16).astype(int), [wanted])
    assert to_storage(line, 2, f16) is line
