"""The gradient of attention: shapes, masks, operands and results that lie anyhow."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.codegen.write import plans_for
from afterglow.backends.policy import DEFAULT
from afterglow.ops.attention_gradient import AttentionGradient
from afterglow.types import Array
from tests.backends.cpu.kernels.harness import Bench

# batch, heads, shared heads, queries, keys, width, width of values
TAILS = (2, 4, 2, 37, 41, 5, 33)
WHOLE = (2, 2, 2, 64, 70, 16, 16)


def random(*shape: int, dtype: str = "f4") -> Array:
    rng = np.random.default_rng(len(shape) * 1000 + sum(shape))
    return rng.standard_normal(shape).astype(dtype)


def operands(shape: tuple[int, ...]) -> list[Array]:
    batch, heads, shared, queries, keys, width, mixed = shape
    return [
        random(batch, heads, queries, width),
        random(batch, shared, keys, width),
        random(batch, shared, keys, mixed),
        random(batch, heads, queries, mixed),
    ]


def bench_of(op: AttentionGradient, arrays: list[Array], target: str = "host") -> Bench:
    bench = Bench(Target.of(target))
    bench.steps_of(op, *map(bench.input, arrays))
    return bench


@pytest.mark.parametrize(("shape", "causal"), [(TAILS, False), (WHOLE, True)], ids=str)
def test_shapes(shape: tuple[int, ...], causal: bool) -> None:
    bench_of(AttentionGradient(0.2, causal), operands(shape)).check(pieces=2)


def test_narrow_vectors() -> None:
    bench_of(AttentionGradient(0.2, True), operands(TAILS), "x86-64-v3").check()


@pytest.mark.parametrize(("rows", "kind"), [("one", "f4"), ("each", "bool")])
def test_masks(rows: str, kind: str) -> None:
    batch, heads, _, queries, keys, *_ = WHOLE
    mask = random(batch, heads, queries, keys) if rows == "each" else random(batch, 1, 1, keys)
    made = mask > 0 if kind == "bool" else np.where(mask > 1, np.float32(-np.inf), mask)
    bench_of(AttentionGradient(0.2), [*operands(WHOLE), made]).check()


def test_operands_and_results_may_have_gaps() -> None:
    bench = Bench()
    arrays = [bench.input(x, gaps=True) for x in operands(WHOLE)]
    bench.steps_of(AttentionGradient(0.2), *arrays, gaps=True)
    bench.check()


@pytest.mark.parametrize("causal", [False, True])
def test_few_heads_are_cut_into_blocks_of_keys(causal: bool) -> None:
    shape = (1, 2, 1, 70, 300, 5, 9)
    bench = bench_of(AttentionGradient(0.2, causal), [*operands(shape), random(1, 1, 70, 300)])
    plan, *_ = plans_for(bench.job(), bench.target, DEFAULT)
    assert plan.algorithm == "by-block"
    bench.check(pieces=3)
