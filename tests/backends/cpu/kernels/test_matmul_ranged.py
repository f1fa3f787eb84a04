"""Matrix products whose extents are known only as the code runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from afterglow.driver.api import compile
from afterglow.driver.options import Options, policy_of
from afterglow.driver.stages import Stages
from afterglow.graph import Builder, Function, Module
from afterglow.instr import OpInstr, Stack
from afterglow.ops.activation import Gelu
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.quantized import QuantizedMatMul
from afterglow.runtime.device import StepName, TimesSteps
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types import Array, TensorType
from afterglow.types.dtype import DType, f32, i8, u8
from afterglow.types.extent import Dim, ranged


def extent(name: str, most: int, least: int = 1) -> int:
    return ranged(Dim(name, least, most))


def weights(*shape: int) -> Array:
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def linear(shape: tuple[int, ...], columns: int, *, heavy: bool = False) -> Module:
    """A product with weights and bias; `heavy` with steps after it that go through memory."""
    module = Module()
    main = Function("main", module)
    b = Builder(main)
    product = b.emit(
        MatMul(),
        main.input("x", TensorType(f32, shape)),
        module.constant("w", weights(shape[-1], columns)),
    )
    made = b.emit(Add(), product, module.constant("b", weights(columns)))
    main.output("y", b.emit(Gelu(), made) if heavy else made)
    return module


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize(("depth", "columns"), [(48, 64), (20, 70), (400, 33)])
def test_rows_of_any_number_meet_constant_weights(depth: int, columns: int, heavy: bool) -> None:
    runs = [{"s": n} for n in (1, 2, 3, 6, 7, 13, 31, 69, 70)]
    check_ranged(linear((extent("s", 70), depth), columns, heavy=heavy), runs)


def test_batches_and_positions_are_rows() -> None:
    module = linear((extent("b", 5), extent("s", 40), 24), 40)
    check_ranged(module, [{"b": b, "s": s} for b in (1, 3, 5) for s in (1, 7, 40)])


def product(
    lhs: tuple[int, ...], rhs: tuple[int, ...], op: MatMul | None = None, *, constant: bool = False
) -> Module:
    module = Module()
    main = Function("main", module)
    x = main.input("x", TensorType(f32, lhs))
    y = module.constant("y", weights(*rhs)) if constant else main.input("y", TensorType(f32, rhs))
    main.output("z", Builder(main).emit(op or MatMul(), x, y))
    return module


TARGETS = ["host", "x86-64-v3", "x86-64"]
B, S, T = extent("b", 3), extent("s", 30), extent("t", 90)
RUNS = [{"b": b, "s": s, "t": t} for b, s, t in [(1, 1, 1), (2, 7, 15), (3, 30, 33), (1, 13, 90)]]
FACTORS = {
    "columns": ((B, 3, S, 32), (B, 3, 32, T), MatMul()),
    "columns in lines": ((B, 3, S, 32), (B, 3, T, 32), MatMul(transpose_rhs=True)),
    "depth": ((B, 3, S, T), (B, 3, T, 32), MatMul()),
    "depth in lines": ((B, S, T), (B, 20, T), MatMul(transpose_rhs=True)),
    "depth before rows": ((B, T, S), (B, T, 20), MatMul(transpose_lhs=True)),
    "all alike": ((T, T), (T, T), MatMul()),
    "one row": ((B, 1, 32), (B, T, 32), MatMul(transpose_rhs=True)),
    "few rows": ((S, 5, T), (S, T, 40), MatMul()),
    "one column": ((T, 64), (64, 1), MatMul()),
    "as many rows as batches": ((B, 64), (100, 64), MatMul(transpose_rhs=True)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FACTORS)
def test_both_factors_have_any_extents(name: str, target: str) -> None:
    lhs, rhs, op = FACTORS[name]
    check_ranged(product(lhs, rhs, op), RUNS, target=target, tolerance=2e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_few_rows_meet_any_number_of_columns_along_the_depth(target: str) -> None:
    along = MatMul(transpose_rhs=True)
    runs = [{"b": b, "s": s, "t": t} for b, s, t in [(1, 1, 7), (2, 4, 65), (3, 5, 72), (1, 2, 1)]]
    check_ranged(product((B, 3, S, 67), (B, 3, T, 67), along), runs, target=target, threads=2)
    check_ranged(product((B, 2, 67), (B, T, 67), along), runs, target=target)
    names = [step.kernel for step in kernels(product((S, 67), (T, 67), along), target)]
    assert [name.rpartition("_")[2] for name in names][:1] == ["dots"]


def kernels(module: Module, target: str) -> Sequence[StepName]:
    """The steps of a compiled module."""
    executable = compile(module, cache=False, target=target).compiled.executable
    assert isinstance(executable, TimesSteps)
    return executable.steps()


def test_long_sums_of_any_length_are_made_in_blocks() -> None:
    s = extent("s", 5000)
    runs = [{"s": n} for n in (1, 385, 4999)]
    x, y = np.ones((3, 5000), np.float32), np.full((5000, 70), 0.1, np.float32)
    for run in runs:
        given = [x[:, : run["s"]], y[: run["s"]]]
        check_ranged(product((3, s), (s, 70)), [run], inputs=given)


@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_of_rows_are_as_many_as_rows_need(threads: int) -> None:
    module = product((extent("s", 600), 600), (600, 40), constant=True)
    check_ranged(module, [{"s": n} for n in (1, 5, 150, 599)], threads=threads)


def quantized(
    lhs: tuple[int, ...], rhs: tuple[int, ...], op: QuantizedMatMul, types: tuple[DType, DType]
) -> Module:
    module = Module()
    main = Function("main", module)
    numbers = np.random.default_rng(5).integers(0, 100, rhs)
    x = main.input("x", TensorType(types[0], lhs))
    y = module.constant("y", numbers.astype(types[1].numpy))
    scale = module.constant("scale", np.full(rhs[-1], 0.01, np.float32))
    main.output("z", Builder(main).emit(op, x, y, scale))
    return module


@pytest.mark.parametrize("target", TARGETS)
def test_bytes_in_any_number_of_rows(target: str) -> None:
    runs = [{"b": b, "s": s} for b, s in [(1, 1), (1, 7), (2, 13), (3, 30)]]
    op = QuantizedMatMul(lhs_zero_point=3, rhs_zero_point=7)
    check_ranged(quantized((B, S, 64), (64, 40), op, (u8, i8)), runs, target=target)
    check_ranged(quantized((S, 66), (66, 33), op, (i8, u8)), runs, target=target)


def algorithms_of(module: Module, target: str) -> set[str]:
    """The algorithms that are planned for a module."""
    stages = Stages(Options(target=target, policy=policy_of(exact=False, optimize_for="speed")))
    program, _ = stages.plan(stages.lower(stages.optimise(module)))
    plans = [step.plan for step in program.body if isinstance(step, (OpInstr, Stack))]
    return {plan.algorithm for plan in plans if plan is not None}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("depth", "columns"), [(256, 512), (801, 1000)])
def test_many_rows_go_by_strassen_and_few_do_not(depth: int, columns: int, target: str) -> None:
    module = linear((extent("s", 300), depth), columns, heavy=True)
    assert algorithms_of(module, target) == {"strassen"}
    runs = [{"s": n} for n in (1, 6, 39, 41, 64, 131, 300)]
    check_ranged(module, runs, target=target, threads=2, optimize_for="speed")


def test_few_rows_may_have_fewer_tiles_than_there_are_blocks_of_many() -> None:
    module = linear((extent("s", 16384), 768), 256)
    check_ranged(module, [{"s": 1}, {"s": 190}, {"s": 200}])


def test_very_many_rows_go_by_strassen_in_blocks_that_stand_alone() -> None:
    module = linear((extent("s", 6000), 256), 256)
    check_ranged(module, [{"s": n} for n in (5, 191, 400, 1501)], threads=2)


def test_rows_that_are_never_few_all_go_by_strassen() -> None:
    module = linear((extent("s", 400, least=200), 256), 512)
    assert algorithms_of(module, "host") == {"strassen"}
    check_ranged(module, [{"s": n} for n in (200, 201, 400)], threads=2)
