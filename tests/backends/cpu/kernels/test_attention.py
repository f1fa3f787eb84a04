"""Attention: few and many queries, masks of all sorts, operands that lie anyhow."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.attention import Attention
from afterglow.ops.elementwise import Add
from afterglow.testing.cases.attention import CASES
from afterglow.testing.cases.case import Case
from afterglow.types import Array, DType, TensorType
from tests.backends.cpu.kernels.harness import Bench, best_kernel

TARGETS = ["host", "x86-64-v3"]
SHAPES = [
    # batch, heads, shared heads, queries, keys, width, width of values
    (1, 2, 2, 1, 1, 1, 1),
    (1, 3, 3, 1, 33, 64, 64),
    (2, 4, 2, 1, 19, 40, 24),
    (1, 2, 1, 3, 7, 5, 9),
    (1, 1, 1, 2, 50, 130, 150),
    (2, 2, 2, 32, 32, 64, 64),
    (1, 4, 2, 37, 53, 20, 70),
    (1, 1, 1, 16, 3, 7, 33),
    (1, 2, 2, 65, 129, 16, 16),
]


def random(*shape: int, dtype: str = "f4") -> Array:
    rng = np.random.default_rng(len(shape) * 1000 + sum(shape))
    return rng.standard_normal(shape).astype(dtype)


def operands(shape: tuple[int, ...], dtype: str = "f4") -> list[Array]:
    batch, heads, shared, queries, keys, width, mixed = shape
    return [
        random(batch, heads, queries, width, dtype=dtype),
        random(batch, shared, keys, width, dtype=dtype),
        random(batch, shared, keys, mixed, dtype=dtype),
    ]


def bench_of(op: Attention, arrays: list[Array], target: str = "host") -> Bench:
    bench = Bench(Target.of(target))
    bench.step(op, *map(bench.input, arrays), stored=True)
    return bench


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_cases_of_the_op(case: Case, target: str) -> None:
    bench = Bench(Target.of(target))
    bench.step(case.op, *map(bench.input, case.inputs()), stored=True)
    if bench.job().is_empty:
        return
    narrow = case.types[0].dtype.bits < 32
    bench.check(rtol=2e-2 if narrow else 1e-5, atol=1e-2 if narrow else 1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape: tuple[int, ...], target: str) -> None:
    bench_of(Attention(0.2), operands(shape), target).check()


@pytest.mark.parametrize("queries", [1, 20])
def test_heads_of_one_element(queries: int) -> None:
    bench_of(Attention(0.2), operands((1, 2, 2, queries, 20, 1, 1))).check()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_causal(shape: tuple[int, ...]) -> None:
    if shape[4] < shape[3]:
        return
    bench_of(Attention(0.2, causal=True), operands(shape)).check()


@pytest.mark.parametrize("shape", [SHAPES[1], SHAPES[3], SHAPES[6]], ids=str)
@pytest.mark.parametrize("rows", ["one", "each"])
@pytest.mark.parametrize("kind", ["bool", "f4"])
@pytest.mark.parametrize("causal", [False, True])
def test_masks(shape: tuple[int, ...], rows: str, kind: str, causal: bool) -> None:
    batch, heads, _, queries, keys, *_ = shape
    mask = random(batch, heads, queries, keys) if rows == "each" else random(batch, 1, 1, keys)
    made = mask > 0 if kind == "bool" else np.where(mask > 1, np.float32(-np.inf), mask)
    bench_of(Attention(0.2, causal=causal), [*operands(shape), made]).check()


@pytest.mark.parametrize("queries", [1, 37])
@pytest.mark.parametrize("kind", ["bool", "f4"])
@pytest.mark.parametrize("shape", ["", "q1", "k", "h11", "11k", "b1qk"])
def test_masks_that_are_broadcast(shape: str, kind: str, queries: int) -> None:
    extents = {"b": 2, "h": 4, "q": queries, "k": 53, "1": 1}
    mask = random(*(extents[axis] for axis in shape))
    made = np.asarray(mask > 0 if kind == "bool" else mask)
    bench_of(Attention(0.2), [*operands((2, 4, 2, queries, 53, 20, 18)), made]).check()


@pytest.mark.parametrize("queries", [1, 20])
def test_keys_without_elements_count_alike(queries: int) -> None:
    bench_of(Attention(0.2), operands((1, 2, 2, queries, 9, 0, 5))).check()


def test_numbers_that_stand_for_minus_infinity_count_if_all_are_such() -> None:
    lowest = np.full((1, 1, 1, 20), np.finfo("f4").min)
    bench_of(Attention(0.2), [*operands((1, 1, 1, 20, 20, 16, 16)), lowest]).check()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [False, True])
def test_many_keys_are_seen_in_parts(causal: bool, mask: bool) -> None:
    arrays = operands((1, 1, 1, 70, 1100, 8, 20))
    arrays[0] = arrays[0] * 8
    masks = [random(70, 1100)] if mask else []
    bench_of(Attention(0.5, causal=causal), arrays + masks).check()


@pytest.mark.parametrize("dtype", ["f8", "f2", "bfloat16"])
@pytest.mark.parametrize("shape", [SHAPES[2], SHAPES[6]], ids=str)
def test_other_element_types(dtype: str, shape: tuple[int, ...]) -> None:
    bench = bench_of(Attention(0.2), operands(shape, dtype))
    bench.check(rtol=1e-5, atol=1e-12) if dtype == "f8" else bench.check(rtol=3e-2, atol=2e-2)


@pytest.mark.parametrize("shape", [SHAPES[2], SHAPES[6], SHAPES[8]], ids=str)
def test_threads_change_nothing(shape: tuple[int, ...]) -> None:
    (alone,) = bench_of(Attention(0.2), operands(shape)).run(1)
    (shared,) = bench_of(Attention(0.2), operands(shape)).run(3)
    np.testing.assert_array_equal(alone, shared)


@pytest.mark.parametrize("shape", [SHAPES[2], SHAPES[6]], ids=str)
def test_steps_after_it(shape: tuple[int, ...]) -> None:
    bench = Bench()
    y = bench.step(Attention(0.2), *(bench.input(a, gaps=True) for a in operands(shape)))
    batch, heads, _, queries, *_, mixed = shape
    bench.step(Add(), y, bench.input(random(batch, heads, queries, mixed)), stored=True, gaps=True)
    bench.check(pieces=3)


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 1, 3, 2), (3, 2, 1, 0)], ids=str)
@pytest.mark.parametrize("shape", [SHAPES[2], SHAPES[6]], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_transposed_views(shape: tuple[int, ...], order: tuple[int, ...], target: str) -> None:
    bench = Bench(Target.of(target))
    views = [view(bench, array, order) for array in operands(shape)]
    bench.step(Attention(0.2), *views, stored=True)
    (step,) = bench.steps
    wanted = bench.values[step.outs[0]]
    out = view(bench, np.zeros_like(wanted), order, Region.OUTPUT)
    bench.values[out] = wanted
    bench.steps = [OpInstr(step.op, (out,), step.ins)]
    bench.check()


def view(
    bench: Bench, array: Array, order: tuple[int, ...], region: Region = Region.INPUT
) -> Buffer:
    """The array in a buffer whose axes lie in another order."""
    lying = array.transpose(order)
    steps = np.cumprod((1, *lying.shape[:0:-1]))[::-1]
    strides = [int(steps[order.index(axis)]) for axis in range(array.ndim)]
    type = TensorType(DType.of(array.dtype), array.shape)
    name = f"view{len(bench.memory)}"
    whole = Buffer(f"{name}.whole", TensorType(type.dtype, (array.size,)), region)
    buffer = Buffer(name, type, region, base=whole, strides=strides)
    bench.memory[buffer] = np.zeros(array.size, array.dtype)
    buffer.of(bench.memory[buffer])[...] = array
    bench.values[buffer] = array
    return buffer


@pytest.mark.parametrize("target", ["aarch64", "cortex-m4", "riscv64", "wasm32"])
@pytest.mark.parametrize("shape", [SHAPES[1], SHAPES[6]], ids=str)
def test_other_machines(shape: tuple[int, ...], target: str) -> None:
    machine = Target.of(target)
    kernel = best_kernel(bench_of(Attention(0.2), operands(shape), target).job(), machine)
    assert compile_module(kernel.module, machine)
