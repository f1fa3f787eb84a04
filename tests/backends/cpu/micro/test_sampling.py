"""Sampling between elements: grids of positions, and regions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.graph import Builder, Value
from afterglow.ops.activation import Relu
from afterglow.ops.deform_conv import DeformConv
from afterglow.ops.grid_sample import GridSample
from afterglow.ops.image import Interpolation
from afterglow.ops.regions import MaxRoiPool, RegionMode, RoiAlign
from afterglow.ops.sampling import Border
from afterglow.support.errors import TypeRuleError
from afterglow.testing.cases.case import Case, f32, i64
from afterglow.testing.cases.sampling import CASES
from afterglow.testing.ranged_checks import check_ranged, module_of
from afterglow.types import Array
from afterglow.types.extent import Dim, ranged
from tests.backends.cpu.kernels.harness import Bench, best_kernel

SAMPLING = [case for case in CASES if not isinstance(case.op, DeformConv)]
TARGETS = ["host", "x86-64-v3", "x86-64"]
ROIS = np.array([[0, 0, 9, 11], [2, 3, 30, 7], [-5, 1, 2, 2.5]], np.float32)
IMAGES = np.array([1, 0, 1])


def random(*shape: int, dtype: type = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).uniform(-1.2, 1.2, shape).astype(dtype)


def bench_of(case: Case, target: str = "host", *, gaps: bool = False) -> Bench:
    bench = Bench(Target.of(target))
    operands = [bench.input(x, gaps=gaps) for x in case.inputs() if x is not None]
    bench.step(case.op, *operands, stored=True, gaps=gaps)
    return bench


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", SAMPLING, ids=str)
def test_cases_of_the_ops(case: Case, target: str) -> None:
    bench = bench_of(case, target, gaps=True)
    tolerance = 5e-3 if "f16" in str(case) else 1e-4
    if not bench.job().is_empty:
        bench.check(pieces=3, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("channels", [1, 16, 70, 128])
@pytest.mark.parametrize("mode", list(Interpolation))
def test_grids(mode: Interpolation, channels: int) -> None:
    bench = Bench()
    grid = bench.input(random(2, 7, 5, 2))
    y = bench.step(GridSample(mode), bench.input(random(2, 6, 9, channels)), grid)
    bench.step(Relu(), y, stored=True)
    bench.check(pieces=2, rtol=1e-4, atol=1e-4)


def test_a_position_that_is_no_number_reads_nothing_wild() -> None:
    bench = Bench()
    grid = random(1, 4, 4, 2)
    grid[0, 0, 0] = np.nan
    bench.step(GridSample(), bench.input(random(1, 5, 5, 8)), bench.input(grid), stored=True)
    (result,) = bench.run()
    assert np.isnan(result[0, 0, 0]).all() or not result[0, 0, 0].any()


@pytest.mark.parametrize("channels", [3, 64, 200])
@pytest.mark.parametrize("mode", list(RegionMode))
@pytest.mark.parametrize("samples", [0, 2])
def test_sampled_regions(samples: int, mode: RegionMode, channels: int) -> None:
    bench = Bench()
    x = bench.input(random(2, 12, 14, channels))
    op = RoiAlign((3, 2), samples, 0.5, mode)
    bench.step(op, x, bench.input(ROIS), bench.input(IMAGES), stored=True)
    bench.check(pieces=3, rtol=1e-4, atol=1e-4)


def aligned(op: RoiAlign, x: Array, *roi: float) -> Array:
    """What machine code makes of one region, which is what the definition says."""
    bench = Bench()
    rois, image = np.array([roi], np.float32), np.zeros(1, np.int64)
    bench.step(op, bench.input(x), bench.input(rois), bench.input(image), stored=True)
    bench.check(rtol=1e-4, atol=1e-6)
    return bench.run()[0]


@pytest.mark.parametrize("half_pixel", [False, True])
@pytest.mark.parametrize("mode", list(RegionMode))
@pytest.mark.parametrize("roi", [(-700, -300, 500, 500), (2, 1, 1202, 801), (-1190, -790, 10, 10)])
def test_samples_far_outside_count_though_none_is_visited(
    roi: tuple[float, ...], mode: RegionMode, half_pixel: bool
) -> None:
    x = random(1, 5, 6, 3)
    by_size = RoiAlign((2, 3), 0, mode=mode, half_pixel=half_pixel)
    all_visited = replace(by_size, samples=400)  # cells of 400 by 400 elements
    roi = tuple(bound + 0.25 for bound in roi)  # no sample is at the very limit
    found, expected = aligned(by_size, x, *roi), aligned(all_visited, x, *roi)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("half_pixel", [False, True])
@pytest.mark.parametrize("mode", list(RegionMode))
@pytest.mark.parametrize("far", [1e12, 1e30, 3e38, np.inf, np.nan])
def test_regions_of_any_size_take_little_time(
    far: float, mode: RegionMode, half_pixel: bool
) -> None:
    op, x = RoiAlign((2, 2), 0, mode=mode, half_pixel=half_pixel), -abs(random(1, 5, 6, 3))
    for roi in ((1, 1, far, 3), (-far, 1, far, 3), (-far, 1, 3, 3), (far, 1, far, 3)):
        np.testing.assert_allclose(aligned(op, x, *roi), 0, atol=1e-6)


def test_a_cell_has_so_many_samples_at_most() -> None:
    with pytest.raises(TypeRuleError, match=r"samples must be from 0 to 1024, got 1025"):
        RoiAlign((2, 2), 1025).infer(f32(1, 4, 4, 1), f32(1, 4), i64(1))


def test_the_cells_of_all_regions_have_so_many_samples_at_most() -> None:
    text = r"its regions have 629,145,600 samples, the limit is 536,870,912"
    with pytest.raises(TypeRuleError, match=text):
        RoiAlign((10, 20), 1024).infer(f32(1, 4, 4, 1), f32(3, 4), i64(3))


@pytest.mark.parametrize("channels", [3, 64, 200])
def test_largest_of_regions(channels: int) -> None:
    bench = Bench()
    rois = np.concatenate([IMAGES[:, None].astype(np.float32), ROIS], axis=1)
    x = bench.input(random(2, 12, 14, channels))
    bench.step(MaxRoiPool((3, 2)), x, bench.input(rois), stored=True)
    bench.check(pieces=3)


@pytest.mark.parametrize("name", ["aarch64", "cortex-m4", "riscv64", "wasm32"])
def test_other_machines(name: str) -> None:
    for case in (SAMPLING[0], SAMPLING[-1], SAMPLING[-4]):
        target = Target.of(name)
        assert compile_module(best_kernel(bench_of(case).job(), target).module, target)


@pytest.mark.parametrize("border", Border)
@pytest.mark.parametrize("mode", Interpolation)
def test_images_of_ranged_extents(mode: Interpolation, border: Border) -> None:
    height, width = ranged(Dim("h", 1, 20)), ranged(Dim("w", 1, 20))
    types = [f32(2, height, width, 5), f32(2, 3, width, 2)]

    def sampled(b: Builder, x: Value, grid: Value) -> list[Value]:
        return [b.emit(GridSample(mode, border, aligned), x, grid) for aligned in (False, True)]

    runs = [{"h": h, "w": w} for h, w in [(1, 1), (2, 7), (13, 4), (20, 20)]]
    check_ranged(module_of(types, sampled), runs, tolerance=1e-4)
