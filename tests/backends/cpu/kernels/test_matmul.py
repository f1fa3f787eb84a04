"""Matrix products: every way to compute them, on shapes and types of all sorts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.backends.cpu.codegen.write import can_write
from afterglow.instr import Buffer, Region
from afterglow.ops.activation import Gelu, Relu
from afterglow.ops.elementwise import Add, Mul, Sub
from afterglow.ops.linear import MatMul
from afterglow.testing.cases.case import Case
from afterglow.testing.cases.linear import CASES
from afterglow.types import Array, TensorType
from afterglow.types import dtype as dtypes
from tests.backends.cpu.kernels.harness import Bench, best_kernel

PRODUCTS = [case for case in CASES if isinstance(case.op, MatMul)]
TARGETS = ["host", "x86-64-v3", "x86-64"]
ELSEWHERE = ["aarch64", "armv7a", "cortex-m4", "riscv64", "wasm32"]
TYPES = [
    "f64",
    "f16",
    "bf16",
    "f8e4m3fn",
    "i4",
    "u4",
    "i8",
    "u8",
    "i16",
    "u16",
    "i32",
    "u32",
    "i64",
    "u64",
]
Shape = tuple[int, ...]
_WIDEST = {True: np.int64, False: np.uint64}


def random(*shape: int, dtype: dtypes.DType = dtypes.f32) -> Array:
    rng = np.random.default_rng(len(shape) * 1000 + sum(shape))
    numbers = rng.standard_normal(shape)
    if dtype.is_integer:
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
        numbers = rng.integers(low, low + (1 << dtype.bits) - 1, shape, _WIDEST[dtype.is_signed])
    return numbers.astype(dtype.numpy)


def bench_of(
    op: MatMul,
    lhs: Array,
    rhs: Array,
    *,
    target: str = "host",
    constant: bool = True,
    gaps: bool = False,
) -> Bench:
    bench = Bench(Target.of(target))
    right = bench.constant(rhs) if constant else bench.input(rhs, gaps=gaps)
    bench.step(op, bench.input(lhs, gaps=gaps), right, stored=True, gaps=gaps)
    return bench


def operands(
    rows: int, depth: int, columns: int, op: MatMul, dtype: dtypes.DType = dtypes.f32
) -> tuple[Array, Array]:
    lhs = random(rows, depth, dtype=dtype)
    rhs = random(depth, columns, dtype=dtype)
    return lhs.T.copy() if op.transpose_lhs else lhs, rhs.T.copy() if op.transpose_rhs else rhs


@pytest.mark.parametrize("case", PRODUCTS, ids=str)
def test_cases_of_the_op_have_their_results(case: Case) -> None:
    lhs, rhs = case.inputs()
    assert lhs is not None
    assert rhs is not None
    for constant in (False, True):
        if lhs.dtype.kind == "c":
            with pytest.raises(AssertionError, match="no kernel"):
                bench_of(case.op, lhs, rhs, constant=constant).run()
        elif lhs.size:
            bench_of(case.op, lhs, rhs, constant=constant).check(rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(1, 37, 130), (3, 64, 70), (13, 5, 33), (29, 19, 64), (9, 100, 1), (40, 33, 3), (1, 1, 1)],
)
def test_tails_of_all_axes_are_right(
    rows: int, depth: int, columns: int, constant: bool, target: str
) -> None:
    for transposed in (False, True):
        op = MatMul(transpose_lhs=transposed and rows > 3, transpose_rhs=transposed)
        lhs, rhs = operands(rows, depth, columns, op)
        bench_of(op, lhs, rhs, target=target, constant=constant).check(pieces=3)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("rows", [2, 17])
def test_every_type_is_summed_as_the_op_says(name: str, rows: int) -> None:
    dtype = getattr(dtypes, name)
    tolerance = 1e-2 if dtype.is_narrow_float else 1e-5
    for constant in (False, True):
        op = MatMul(transpose_rhs=not constant)
        lhs, rhs = operands(rows, 35, 21, op, dtype)
        bench_of(op, lhs, rhs, constant=constant).check(pieces=2, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(
    ("left", "right"),
    [((3,), ()), ((), (3,)), ((2, 1), (3,)), ((2, 3), (2, 1)), ((2, 3), (2, 3)), ((2, 3), (3,))],
)
def test_batches_are_broadcast(left: Shape, right: Shape, constant: bool) -> None:
    for rows, gaps in itertools.product((1, 7), (False, True)):
        lhs, rhs = random(*left, rows, 18), random(*right, 18, 11)
        bench_of(MatMul(), lhs, rhs, constant=constant, gaps=gaps).check(pieces=3)


def test_no_depth_gives_zeros() -> None:
    for constant in (True, False):
        bench = bench_of(MatMul(), random(3, 0), random(0, 20), constant=constant)
        np.testing.assert_array_equal(bench.run()[0], np.zeros((3, 20), np.float32))


def test_a_row_repeated_or_read_with_steps_is_right() -> None:
    for strides in ((0, 1), (40, 2), (1, 7)):
        bench = Bench()
        whole = Buffer("whole", TensorType(dtypes.f32, (1000,)), Region.INPUT)
        view = Buffer(
            "x", TensorType(dtypes.f32, (5, 20)), Region.INPUT, base=whole, strides=strides
        )
        bench.memory[view] = random(1000)
        bench.values[view] = view.of(bench.memory[view]).copy()
        bench.step(MatMul(), view, bench.constant(random(20, 30)), stored=True)
        bench.check()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [64, 75])
@pytest.mark.parametrize("rows", [1, 14])
def test_steps_after_it_work_on_the_result(rows: int, columns: int, target: str) -> None:
    for last in (Relu(), Gelu()):
        bench = Bench(Target.of(target))
        y = bench.step(MatMul(), bench.input(random(rows, 24)), bench.constant(random(24, columns)))
        biased = bench.step(Add(), y, bench.constant(random(columns)))
        residual = bench.input(random(rows, columns), gaps=True)
        added = bench.step(Add(), biased, residual, stored=True)
        bench.step(last, added, stored=True, gaps=True)
        bench.check(pieces=3)


def test_an_update_of_a_large_matrix_is_fetched_ahead() -> None:
    bench = Bench(Target.of("x86-64-v3"))
    left, right, weight, speed = (
        bench.input(random(*shape)) for shape in ((9, 520), (9, 700), (520, 700), (520, 700))
    )
    gradient = bench.step(MatMul(transpose_lhs=True), left, right)
    faster = bench.step(Add(), bench.step(Mul(), speed, bench.input(np.float32(0.9))), gradient)
    moved = bench.step(Mul(), faster, bench.input(np.float32(0.1)))
    bench.step(Sub(), weight, moved, stored=True)
    assert best_kernel(bench.job(), bench.target).module.text.count("llvm.prefetch") > 1
    bench.check(pieces=3)


def test_a_matrix_larger_than_the_caches_is_fetched_ahead() -> None:
    op = MatMul(transpose_rhs=True)
    bench_of(op, *operands(2, 500, 1203, op), constant=False).check(pieces=3, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("rows", [1, 301])
def test_units_may_be_cut_anywhere(rows: int, constant: bool, target: str) -> None:
    left, right = random(2, rows, 60), random(60, 100)
    bench = bench_of(MatMul(), left, right, constant=constant, target=target)
    bench.check()
    (whole,) = (array.copy() for array in bench.run())
    (cut,) = bench.run(pieces=3)
    np.testing.assert_array_equal(whole, cut)


@pytest.mark.parametrize("target", ELSEWHERE)
def test_it_compiles_elsewhere(target: str) -> None:
    for rows, columns, constant in ((1, 50, False), (20, 21, True), (20, 21, False)):
        op = MatMul(transpose_rhs=True)
        bench = bench_of(op, *operands(rows, 40, columns, op), target=target, constant=constant)
        job = bench.job()
        assert can_write(job)
        compile_module(best_kernel(job, bench.target).module, bench.target)
