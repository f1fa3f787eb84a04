"""Products of bytes by registers that hold matrices: plans and code.

Numbers are compared by `test_emulated_tiles.py` on any machine; where `Target.host()` has tiles,
`test_quantized.py` runs all its cases with them.
"""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target, assembly
from afterglow.backends.cpu.codegen.write import plans_for
from afterglow.backends.cpu.llvm.emitter import tile_shapes
from afterglow.backends.policy import DEFAULT
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from tests.backends.cpu.kernels.harness import Bench, best_kernel
from tests.emulation.tiles.bench import TileBench

MACHINE = Target.of("x86_64-unknown-linux-gnu+x86-64-v4+avx512vnni,amx-tile,amx-int8")


def product(rows: int, depth: int, columns: int, machine: Target = MACHINE) -> Bench:
    rng = np.random.default_rng(0)
    bench = Bench(machine)
    x = bench.input(rng.integers(0, 256, (rows, depth)).astype(np.uint8))
    weight = bench.constant(rng.integers(-128, 128, (depth, columns)).astype(np.int8))
    bench.step(QuantizedMatMul(), x, weight, stored=True)
    return bench


def test_two_tiles_of_rows_meet_two_of_columns() -> None:
    code = assembly(best_kernel(product(64, 128, 64).job(), MACHINE).module, MACHINE)
    assert code.count("tdpbusd") == 4
    assert code.count("ldtilecfg") == code.count("tilerelease") == 1


def test_tiles_are_of_one_height_which_is_set_up_once() -> None:
    kernel = best_kernel(product(49, 128, 64).job(), MACHINE)
    (shapes,) = (table for key, table in kernel._tables.items() if key[0] == "|u1")
    assert shapes.data[48:56].tolist() == [13] * 6 + [16] * 2
    assert len(shapes.data) == 64


def test_a_last_tile_that_does_not_fit_lies_over_rows_of_the_one_before() -> None:
    bench = TileBench()
    rng = np.random.default_rng(0)
    x = bench.input(rng.integers(0, 256, (49, 64)).astype(np.uint8))
    weight = bench.constant(rng.integers(-128, 128, (64, 32)).astype(np.int8))
    bench.step(QuantizedMatMul(), x, weight, stored=True)
    (result,) = bench.run()
    np.testing.assert_array_equal(result, bench.values[bench.steps[-1].outs[0]])
    assert bench.tiles.count("ldtilecfg") == 1
    assert bench.tiles.count("multiplied rows") == 4 * 13 * 2


def test_a_tile_without_a_partner_is_multiplied_alone() -> None:
    bench = TileBench()
    x = bench.input(np.ones((48, 64), np.uint8))
    bench.step(QuantizedMatMul(), x, bench.constant(np.ones((64, 32), np.int8)), stored=True)
    bench.run()
    assert bench.tiles.count("tdpbusd") == 3 * 2


@pytest.mark.parametrize(("depth", "quads"), [(64, 16), (24, 6), (144, 12), (960, 16), (68, 1)])
def test_a_tile_has_as_many_bytes_of_a_row_as_divide_it(depth: int, quads: int) -> None:
    plans = plans_for(product(64, depth, 64).job(), MACHINE, DEFAULT)
    (plan,) = (plan for plan in plans if plan.algorithm == "tiles")
    assert plan.settings["tile"] == (16, 2, quads)


def test_vectors_are_chosen_where_tiles_would_be_nearly_empty() -> None:
    assert plans_for(product(64, 68, 64).job(), MACHINE, DEFAULT)[0].algorithm == "direct"
    assert plans_for(product(1, 512, 64).job(), MACHINE, DEFAULT)[0].algorithm == "direct"


def test_shapes_are_as_the_machine_reads_them() -> None:
    shapes = tile_shapes([(16, 64), (3, 24)])
    assert shapes[0] == 1
    assert shapes[16:20].tolist() == [64, 0, 24, 0]
    assert shapes[48:50].tolist() == [16, 3]


def test_a_machine_without_tiles_has_no_such_plan() -> None:
    machine = MACHINE.without_tiles()
    assert not machine.byte_tiles
    assert [plan.algorithm for plan in plans_for(product(8, 64, 64).job(), machine, DEFAULT)] == [
        "direct"
    ]


CONVS = [
    (QuantizedConv((1, 1), (1,) * 4, (1, 1), 1, 7), (1, 14, 14, 64), (64, 3, 3, 64)),
    (QuantizedConv((2, 2), (3,) * 4, (1, 1), 1, 9), (1, 56, 56, 3), (64, 7, 7, 3)),
    (QuantizedConv((1, 1), (2,) * 4, (2, 2), 1, 9), (1, 13, 35, 36), (33, 3, 3, 36)),
    (QuantizedConv((1, 1), (1,) * 4, (1, 1), 2, 9), (1, 17, 19, 64), (96, 3, 3, 32)),
    (QuantizedConv((1, 1), (0,) * 4, (1, 1), 1, 9), (1, 7, 7, 160), (96, 1, 1, 160)),
]


@pytest.mark.parametrize(("op", "x", "weight"), CONVS, ids=[str(c[2]) for c in CONVS])
def test_convolutions_are_exact(
    op: QuantizedConv, x: tuple[int, ...], weight: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    bench = Bench() if Target.host().byte_tiles else TileBench()
    given = bench.input(rng.integers(0, 256, x).astype(np.uint8))
    factor = bench.constant(rng.integers(-128, 128, weight).astype(np.int8))
    bench.step(op, given, factor, stored=True)
    assert plans_for(bench.job(), bench.target, DEFAULT)[0].algorithm == "tiles"
    (result,) = bench.run(3)
    np.testing.assert_array_equal(result, bench.values[bench.steps[-1].outs[0]])
