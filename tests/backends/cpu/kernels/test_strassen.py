"""Strassen's algorithm: products of all sorts of extents, and when it is chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.backends.cpu.codegen.write import plans_for
from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv.choose import product_of as product_of_conv
from afterglow.backends.cpu.kernels.matmul.choose import product_of
from afterglow.backends.cpu.kernels.matmul.problem import problem_of
from afterglow.backends.cpu.kernels.strassen import (
    StrassenPlan,
    StrassenProduct,
    strassen_algorithm,
)
from afterglow.backends.cpu.kernels.table import ENTRIES
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.backends.policy import DEFAULT, Policy
from afterglow.ops.activation import Gelu, Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.types import Array
from tests.backends.cpu.kernels.harness import Bench, best_kernel, waits_in

TARGETS = ["host", "x86-64-v3", "x86-64"]
ELSEWHERE = ["aarch64", "armv7a", "wasm32"]
SHAPES = [(64, 32, 128), (37, 19, 180), (1, 5, 64), (2, 3, 64), (13, 34, 150), (50, 33, 61)]
Shape = tuple[int, int, int]


def random(*shape: int) -> Array:
    rng = np.random.default_rng(len(shape) * 1000 + sum(shape))
    return rng.standard_normal(shape).astype(np.float32)


def plan_of(
    product: StrassenProduct | None, target: Target, blocks: int | None = None
) -> StrassenPlan:
    assert product is not None
    plan = StrassenPlan.of(product, target)
    assert plan is not None
    return plan if blocks is None else replace(plan, blocks=min(blocks, plan.tiles))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Whatever the shapes are, Strassen's algorithm is chosen."""
    use(monkeypatch)
    return monkeypatch


def use(monkeypatch: pytest.MonkeyPatch, blocks: int | None = None) -> None:
    def only(product: StrassenProduct | None, target: Target) -> list[Algorithm]:
        return [strassen_algorithm(plan_of(product, target, blocks), 1.0)]

    def matmuls(r: KernelRequest) -> list[Algorithm]:
        return only(product_of(problem_of(r.step)), r.target)

    def convs(r: KernelRequest) -> list[Algorithm]:
        return only(product_of_conv(r.step), r.target)

    for op, listed in ((MatMul, matmuls), (Conv, convs)):
        monkeypatch.setitem(ENTRIES, op, replace(ENTRIES[op], algorithms=listed))


def matmul(shape: Shape, target: str = "host", *, transposed: bool = False) -> Bench:
    rows, depth, columns = shape
    bench = Bench(Target.of(target))
    rhs = random(columns, depth) if transposed else random(depth, columns)
    op = MatMul(transpose_rhs=transposed)
    bench.step(op, bench.input(random(rows, depth)), bench.constant(rhs), stored=True)
    return bench


def conv(size: int, channels: int, results: int, stride: int = 1) -> Bench:
    bench = Bench()
    x = bench.input(random(2, size, size, channels))
    weight, bias = random(results, 1, 1, channels), random(results)
    op = Conv((stride, stride), (0, 0, 0, 0), (1, 1))
    bench.step(op, x, bench.constant(weight), bench.constant(bias), stored=True)
    return bench


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_of_any_extents(shape: Shape, target: str) -> None:
    matmul(shape, target).check(pieces=3, atol=1e-5)


@pytest.mark.parametrize("blocks", [1, 2, 16])
def test_rows_in_blocks(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, blocks)
    matmul((511, 9, 128)).check(pieces=4, atol=1e-5)


@pytest.mark.usefixtures("always")
def test_a_transposed_weight() -> None:
    matmul((20, 18, 128), transposed=True).check(atol=1e-5)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("columns", [128, 150])
def test_pieces_have_equal_bits(columns: int) -> None:
    bench = matmul((45, 40, columns))
    (whole,) = (result.copy() for result in bench.run(pieces=1))
    (cut,) = bench.run(pieces=5)
    np.testing.assert_array_equal(whole, cut)


@pytest.mark.parametrize("blocks", [1, 3, 5])
def test_units_are_tiles_however_rows_are_cut_into_blocks(
    blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, blocks)
    bench = matmul((230, 24, 256))
    (whole,) = (result.copy() for result in bench.run(pieces=1))
    for pieces in (2, 7, 16, 100):
        (cut,) = bench.run(pieces)
        np.testing.assert_array_equal(whole, cut)


@pytest.mark.parametrize("blocks", [2, 16])
def test_threads_wait_for_left_factors_that_are_made_before(
    blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, blocks)
    bench = matmul((511, 9, 128))
    plan = plan_of(product_of(problem_of(bench.steps[0])), bench.target, blocks)
    kernel = best_kernel(bench.job(), bench.target)
    assert waits_in(kernel) == plan.waits == int(blocks == 2)


