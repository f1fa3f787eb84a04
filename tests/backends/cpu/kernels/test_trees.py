"""Ensembles of trees: every kind of test, missing features, several votes, odd numbers of trees."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow
from afterglow.backends.cpu import Target, compile_module
from afterglow.backends.cpu.codegen.write import can_write
from afterglow.backends.job import Job
from afterglow.graph import Builder, Function, Module
from afterglow.ops.elementwise import Add
from afterglow.ops.trees import Aggregate, NodeKind, TreeEnsemble
from afterglow.support.errors import IndexRangeError
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32
from tests.backends.cpu.kernels.harness import Bench, best_kernel

FEATURES = 5
Tables = tuple[Array, Array, Array, Array, Array]


def grown(trees: int, depth: int, targets: int, votes: int, dtype: str = "float32") -> Tables:
    """Random trees, some of which are a leaf only; limits are values that features often have."""
    rng = np.random.default_rng(trees + depth)
    nodes: list[list[int]] = []
    leaves = 0

    def grow(left: int) -> int:
        nonlocal leaves
        place = len(nodes)
        nodes.append([])
        if left == 0 or rng.random() < 0.15:
            nodes[place] = [NodeKind.LEAF, 0, leaves, 0, 0]
            leaves += 1
            return place
        kind, feature = int(rng.integers(1, len(NodeKind))), int(rng.integers(FEATURES))
        nodes[place] = [kind, feature, grow(left - 1), grow(left - 1), int(rng.integers(2))]
        return place

    roots = [grow(depth) for _ in range(trees)]
    return (
        np.array(nodes),
        rng.integers(-2, 3, len(nodes)).astype(dtype),
        np.array(roots),
        rng.integers(-1, targets, (leaves, votes)),
        rng.standard_normal((leaves, votes)).astype(dtype),
    )


def features(rows: int, dtype: str = "float32") -> Array:
    """Rows of small whole numbers, some of which are missing or infinite."""
    x = np.random.default_rng(rows).integers(-3, 4, (rows, FEATURES)).astype(dtype)
    flat = x.reshape(-1)
    flat[3::7], flat[5::11], flat[2::13] = np.nan, np.inf, -np.inf
    return x


def bench_of(op: TreeEnsemble, x: Array, tables: Tables, target: Target | None = None) -> Bench:
    bench = Bench(target)
    bench.step(op, bench.input(x, gaps=True), *map(bench.constant, tables), stored=True)
    return bench


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("trees", "depth", "targets", "votes"),
    [(1, 3, 1, 1), (3, 0, 2, 2), (8, 6, 1, 2), (21, 5, 4, 1), (40, 4, 3, 3)],
)
def test_scores_are_to_the_bit_those_of_the_definition(
    trees: int, depth: int, targets: int, votes: int, dtype: str, target: str
) -> None:
    tables = grown(trees, depth, targets, votes, dtype)
    for aggregate in (Aggregate.SUM, Aggregate.AVERAGE):
        bench = bench_of(
            TreeEnsemble(targets, aggregate),
            features(17, dtype),
            tables,
            Target.of(target),
        )
        whole, pieces = bench.run()[0].copy(), bench.run(pieces=3)[0]
        np.testing.assert_array_equal(whole, pieces)
        np.testing.assert_array_equal(whole, next(reversed(bench.values.values())))


def test_steps_after_it_are_fused() -> None:
    bench = Bench()
    tables = grown(9, 4, 3, 2)
    base = np.array([1, -2, 0.5], np.float32)
    scores = bench.step(TreeEnsemble(3), bench.input(features(6)), *map(bench.constant, tables))
    bench.step(Add(), scores, bench.constant(base), stored=True)
    bench.check(pieces=2)


def test_a_walk_that_never_ends_is_ended() -> None:
    """The definition has no answer; it must only not hang, nor read what is not there."""
    tables = grown(1, 1, 1, 1)
    bench = bench_of(TreeEnsemble(1), features(2), tables)
    kernel = best_kernel(bench.job(), bench.target)
    nodes = next(b for b in kernel.job.buffers if b.type.shape == tables[0].shape)
    assert nodes.data is not None
    nodes.data[:] = [NodeKind.LESS, 0, 0, 0, 1]
    bench.run()


def test_what_is_left_to_the_host() -> None:
    tables = grown(3, 2, 2, 1)
    no_limit = np.full_like(tables[1], np.nan)
    refused = [
        bench_of(TreeEnsemble(2, Aggregate.MAX), features(3), tables),
        bench_of(TreeEnsemble(2), features(3), (tables[0], no_limit, *tables[2:])),
        bench_of(TreeEnsemble(2), features(3, "float16"), grown(3, 2, 2, 1, "float16")),
    ]
    assert not any(can_write(Job.of(bench.steps[0])) for bench in refused)


@pytest.mark.parametrize("target", ["aarch64", "cortex-m4", "riscv64", "wasm32"])
def test_it_compiles_for_other_machines(target: str) -> None:
    bench = bench_of(TreeEnsemble(2), features(4), grown(5, 3, 2, 1), Target.of(target))
    assert compile_module(best_kernel(bench.job(), bench.target).module, bench.target)


@pytest.mark.parametrize(
    ("table", "place", "number", "what"),
    [
        (0, (0, 1), FEATURES, "nodes must be from 0 to 4, got 5"),
        (0, (0, 2), 999, "nodes must be from 0 to "),
        (2, (0,), -1, "roots must be from 0 to "),
        (3, (0, 0), 3, "votes must be from -1 to 2, got 3"),
    ],
)
def test_what_is_not_there_is_not_looked_up(
    table: int, place: tuple[int, ...], number: int, what: str
) -> None:
    tables = [array.copy() for array in grown(3, 3, 3, 1)]
    tables[table][place] = number
    module = Module("trees")
    function = Function("main", module)
    x = function.input("x", TensorType(f32, (2, FEATURES)))
    constants = [module.constant(f"t{n}", array) for n, array in enumerate(tables)]
    function.output("y", Builder(function).emit(TreeEnsemble(3), x, *constants))
    with pytest.raises(IndexRangeError, match=what):
        afterglow.compile(module)
    afterglow.compile(module, unchecked=True)(features(2))  # by the host, and not elsewhere
