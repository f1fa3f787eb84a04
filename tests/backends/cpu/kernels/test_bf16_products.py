"""Products of bf16 by pairs and by tiles; numbers are compared where the processor has pairs.

What AMX computes is checked on a machine that has it by `benchmarks/amx_bf16.py`.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from afterglow.backends.cpu import Target, assembly
from afterglow.backends.cpu.codegen.write import plans_for
from afterglow.backends.policy import DEFAULT
from afterglow.graph import Op
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.linear import MatMul
from tests.backends.cpu.kernels.harness import Bench, best_kernel

Shape = tuple[int, ...]
PAIRS = Target.of("x86_64-unknown-linux-gnu+x86-64-v4+avx512bf16")
TILES = Target.of("x86_64-unknown-linux-gnu+x86-64-v4+avx512bf16,amx-tile,amx-bf16")
WITHOUT = Target.of("x86-64-v4")
PROCESSOR = (
    "x86_64-unknown-linux-gnu+{}+fma,f16c,avx2,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"
)
TOLERANCE = 2.0**-8
"""Half a step of bf16, relative to the result, and as much for another order of additions."""

needs_pairs = pytest.mark.skipif(
    not Target.host().dot_bf16 or (Target.host().slow_dot_bf16 and not Target.host().bf16_tiles),
    reason="this processor has no fast instructions for pairs of bf16",
)


def bf16(shape: Shape, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(ml_dtypes.bfloat16)


def product(
    op: Op, x: Shape, weight: Shape, machine: Target | None = None, *, constant: bool = True
) -> Bench:
    bench = Bench(machine) if machine else Bench()
    given = bench.input(bf16(x))
    factor = (bench.constant if constant else bench.input)(bf16(weight, 1))
    bench.step(op, given, factor, stored=True)
    return bench


def chosen(bench: Bench) -> str:
    return plans_for(bench.job(), bench.target, DEFAULT)[0].algorithm


def check(bench: Bench) -> None:
    """Results are within a step of bf16, and do not depend on the number of threads."""
    once, again = (bench.run(threads)[0] for threads in (1, 3))
    np.testing.assert_array_equal(once.view(np.uint16), again.view(np.uint16))
    want = bench.values[bench.steps[-1].outs[0]].astype(np.float64)
    scale = np.abs(want).max()
    np.testing.assert_allclose(once.astype(np.float64), want, atol=TOLERANCE * scale)


MATRICES = [(128, 768, 96), (64, 65, 33), (17, 33, 10), (13, 1, 5), (49, 200, 64)]


@needs_pairs
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("rows", "depth", "columns"), MATRICES)
def test_products_of_matrices(rows: int, depth: int, columns: int, *, constant: bool) -> None:
    bench = product(MatMul(), (rows, depth), (depth, columns), constant=constant)
    assert chosen(bench) in ("bf16-pairs", "tiles")
    check(bench)


@needs_pairs
def test_products_of_batches_and_of_transposed_matrices() -> None:
    check(product(MatMul(), (3, 40, 33), (3, 33, 50), constant=False))
    check(product(MatMul(transpose_rhs=True), (40, 36), (50, 36)))
    check(product(MatMul(transpose_lhs=True), (36, 40), (36, 50)))


CONVS = [
    (Conv((1, 1), (1,) * 4, (1, 1), 1), (1, 5, 9, 6), (64, 3, 3, 6)),
    (Conv((2, 2), (3,) * 4, (1, 1), 1), (1, 56, 56, 3), (64, 7, 7, 3)),
    (Conv((1, 1), (2,) * 4, (2, 2), 1), (1, 13, 35, 37), (33, 3, 3, 37)),
    (Conv((1, 1), (1,) * 4, (1, 1), 2), (1, 17, 19, 64), (96, 3, 3, 32)),
    (Conv((1, 1), (0,) * 4, (1, 1), 1), (1, 7, 7, 160), (96, 1, 1, 160)),
    (Conv((1, 1), (0,) * 4, (1, 1), 1), (2, 7, 7, 5), (18, 1, 1, 5)),
]


@needs_pairs
@pytest.mark.parametrize(("op", "x", "weight"), CONVS, ids=[str(c[2]) for c in CONVS])
def test_convolutions(op: Conv, x: Shape, weight: Shape) -> None:
    bench = product(op, x, weight)
    assert chosen(bench) in ("bf16-pairs", "tiles")
    check(bench)


@needs_pairs
def test_an_epilogue_sees_sums_in_f32_and_a_bias_is_added_to_them() -> None:
    bench = Bench()
    x, weight = bench.input(bf16((1, 9, 9, 32))), bench.constant(bf16((48, 1, 1, 32), 1))
    out = bench.step(
        Conv((1, 1), (0,) * 4, (1, 1), 1), x, weight, bench.constant(100 * bf16((48,), 2))
    )
    bench.step(Relu(), out, stored=True)
    check(bench)


@needs_pairs
def test_an_infinity_beside_a_row_of_odd_length_stays_out_of_it() -> None:
    bench = Bench()
    x = bf16((16, 5))
    x[3] = np.inf
    given = bench.input(x)
    bench.step(MatMul(), given, bench.constant(np.abs(bf16((5, 16), 1))), stored=True)
    (result,) = bench.run(1)
    assert np.isfinite(np.delete(result.astype(np.float32), 3, 0)).all()
    assert np.isinf(result[3].astype(np.float32)).all()


def test_pairs_are_multiplied_by_their_instruction_and_rounded_by_one() -> None:
    bench = product(MatMul(), (64, 128), (128, 64), PAIRS)
    code = assembly(best_kernel(bench.job(), PAIRS).module, PAIRS)
    assert "vdpbf16ps" in code
    assert "vcvtneps2bf16" in code
    assert "vfmadd" not in code


def test_two_tiles_of_rows_meet_two_of_columns() -> None:
    bench = product(MatMul(), (64, 128), (128, 64), TILES)
    assert chosen(bench) == "tiles"
    code = assembly(best_kernel(bench.job(), TILES).module, TILES)
    assert code.count("tdpbf16ps") == 4
    assert code.count("ldtilecfg") == code.count("tilerelease") == 1


def test_tiles_are_set_up_for_words_of_two_elements() -> None:
    kernel = best_kernel(product(MatMul(), (49, 48), (48, 64), TILES).job(), TILES)
    (shapes,) = (table for key, table in kernel._tables.items() if key[0] == "|u1")
    sums, rows, weights = [64] * 4, [48] * 2, [64] * 2
    assert shapes.data[16:32:2].tolist() == [*sums, *rows, *weights]
    assert shapes.data[48:56].tolist() == [13] * 6 + [12] * 2


@pytest.mark.parametrize(("depth", "words"), [(64, 16), (24, 12), (66, 11), (767, 16), (34, 1)])
def test_a_tile_has_as_many_words_of_a_row_as_divide_it(depth: int, words: int) -> None:
    plans = plans_for(product(MatMul(), (64, depth), (depth, 64), TILES).job(), TILES, DEFAULT)
    (plan,) = (plan for plan in plans if plan.algorithm == "tiles")
    assert plan.settings["tile"] == (16, 2, words)


def test_other_machines_multiply_in_f32() -> None:
    assert not TILES.without_tiles().bf16_tiles
    assert chosen(product(MatMul(), (64, 128), (128, 64), TILES.without_tiles())) == "direct"
    assert chosen(product(MatMul(), (64, 128), (128, 64), WITHOUT)) == "direct"


@pytest.mark.parametrize(
    ("processor", "algorithm"),
    [("sapphirerapids", "direct"), ("cooperlake", "direct"), ("znver4", "bf16-pairs")],
)
def test_slow_pairs_are_left_to_products_of_f32(processor: str, algorithm: str) -> None:
    target = Target.of(PROCESSOR.format(processor))
    assert target.dot_bf16
    assert target.slow_dot_bf16 is (algorithm == "direct")
    assert chosen(product(MatMul(), (64, 128), (128, 64), target)) == algorithm
    conv = product(Conv((1, 1), (0,) * 4, (1, 1), 1), (1, 9, 9, 160), (96, 1, 1, 160), target)
    plans = plans_for(conv.job(), target, DEFAULT)
    assert ("bf16-pairs" in {plan.algorithm for plan in plans}) is not target.slow_dot_bf16


def test_f32_products_of_bf16_operands_still_store_bf16_by_one_instruction() -> None:
    target = Target.of(PROCESSOR.format("sapphirerapids"))
    bench = product(MatMul(), (64, 128), (128, 64), target)
    code = assembly(best_kernel(bench.job(), target).module, target)
    assert "vcvtneps2bf16" in code
    assert "vfmadd" in code
    assert "vdpbf16ps" not in code


def test_tiles_are_chosen_where_pairs_are_slow() -> None:
    target = Target.of(PROCESSOR.format("sapphirerapids") + ",amx-tile,amx-bf16")
    assert target.slow_dot_bf16
    assert chosen(product(MatMul(), (64, 128), (128, 64), target)) == "tiles"


def test_few_rows_are_left_to_what_reads_weights_fastest() -> None:
    assert chosen(product(MatMul(), (1, 512), (512, 512), PAIRS)) == "direct"