def test_small_late_layers_have_units_for_many_threads() -> None:
    for rows, depth, columns in ((49, 2048, 512), (196, 1024, 256), (128, 768, 768)):
        problem = problem_of(matmul((rows, depth, columns), "x86-64-v4").steps[0])
        assert plan_of(product_of(problem), Target.of("x86-64-v4")).units >= 16


@pytest.mark.parametrize("shape", [(128, 384, 384), (128, 1536, 384), (197, 1536, 384)], ids=str)
def test_tiles_are_high_where_panels_exceed_the_first_cache(shape: Shape) -> None:
    plan = plan_of(
        product_of(problem_of(matmul(shape, "x86-64-v4").steps[0])), Target.of("x86-64-v4")
    )
    assert plan.half_rows / plan.tiles > 5


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [128, 150])
def test_steps_follow_each_element_once(columns: int, target: str) -> None:
    bench = Bench(Target.of(target))
    x = bench.input(random(43, 40), gaps=True)
    y = bench.step(MatMul(), x, bench.constant(random(40, columns)))
    y = bench.step(Add(), y, bench.constant(random(columns)))
    y = bench.step(Gelu(), y)
    bench.step(Add(), y, bench.input(random(43, columns), gaps=True), stored=True, gaps=True)
    bench.check(pieces=2, atol=1e-5)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_of_single_pixels(stride: int) -> None:
    bench = Bench()
    x = bench.input(random(2, 7, 5, 24), gaps=True)
    weight, bias = bench.constant(random(80, 1, 1, 24)), bench.constant(random(80))
    op = Conv((stride, stride), (0, 0, 0, 0), (1, 1))
    bench.step(Relu(), bench.step(op, x, weight, bias), stored=True)
    bench.check(pieces=3, atol=1e-5)


def test_it_is_chosen_where_it_pays() -> None:
    chosen = [(128, 768, 768), (197, 384, 1536)]
    plain = [(128, 64, 768), (8, 768, 768), (128, 768, 64), (1, 512, 512)]
    assert [first_way(matmul(shape)) == "strassen" for shape in chosen + plain] == [
        *[True] * len(chosen),
        *[False] * len(plain),
    ]


def first_way(bench: Bench, policy: Policy = DEFAULT) -> str:
    return plans_for(bench.job(), bench.target, policy)[0].algorithm


def test_convolutions_are_chosen_alike() -> None:
    names = [
        first_way(conv(14, 256, 512)),
        first_way(conv(56, 16, 64)),
        first_way(conv(8, 512, 512)),
    ]
    assert names == ["strassen", "direct", "strassen"]


@pytest.mark.parametrize("policy", [Policy(exact=True), Policy(small_weights=True)], ids=str)
def test_wishes_forbid_it(policy: Policy) -> None:
    assert first_way(matmul((128, 768, 768)), policy) != "strassen"
    assert first_way(conv(14, 256, 512), policy) == "direct"


@pytest.mark.parametrize("pick", ["strassen", "tiles", "something unknown"])
def test_what_is_picked_is_taken(pick: str) -> None:
    bench = matmul((128, 768, 768), "x86-64-v3")
    variants = [plan.variant for plan in plans_for(bench.job(), bench.target, DEFAULT)]
    chosen = {"strassen": variants[0], "tiles": variants[1]}.get(pick, pick)
    policy = Policy(variants={bench.job().key: chosen})
    kernel = best_kernel(bench.job(), bench.target, policy)
    assert kernel.functions[-1].symbol.endswith("strassen") == (pick != "tiles")


def test_only_constant_floats_are_multiplied_so() -> None:
    bench = Bench()
    lhs, rhs = bench.input(random(128, 768)), bench.input(random(768, 768))
    bench.step(MatMul(), lhs, rhs, stored=True)
    assert first_way(bench) != "strassen"
    bench = Bench()
    lhs = bench.input(random(128, 768).astype(np.float64))
    bench.step(MatMul(), lhs, bench.constant(random(768, 768).astype(np.float64)), stored=True)
    assert first_way(bench) != "strassen"


def test_errors_stay_small() -> None:
    bench = matmul((128, 768, 768))
    kernel = best_kernel(bench.job(), bench.target)
    assert kernel.functions[-1].symbol.endswith("strassen")
    lhs, rhs = (bench.values[b].astype(np.float64) for b in bench.steps[0].ins if b is not None)
    (result,) = bench.run()
    assert np.abs(result - lhs @ rhs).max() < 5e-6 * np.abs(lhs @ rhs).max()


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", ELSEWHERE)
def test_other_machines_have_code_for_it(name: str) -> None:
    target = Target.of(name)
    assert compile_module(best_kernel(matmul((30, 20, 128)).job(), target).module, target)
