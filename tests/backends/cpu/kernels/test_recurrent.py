"""Recurrent layers: all cells, on shapes of all sorts."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.ops.activation import Relu
from afterglow.ops.quantized_lstm import QuantizedLSTM
from afterglow.ops.recurrent import GRU, LSTM, RNN, Recurrent
from afterglow.testing.cases.case import Case
from afterglow.testing.cases.recurrent import CASES
from afterglow.types import Array
from tests.backends.cpu.kernels.harness import Bench, best_kernel

TARGETS = ["host", "x86-64-v3"]
CELLS = [RNN(), GRU(), GRU(linear_before_reset=True), LSTM(), LSTM(input_forget=True, reverse=True)]
SHAPES = [
    # steps, batch, inputs, width
    (1, 1, 1, 1),
    (5, 1, 7, 32),
    (4, 1, 19, 40),
    (3, 2, 0, 17),
    (3, 5, 8, 16),
    (2, 13, 6, 33),
]


def random(*shape: int, dtype: str = "f4") -> Array:
    rng = np.random.default_rng(len(shape) * 1000 + sum(shape))
    return (rng.standard_normal(shape) / 2).astype(dtype)


def arrays_of(op: Recurrent, shape: tuple[int, ...], dtype: str = "f4") -> list[Array | None]:
    """Every operand that the op has."""
    steps, batch, inputs, width = shape
    gates = {RNN: 1, GRU: 3, LSTM: 4}[type(op)]
    state = random(batch, width, dtype=dtype)
    arrays: dict[str, Array] = {
        "x": random(steps, batch, inputs, dtype=dtype),
        "weight": random(gates * width, inputs, dtype=dtype),
        "recurrence": random(gates * width, width, dtype=dtype),
        "bias": random(gates * width, dtype=dtype),
        "hidden_bias": random(width, dtype=dtype),
        "lengths": np.arange(batch, dtype=np.int32) % (steps + 1),
        "initial_h": state,
        "initial_c": state[::-1].copy(),
        "peepholes": random(3 * width, dtype=dtype),
    }
    return [arrays[name] for name in op.operand_names]


def bench_of(
    op: Recurrent,
    arrays: list[Array | None],
    target: str = "host",
    *,
    constant: bool = True,
    gaps: bool = False,
) -> Bench:
    bench = Bench(Target.of(target))
    operands = []
    for name, array in zip(op.operand_names, arrays, strict=True):
        if array is None:
            operands.append(None)
        elif constant and name in ("weight", "recurrence", "bias"):
            operands.append(bench.constant(array))
        else:
            operands.append(bench.input(array, gaps=gaps))
    bench.steps_of(op, *operands, gaps=gaps)
    return bench


@pytest.mark.parametrize(
    "case", [case for case in CASES if not isinstance(case.op, QuantizedLSTM)], ids=str
)
def test_cases_of_the_op(case: Case) -> None:
    bench = Bench()
    operands = [None if a is None else bench.input(a) for a in case.inputs()]
    bench.steps_of(case.op, *operands)
    if bench.job().is_empty:
        return
    narrow = case.types[0].dtype.bits < 32
    bench.check(rtol=1e-2 if narrow else 1e-5, atol=1e-2 if narrow else 1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("op", CELLS, ids=str)
def test_shapes(op: Recurrent, shape: tuple[int, ...], target: str) -> None:
    bench_of(op, arrays_of(op, shape), target).check()


@pytest.mark.parametrize("op", CELLS, ids=str)
def test_operands_may_be_left_out(op: Recurrent) -> None:
    arrays = arrays_of(op, SHAPES[2])
    rest = [None] * (len(arrays) - 3)
    bench_of(op, [*arrays[:3], *rest]).check()


@pytest.mark.parametrize("shape", SHAPES[3:], ids=str)
@pytest.mark.parametrize("op", CELLS, ids=str)
def test_weights_may_be_unknown_and_rows_apart(op: Recurrent, shape: tuple[int, ...]) -> None:
    bench_of(op, arrays_of(op, shape), constant=False, gaps=True).check(pieces=3)


@pytest.mark.parametrize("dtype", ["f8", "f2", "bfloat16"])
@pytest.mark.parametrize("op", CELLS, ids=str)
def test_other_element_types(op: Recurrent, dtype: str) -> None:
    bench = bench_of(op, arrays_of(op, SHAPES[2], dtype))
    bench.check(rtol=1e-9, atol=1e-12) if dtype == "f8" else bench.check(rtol=5e-2, atol=3e-2)


@pytest.mark.parametrize("shape", [SHAPES[2], SHAPES[5]], ids=str)
@pytest.mark.parametrize("op", CELLS, ids=str)
def test_threads_change_nothing(op: Recurrent, shape: tuple[int, ...]) -> None:
    alone = bench_of(op, arrays_of(op, shape)).run(1)
    shared = bench_of(op, arrays_of(op, shape)).run(3)
    for a, b in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("op", [CELLS[1], CELLS[3]], ids=str)
def test_threads_share_the_sequences_of_a_large_batch(op: Recurrent) -> None:
    bench = bench_of(op, arrays_of(op, (2, 32, 3, 5)))
    steps = best_kernel(bench.job(), bench.target).functions[-2]
    assert (steps.symbol.endswith("steps"), steps.units) == (True, 4)
    bench.check(pieces=3)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("op", CELLS, ids=str)
def test_steps_that_threads_share_are_those_of_one(op: Recurrent, batch: int) -> None:
    arrays = arrays_of(op, (3, batch, 5, 270))
    arrays[2] = arrays[2] / 8
    shared = bench_of(op, arrays)
    shared.check(pieces=3, atol=1e-5)
    alone = bench_of(op, arrays)
    for a, b in zip(alone.run(1), shared.run(3), strict=True):
        np.testing.assert_array_equal(a, b)


def test_steps_after_it() -> None:
    bench = Bench()
    arrays = arrays_of(RNN(), SHAPES[2])
    y, *_ = bench.steps_of(RNN(), *map(bench.input, arrays))
    bench.step(Relu(), y, stored=True)
    bench.check()


@pytest.mark.parametrize("target", ["aarch64", "cortex-m4", "riscv64", "wasm32"])
@pytest.mark.parametrize("op", [CELLS[1], CELLS[3]], ids=str)
def test_other_machines(op: Recurrent, target: str) -> None:
    machine = Target.of(target)
    kernel = best_kernel(bench_of(op, arrays_of(op, SHAPES[2]), target).job(), machine)
    assert compile_module(kernel.module, machine)
