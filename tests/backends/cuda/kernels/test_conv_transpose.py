"""Transposed convolutions as products: phases of any geometry, in tiles."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("triton", reason="triton is not installed: pip install afterglow[cuda]")

from afterglow.backends.cuda.kernels.tile import Tile
from afterglow.backends.cuda.kernels.transposed_layout import TransposedLayout
from afterglow.ops.convolution import ConvTranspose
from tests.backends.cuda.kernels.jobs import EACH_ARCH, TARGET, check, compiled, plans, source_for
from tests.backends.cuda.kernels.tiles import ANCHORS, floats, product

CASES = [
    ((2, 5, 6, 40), (40, 3, 3, 24), ConvTranspose((2, 2), (1,) * 4, (1, 1), 1, (1, 1))),
    ((2, 5, 6, 32), (32, 2, 2, 24), ConvTranspose((2, 2), (0,) * 4, (1, 1))),
    ((1, 5, 6, 32), (32, 4, 4, 3), ConvTranspose((2, 2), (1,) * 4, (1, 1))),
    ((1, 5, 6, 20), (20, 3, 3, 24), ConvTranspose((1, 1), (0, 1, 2, 1), (2, 1))),
    ((1, 5, 4, 20), (20, 5, 3, 24), ConvTranspose((3, 2), (2, 0, 1, 1), (2, 2))),
    ((1, 3, 4, 20), (20, 1, 2, 24), ConvTranspose((2, 3), (0,) * 4, (1, 1), 1, (1, 0))),
    ((1, 3, 4, 40), (40, 3, 3, 20), ConvTranspose((2, 2), (1,) * 4, (1, 1), 2, (0, 1))),
    ((2, 9, 20), (20, 16, 24), ConvTranspose((8,), (4, 4), (1,))),
    ((1, 1, 20), (20, 3, 24), ConvTranspose((4,), (0, 1), (1,))),
    ((1, 2, 3, 2, 20), (20, 3, 2, 4, 24), ConvTranspose((2, 1, 2), (1, 0, 1) * 2, (1,) * 3)),
]


def _in_tiles(made, rows, columns, terms, splits=1):
    extents = TransposedLayout(made.anchor).extents
    return lambda plan: Tile(rows, columns, terms, 4, 3, splits).plan(extents, plan.cost)


def _made(x, weight, op, dtype="f2", **options):
    bias = floats(dtype, weight[-1] * op.groups)
    return product(op, floats(dtype, *x), floats(dtype, *weight), bias, **options)


@pytest.mark.parametrize(("x", "weight", "op"), CASES)
def test_phases_of_any_geometry_are_multiplied(x, weight, op):
    made = _made(x, weight, op)
    check(made, 1e-2, _in_tiles(made, 32, 16, 16))


@pytest.mark.parametrize(("dtype", "tolerance"), [("f4", 1e-5), (ml_dtypes.bfloat16, 1e-1)])
def test_other_floats_are_multiplied(dtype, tolerance):
    check(_made(*CASES[0], dtype), tolerance)


@pytest.mark.parametrize("splits", [2, 3])
def test_programs_share_the_terms_of_a_phase(splits):
    made = _made(*CASES[0])
    check(made, 1e-2, _in_tiles(made, 32, 32, 16, splits))


@pytest.mark.parametrize("seed", range(6))
def test_random_geometries_are_multiplied(seed):
    random = np.random.default_rng(seed)
    rank = int(random.integers(1, 4))
    kernel, strides, dilations = (
        tuple(random.integers(1, most, rank).tolist()) for most in (5, 4, 3)
    )
    reach = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
    pads = tuple(int(random.integers(0, r + 1)) // 2 for r in reach * 2)
    added = tuple(int(random.integers(0, s)) for s in strides)
    x = (2, *random.integers(2, 5, rank).tolist(), 18)
    op = ConvTranspose(strides, pads, dilations, 1, added)
    made = _made(x, (18, *kernel, 20), op)
    check(made, 1e-2, _in_tiles(made, 32, 32, 16))


@pytest.mark.parametrize(("x", "weight", "op"), CASES)
def test_phases_multiply_no_more_than_the_definition(x, weight, op):
    made = _made(x, weight, op)
    layout = TransposedLayout(made.anchor)
    taps = [
        math.prod(axis.taps[f] for axis, f in zip(layout.axes, phase, strict=True))
        for phase in layout.each_phase()
    ]
    assert sum(taps) <= math.prod(weight[1:-1])


def test_channels_by_themselves_are_computed_one_by_one():
    op = ConvTranspose((2, 2), (1,) * 4, (1, 1), 16)
    made = _made((1, 4, 4, 16), (16, 4, 4, 1), op)
    assert ANCHORS.find(made.anchor, TARGET).plans is None
    assert "tl.dot" not in check(made, 1e-2).text


def test_a_weight_that_is_known_only_when_it_runs_is_read_where_it_lies():
    op = ConvTranspose((2, 2), (0,) * 4, (1, 1))
    made = _made((1, 3, 2, 8), (8, 2, 2, 8), op, constant=False)
    assert "tl.dot" not in check(made, 1e-2).text


def test_estimates_count_the_taps_that_phases_have():
    even, uneven = (
        _made((1, 32, 32, 64), (64, k, k, 64), ConvTranspose((2, 2), (0,) * 4, (1, 1)))
        for k in (4, 3)
    )
    assert plans(uneven)[0].cost < plans(even)[0].cost
    work = TransposedLayout(uneven.anchor).work(uneven.job())
    assert work.steps(64) == 3
    assert TransposedLayout(uneven.anchor).steps(64) == 4


@EACH_ARCH
def test_a_phase_is_compiled_for_tensor_cores(arch):
    made = _made((1, 16, 16, 64), (64, 4, 4, 64), ConvTranspose((2, 2), (1,) * 4, (1, 1)))
    (kernel,) = compiled(source_for(made, arch), arch=arch)
    assert kernel.stack == 0
