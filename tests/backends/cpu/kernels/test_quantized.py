"""Products of bytes: kernels give exactly what the ops mean."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target, assembly
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.quantization import QuantizeLinear
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.testing.cases.case import Case
from afterglow.testing.cases.quantized import CASES
from tests.backends.cpu.kernels.harness import Bench, best_kernel

TARGETS = ("host", "x86-64-v3")


def bench_of(case: Case, target: str, *, constant: bool, gaps: bool = False) -> Bench:
    bench = Bench(Target.of(target))
    bench.case(case, constant=constant, gaps=gaps)
    return bench


def assert_exact(bench: Bench, pieces: int) -> None:
    (result,) = bench.run(pieces)
    np.testing.assert_array_equal(result, bench.values[bench.steps[-1].outs[0]])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_is_exact(case: Case, target: str) -> None:
    for constant, gaps, pieces in ((True, False, 1), (True, True, 3), (False, False, 2)):
        bench = bench_of(case, target, constant=constant, gaps=gaps)
        if not bench.job().is_empty:
            assert_exact(bench, pieces)


@pytest.mark.parametrize("target", [*TARGETS, "x86-64-v2", "x86-64"])
def test_sums_of_two_products_that_exceed_16_bits_are_exact(target: str) -> None:
    """255 * 127 + 255 * 127 and 255 * -128 + 255 * -128 saturate in `vpmaddubsw`."""
    x = np.full((5, 96), 255, np.uint8)
    weight = np.full((96, 40), 127, np.int8)
    weight[:, ::3] = -128
    bench = Bench(Target.of(target))
    bench.step(QuantizedMatMul(), bench.input(x), bench.constant(weight), stored=True)
    (result,) = bench.run(1)
    np.testing.assert_array_equal(result, x.astype(np.int32) @ weight.astype(np.int32))


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("op", [QuantizedMatMul(), QuantizedMatMul(False, False, 7, 3)], ids=str)
def test_weights_that_exceed_16_bits_in_some_places_are_exact(
    op: QuantizedMatMul, target: str
) -> None:
    """A pair of weights may add up to 128 of either sign: 129 is too much, in any column."""
    rng = np.random.default_rng(0)
    weight = rng.integers(-64, 65, (150, 70)).astype(np.int8)
    weight[20:22, 3], weight[40:42, 50], weight[60:62, 69] = (64, 65), (-64, -65), (-128, -127)
    weight[82:84, 17], weight[90:92, 18] = (127, -128), (1, 127)
    x = rng.choice(np.array([0, 1, 254, 255], np.uint8), (11, 150), p=[0.1, 0.1, 0.1, 0.7])
    bench = Bench(Target.of(target))
    bench.step(op, bench.input(x), bench.constant(weight), stored=True)
    assert_exact(bench, 2)


def test_small_weights_are_multiplied_as_bytes_where_that_is_exact() -> None:
    machine = Target.of("x86-64-v3")
    bench = Bench(machine)
    x, weight = np.zeros((8, 64), np.uint8), np.zeros((64, 32), np.int8)
    bench.step(QuantizedMatMul(), bench.input(x), bench.constant(weight), stored=True)
    assert "vpmaddubsw" in assembly(best_kernel(bench.job(), machine).module, machine)


CONVS = {
    "1x1": (QuantizedConv((1, 1), (0,) * 4, (1, 1), 1, 120), (1, 9, 11, 24), (72, 1, 1, 24)),
    "3x3": (QuantizedConv((2, 2), (1,) * 4, (1, 1), 1, 3), (2, 9, 8, 3), (20, 3, 3, 3)),
    "depthwise": (QuantizedConv((1, 1), (1,) * 4, (1, 1), 40, 9), (1, 7, 13, 40), (40, 3, 3, 1)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CONVS)
def test_residual_rectifier_and_quantization_follow(name: str, target: str) -> None:
    op, x_shape, weight_shape = CONVS[name]
    rng = np.random.default_rng(0)
    for pieces in (1, 3):
        bench = Bench(Target.of(target))
        columns = weight_shape[0]
        product = bench.step(
            op,
            bench.input(rng.integers(0, 256, x_shape).astype(np.uint8)),
            bench.constant(rng.integers(-128, 128, weight_shape).astype(np.int8)),
            bench.constant(rng.uniform(1e-4, 1e-3, columns).astype(np.float32)),
            bench.constant(rng.integers(-1000, 1000, columns).astype(np.int32)),
        )
        residual = rng.standard_normal(product.type.shape).astype(np.float32)
        total = bench.step(Add(), product, bench.input(residual))
        positive = bench.step(Relu(), total)
        scale, zero_point = np.array(0.03, np.float32), np.array(7, np.uint8)
        bench.step(
            QuantizeLinear(1),
            *(positive, bench.constant(scale), bench.constant(zero_point)),
            stored=True,
        )
        assert_exact(bench, pieces)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("rows", [3, 5])
def test_windows_of_one_channel_whose_rows_are_multiplied_four_at_a_time(
    rows: int, dtype: type[np.integer]
) -> None:
    rng, limits = np.random.default_rng(0), np.iinfo(dtype)
    op = QuantizedConv((2, 1), (1, 2, 1, 0), (1, 2), 37, limits.max - 9)
    x = rng.choice(np.array([limits.min, 3, limits.max], dtype), (2, 9, 12, 37))
    weight = rng.choice(np.array([-128, 1, 127], np.int8), (37, rows, 3, 1))
    bench = Bench()
    bias = bench.constant(rng.integers(-1000, 1000, 37).astype(np.int32))
    bench.step(op, bench.input(x), bench.constant(weight), None, bias, stored=True)
    assert_exact(bench, 2)


@pytest.mark.parametrize("zero_points", [(0, 0), (131, -3)])
def test_a_wide_product(zero_points: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    bench = Bench()
    bench.step(
        QuantizedMatMul(False, False, *zero_points),
        bench.input(rng.integers(0, 256, (2, 65, 130)).astype(np.uint8)),
        bench.input(rng.integers(-128, 128, (2, 130, 100)).astype(np.int8)),
        bench.constant(np.array(0.001, np.float32)),
        stored=True,
    )
    assert_exact(bench, 3)


@pytest.mark.parametrize("target", ["aarch64", "aarch64-dotprod", "cortex-m4", "riscv64", "wasm32"])
def test_it_compiles_for_other_machines(target: str) -> None:
    for case in CASES[2], CASES[8], CASES[13], *CASES[-4:]:
        bench = bench_of(case, "host", constant=case is not CASES[13])
        machine = Target.of(target)
        assert assembly(best_kernel(bench.job(), machine).module, machine)
