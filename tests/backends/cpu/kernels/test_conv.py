"""Convolutions: every way to compute them, on shapes of all sorts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.backends.cpu.codegen.write import can_write, plans_for
from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv.choose import conv_algorithms
from afterglow.backends.cpu.kernels.conv.few_pixels import (
    few_pixels_algorithm,
    suits_few_pixels,
)
from afterglow.backends.cpu.kernels.conv.winograd import winograd_algorithm
from afterglow.backends.cpu.kernels.conv.winograd.plan import WinogradPlan
from afterglow.backends.cpu.kernels.table import ENTRIES
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.backends.cpu.micro.tile import split_rows
from afterglow.backends.policy import DEFAULT, Policy
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.testing.cases.case import Case
from afterglow.testing.cases.convolution import CASES
from afterglow.types import Array, DType
from afterglow.types.dtype import bf16, f16
from tests.backends.cpu.kernels.harness import Bench, best_kernel, waits_in

CONVS = [case for case in CASES if isinstance(case.op, Conv)]
TARGETS = ["host", "x86-64-v3"]
Shape = tuple[int, ...]


def random(*shape: int, dtype: str = "f4") -> Array:
    rng = np.random.default_rng(len(shape) * 1000 + sum(shape))
    return rng.standard_normal(shape).astype(dtype)


def conv(kernel: Shape, stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1) -> Conv:
    axes = len(kernel)
    return Conv((stride,) * axes, (pad,) * 2 * axes, (dilation,) * axes, groups)


def bench_of(op: Conv, x: Shape, weight: Shape, target: str = "host") -> Bench:
    bench = Bench(Target.of(target))
    operands = (
        bench.input(random(*x)),
        bench.constant(random(*weight)),
        bench.constant(random(weight[0])),
    )
    bench.step(op, *operands, stored=True)
    return bench


@pytest.mark.parametrize("case", CONVS, ids=str)
@pytest.mark.parametrize("constant", [True, False])
def test_cases_of_the_op(case: Case, constant: bool) -> None:
    bench = Bench()
    x, *others = case.inputs()
    make = bench.constant if constant else bench.input
    operands = [None if a is None else make(a) for a in others]
    bench.step(case.op, bench.input(x), *operands, stored=True)
    if bench.job().is_empty:
        return
    narrow = case.types[0].dtype.bits < 32
    bench.check(rtol=1e-2 if narrow else 1e-5, atol=1e-3 if narrow else 1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("op", "x", "weight"),
    [
        (conv((1, 1)), (1, 7, 9, 40), (24, 1, 1, 40)),
        (conv((1, 1)), (2, 5, 5, 19), (67, 1, 1, 19)),
        (conv((1, 1), 2), (1, 9, 9, 32), (48, 1, 1, 32)),
        (conv((3, 3)), (1, 30, 16, 8), (70, 3, 3, 8)),
        (conv((3, 3), 2, 1), (2, 13, 11, 24), (33, 3, 3, 24)),
        (conv((3, 3), 1, 2, 2), (1, 9, 9, 5), (16, 3, 3, 5)),
        (conv((7, 7), 2, 3), (1, 32, 32, 3), (64, 7, 7, 3)),
        (conv((3, 3), 1, 0), (1, 5, 5, 16), (32, 3, 3, 16)),
        (conv((5,), 2, 2), (3, 31, 6), (20, 5, 6)),
        (conv((3, 2, 3), 1, 1), (1, 4, 5, 6, 7), (9, 3, 2, 3, 7)),
        (conv((1, 1, 2, 1), 1, 0), (1, 2, 3, 4, 5, 6), (5, 1, 1, 2, 1, 6)),
        (conv((3, 3), 1, 1, 1, 3), (1, 6, 6, 21), (51, 3, 3, 7)),
        (conv((1, 1), 1, 0, 1, 4), (1, 6, 6, 112), (136, 1, 1, 28)),
        (conv((3, 3), 2, 1, 1, 12), (1, 9, 9, 12), (12, 3, 3, 1)),
        (conv((1, 1)), (1, 1, 1, 3), (1, 1, 1, 3)),
        (conv((2, 2), 2), (1, 2, 2, 1), (1, 2, 2, 1)),
    ],
    ids=str,
)
def test_shapes(op: Conv, x: Shape, weight: Shape, target: str) -> None:
    bench = bench_of(op, x, weight, target)
    bench.check(rtol=1e-4, atol=3e-6)
    (whole,) = (result.copy() for result in bench.run(1))
    (pieces,) = bench.run(3)
    np.testing.assert_array_equal(whole, pieces)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", [1, 3])
def test_steps_after_it(kernel: int, target: str) -> None:
    bench = Bench(Target.of(target))
    x = bench.input(random(1, 9, 10, 20), gaps=True)
    y = bench.step(conv((kernel, kernel)), x, bench.constant(random(37, kernel, kernel, 20)))
    biased = bench.step(Add(), y, bench.input(random(37)))
    residual = bench.input(random(*y.type.shape), gaps=True)
    bench.step(Relu(), bench.step(Add(), biased, residual), stored=True, gaps=True)
    bench.check(pieces=3, rtol=1e-4)


@pytest.mark.parametrize("pad", [0, 1])
def test_gaps_in_x(pad: int) -> None:
    bench = Bench()
    x = bench.input(random(2, 6, 7, 10), gaps=True)
    bench.step(
        conv((3, 3), 1, pad), x, bench.constant(random(12, 3, 3, 10)), stored=True, gaps=True
    )
    bench.check(pieces=3, rtol=1e-4)


@pytest.mark.parametrize("channels", [8, 24])
@pytest.mark.parametrize("name", ["aarch64", "cortex-m4", "riscv64", "wasm32"])
def test_other_machines(name: str, channels: int) -> None:
    bench = bench_of(conv((3, 3), 1, 1), (1, 6, 6, channels), (20, 3, 3, channels))
    target = Target.of(name)
    assert can_write(bench.job())
    assert compile_module(best_kernel(bench.job(), target).module, target)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
@pytest.mark.parametrize("winograd", [False, True])
def test_floats_of_16_bits(dtype: DType, winograd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def only(r: KernelRequest) -> list[Algorithm]:
        return [winograd_algorithm(r.step, WinogradPlan.of(r.step, r.target, 2))]

    if winograd:
        monkeypatch.setitem(ENTRIES, Conv, replace(ENTRIES[Conv], algorithms=only))
    bench = Bench()
    x = bench.input(random(1, 6, 5, 21).astype(dtype.numpy))
    weight = bench.constant(random(19, 3, 3, 21).astype(dtype.numpy))
    bench.step(conv((3, 3), 1, 1), x, weight, stored=True)
    bench.check(rtol=2.0 ** (-10 if dtype is f16 else -7), atol=1e-2)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("size", [2, 4, 6])
@pytest.mark.parametrize("alone", [False, True], ids=["blocks of many", "tiles alone"])
def test_winograd(
    size: int, pad: int, alone: bool, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only(r: KernelRequest) -> list[Algorithm]:
        plan = WinogradPlan.of(r.step, r.target, size)
        one = replace(plan, tiles=1, blocks=plan.count, runs=tuple(split_rows(1, 1)))
        return [winograd_algorithm(r.step, one if alone else plan)]

    monkeypatch.setitem(ENTRIES, Conv, replace(ENTRIES[Conv], algorithms=only))
    bench = Bench(Target.of(target))
    x = bench.input(random(2, 9, 12, 21), gaps=alone)
    weight, bias = bench.constant(random(37, 3, 3, 21)), bench.input(random(37))
    y = bench.step(conv((3, 3), 1, pad), x, weight, bias)
    residual = bench.input(random(*y.type.shape), gaps=True)
    bench.step(Relu(), bench.step(Add(), y, residual), stored=True, gaps=True)
    bench.check(pieces=3, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 14, 14, 24), (2, 13, 9, 16)], ids=str)
@pytest.mark.parametrize("results", [32, 70])
def test_places_of_winograd_are_units(
    shape: tuple[int, ...], results: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only(r: KernelRequest) -> list[Algorithm]:
        plan = WinogradPlan.of(r.step, r.target, 4)
        assert plan.shares_places
        return [winograd_algorithm(r.step, plan)]

    monkeypatch.setitem(ENTRIES, Conv, replace(ENTRIES[Conv], algorithms=only))
    bench = Bench()
    x, weight = bench.input(random(*shape)), bench.constant(random(results, 3, 3, shape[-1]))
    bench.step(conv((3, 3), 1, 1), x, weight, bench.constant(random(results)), stored=True)
    (whole,) = (result.copy() for result in bench.run(pieces=1))
    for pieces in (2, 7, 50):
        (cut,) = bench.run(pieces)
        np.testing.assert_array_equal(whole, cut)
    bench.check(atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(
    ("shape", "results"), [((2, 9, 12, 21), 37), ((2, 3, 2, 67), 260)], ids=["apart", "in units"]
)
def test_winograd_of_weights_that_vary(
    shape: Shape, results: int, size: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only(r: KernelRequest) -> list[Algorithm]:
        plan = WinogradPlan.of(r.step, r.target, size)
        assert plan.transforms_apart == (results == 37)
        return [winograd_algorithm(r.step, plan)]

    monkeypatch.setitem(ENTRIES, Conv, replace(ENTRIES[Conv], algorithms=only))
    bench = Bench(Target.of(target))
    weight = bench.input(random(results, 3, 3, shape[-1]), gaps=size == 2)
    operands = bench.input(random(*shape)), weight, bench.input(random(results))
    bench.step(Relu(), bench.step(conv((3, 3), 1, 1), *operands), stored=True)
    bench.check(pieces=3, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(
    ("shape", "results"), [((2, 9, 12, 21), 37), ((2, 3, 2, 67), 260)], ids=["apart", "in units"]
)
def test_winograd_of_constant_weights_in_each_run(
    shape: Shape, results: int, size: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only(r: KernelRequest) -> list[Algorithm]:
        plan = WinogradPlan.of(r.step, r.target, size, in_run=True)
        assert plan.transforms_apart == (results == 37)
        made = winograd_algorithm(r.step, plan)
        assert made.weight_growth == 0
        return [made]

    monkeypatch.setitem(ENTRIES, Conv, replace(ENTRIES[Conv], algorithms=only))
    bench = Bench(Target.of(target))
    weight = bench.constant(random(results, 3, 3, shape[-1]))
    operands = bench.input(random(*shape)), weight, bench.input(random(results))
    bench.step(Relu(), bench.step(conv((3, 3), 1, 1), *operands), stored=True)
    bench.check(pieces=3, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("op", "shape", "weight"),
    [
        (conv((3, 3), 1, 1), (18, 2, 2, 20), (37, 3, 3, 20)),
        (conv((3, 3), 2, 1), (5, 4, 3, 18), (40, 3, 3, 18)),
        (conv((2, 3), 1, 3, 2), (4, 3, 2, 7), (5, 2, 3, 7)),
        (Conv((1,), (2, 2), (1,)), (4, 3, 400), (5, 5, 400)),
    ],
    ids=["same", "strides", "pixels that see nothing", "long sums"],
)
def test_taps_that_see_padding_are_left_out(
    op: Conv, shape: Shape, weight: Shape, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        ENTRIES, Conv, replace(ENTRIES[Conv], algorithms=lambda r: [few_pixels_algorithm(r)])
    )
    bench = Bench(Target.of(target))
    operands = bench.input(random(*shape), gaps=True), bench.input(random(*weight), gaps=True)
    y = bench.step(op, *operands, bench.input(random(weight[0])))
    assert suits_few_pixels(bench.steps[0], bench.target)
    bench.step(Relu(), y, stored=True)
    bench.check(pieces=3, rtol=1e-5, atol=1e-5)


def test_weights_that_vary_are_transformed_unless_results_are_to_be_exact() -> None:
    bench = Bench()
    operands = bench.input(random(1, 14, 14, 64)), bench.input(random(64, 3, 3, 64))
    bench.step(conv((3, 3), 1, 1), *operands, stored=True)
    free, exact = (plans_for(bench.job(), bench.target, p) for p in (DEFAULT, Policy(exact=True)))
    assert free[0].algorithm == "winograd"
    assert [plan.algorithm for plan in exact] == ["direct"]


@pytest.mark.parametrize("made", [(), (1,), (2,), (1, 2)], ids=str)
@pytest.mark.parametrize(
    ("shape", "results", "waits"),
    [((1, 14, 14, 24), 32, 2), ((1, 14, 14, 24), 640, 1), ((1, 64, 64, 16), 32, 0)],
    ids=["by places", "by panels", "by blocks"],
)
def test_plans_know_how_often_threads_wait(
    shape: Shape, results: int, waits: int, made: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only(r: KernelRequest) -> list[Algorithm]:
        plans.append(WinogradPlan.of(r.step, r.target, 4))
        return [winograd_algorithm(r.step, plans[0])]

    plans: list[WinogradPlan] = []
    monkeypatch.setitem(ENTRIES, Conv, replace(ENTRIES[Conv], algorithms=only))
    bench = Bench(Target.of("x86-64-v3"))
    factors = enumerate((random(results, 3, 3, shape[-1]), random(results)), start=1)
    given = [bench.input(b) if place in made else bench.constant(b) for place, b in factors]
    bench.step(conv((3, 3), 1, 1), bench.input(random(*shape)), *given, stored=True)
    assert waits_in(best_kernel(bench.job(), bench.target)) == plans[0].waits
    assert plans[0].waits == (max(waits, 1) if made else waits)


@pytest.mark.parametrize(("made", "waits"), [((), 0), ((1,), 1), ((2,), 1), ((1, 2), 1)], ids=str)
def test_packing_before_a_convolution_is_waited_for(made: Shape, waits: int) -> None:
    bench = Bench(Target.of("x86-64-v3"))
    factors = enumerate((random(20, 1, 1, 16), random(20)), start=1)
    given = [bench.input(b) if place in made else bench.constant(b) for place, b in factors]
    bench.step(conv((1, 1)), bench.input(random(1, 6, 6, 16)), *given, stored=True)
    (direct,) = (
        way for way in conv_algorithms(KernelRequest(bench.job(), bench.target)) if way.is_exact
    )
    assert waits_in(best_kernel(bench.job(), bench.target, Policy(exact=True))) == waits
    assert direct.waits == waits


def test_small_layers_do_not_wait_for_transforms() -> None:
    target, shapes = "x86-64-v3", [(1, 8, 8, 16), (1, 32, 32, 16)]
    benches = [bench_of(conv((3, 3), 1, 1), shape, (16, 3, 3, 16), target) for shape in shapes]
    first = [plans_for(bench.job(), bench.target, DEFAULT)[0] for bench in benches]
    assert [plan.algorithm for plan in first] == ["direct", "winograd"]


def test_the_way_follows_from_the_shape() -> None:
    names = [
        (conv((3, 3), 1, 1), (1, 14, 14, 64), (64, 3, 3, 64), "conv_3x3_winograd4_output"),
        (conv((3, 3), 1, 1), (1, 7, 7, 128), (128, 3, 3, 128), "conv_3x3_winograd2_output"),
        (conv((3, 3), 2, 1), (1, 28, 28, 64), (64, 3, 3, 64), "conv_3x3_s2"),
        (conv((3, 3), 1, 1), (1, 28, 28, 3), (64, 3, 3, 3), "conv_3x3"),
        (conv((1, 1)), (1, 8, 8, 64), (64, 1, 1, 64), "conv_1x1"),
        (conv((3, 3), 1, 1, 1, 4), (1, 8, 8, 64), (64, 3, 3, 16), "conv_3x3_grouped"),
        (conv((3, 3), 1, 1, 1, 8), (1, 8, 8, 8), (8, 3, 3, 1), "conv_3x3_depthwise"),
    ]
    for op, x, weight, name in names:
        kernel = best_kernel(bench_of(op, x, weight).job(), Target.of("x86-64-v3"))
        kind, _, way = kernel.functions[-1].symbol.partition(kernel.name[-9:])
        assert kind + way == name
