"""Products by AMX on any machine: its instructions are emulated, and numbers compared."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from afterglow.backends.cpu import Target
from afterglow.graph import Op
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.quantization import QuantizeLinear
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.testing.cases.case import Case
from afterglow.testing.cases.quantized import CASES
from tests.emulation.tiles.bench import TileBench, needs_quads

Shape = tuple[int, ...]
MACHINES = [name for name in ("host", "x86-64-v3") if not Target.of(name).missing_here()]
"""Machines without tiles, whose vectors make up for the rest."""


def assert_exact(bench: TileBench, pieces: int = 3) -> None:
    (result,) = bench.run(pieces)
    np.testing.assert_array_equal(result, bench.values[bench.steps[-1].outs[0]])


@needs_quads
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_of_the_ops_is_exact(case: Case) -> None:
    for constant, gaps, pieces in ((True, False, 1), (True, True, 3), (False, False, 2)):
        bench = TileBench()
        bench.case(case, constant=constant, gaps=gaps)
        if not bench.job().is_empty and bench.has_tiles:
            assert_exact(bench, pieces)


def random_conv(rng: np.random.Generator, machine: Target) -> tuple[QuantizedConv, Shape, Shape]:
    """A convolution of any kind, small enough to be fast.

    A zero point of the weight asks for sums of rows, by vectors that multiply bytes.
    """

    def any_of(*numbers: int) -> int:
        return int(rng.choice(numbers))

    groups = any_of(1, 1, 1, 2)
    inner, outer = any_of(3, 4, 16, 20, 64, 96), any_of(1, 7, 16, 33, 64)
    height, width = any_of(1, 3), any_of(1, 3)
    op = QuantizedConv(
        (any_of(1, 2), any_of(1, 2)),
        tuple(any_of(0, 1) for _ in range(4)),
        (1, any_of(1, 2)),
        groups,
        any_of(0, 7, 255),
        any_of(0, 0, -3) if machine.dot_mixed_signs else 0,
    )
    x = (any_of(1, 2), any_of(5, 7, 14), any_of(5, 7, 14, 33), groups * inner)
    return op, x, (groups * outer, height, width, inner)


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("machine", MACHINES)
def test_random_convolutions_with_all_that_follows_are_exact(machine: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    target = Target.of(machine)
    op, x, weight = random_conv(rng, target)
    bench = TileBench(target)
    columns = weight[0]
    product = bench.step(
        op,
        bench.input(rng.integers(0, 256, x).astype(np.uint8)),
        bench.constant(rng.integers(-128, 128, weight).astype(np.int8)),
        bench.constant(rng.uniform(1e-4, 1e-3, columns).astype(np.float32)),
        bench.constant(rng.integers(-1000, 1000, columns).astype(np.int32)),
    )
    if seed % 2:
        residual = rng.standard_normal(product.type.shape).astype(np.float32)
        product = bench.step(Relu(), bench.step(Add(), product, bench.input(residual)))
    scale, zero_point = np.array(0.03, np.float32), np.array(7, np.uint8)
    bench.step(
        QuantizeLinear(1),
        *(product, bench.constant(scale), bench.constant(zero_point)),
        stored=True,
    )
    assert_exact(bench)


MATRICES = [(64, 128, 64), (49, 64, 33), (17, 68, 96), (1, 64, 16), (33, 1, 5), (7, 200, 40)]


@pytest.mark.parametrize(("rows", "depth", "columns"), MATRICES)
@pytest.mark.parametrize("zero_points", [(0, 0), pytest.param((131, -3), marks=needs_quads)])
def test_matrices_are_exact(
    rows: int, depth: int, columns: int, zero_points: tuple[int, int]
) -> None:
    rng = np.random.default_rng(0)
    bench = TileBench()
    x = bench.input(rng.integers(0, 256, (rows, depth)).astype(np.uint8))
    weight = bench.constant(rng.integers(-128, 128, (depth, columns)).astype(np.int8))
    bench.step(QuantizedMatMul(False, False, *zero_points), x, weight, stored=True)
    assert_exact(bench)


def bf16(shape: Shape, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(ml_dtypes.bfloat16)


def assert_close(bench: TileBench) -> None:
    """Results are within a step of bf16, and do not depend on the number of threads."""
    once, again = (bench.run(pieces)[0] for pieces in (1, 3))
    np.testing.assert_array_equal(once.view(np.uint16), again.view(np.uint16))
    want = bench.values[bench.steps[-1].outs[0]].astype(np.float64)
    np.testing.assert_allclose(once.astype(np.float64), want, atol=TOLERANCE * np.abs(want).max())


TOLERANCE = 2.0**-8
"""Half a step of bf16, relative to the result, and as much for another order of additions."""
BF16_PRODUCTS = [
    (MatMul(), (128, 96), (96, 64)),
    (MatMul(), (49, 65), (65, 33)),
    (MatMul(), (13, 1), (1, 5)),
    (MatMul(transpose_rhs=True), (40, 36), (50, 36)),
    (Conv((1, 1), (1,) * 4, (1, 1), 1), (1, 5, 9, 6), (64, 3, 3, 6)),
    (Conv((2, 2), (3,) * 4, (1, 1), 1), (1, 28, 28, 3), (64, 7, 7, 3)),
    (Conv((1, 1), (2,) * 4, (2, 2), 1), (1, 13, 35, 37), (33, 3, 3, 37)),
    (Conv((1, 1), (1,) * 4, (1, 1), 2), (1, 7, 9, 64), (96, 3, 3, 32)),
    (Conv((1, 1), (0,) * 4, (1, 1), 1), (2, 7, 7, 5), (18, 1, 1, 5)),
]


@pytest.mark.parametrize(("op", "x", "weight"), BF16_PRODUCTS, ids=[str(c) for c in BF16_PRODUCTS])
def test_products_of_bf16(op: Op, x: Shape, weight: Shape) -> None:
    bench = TileBench()
    bench.step(op, bench.input(bf16(x, 0)), bench.constant(bf16(weight, 1)), stored=True)
    assert_close(bench)
