"""Convolutions as products, of any window, and depthwise ones."""

from __future__ import annotations

import ml_dtypes
import pytest

pytest.importorskip("triton", reason="triton is not installed: pip install afterglow[cuda]")

from afterglow.backends.cuda.kernels.conv_layout import ConvLayout
from afterglow.ops.convolution import Conv
from tests.backends.cuda.kernels.jobs import TARGET, check
from tests.backends.cuda.kernels.tiles import ANCHORS, floats, in_tiles, product

CASES = [
    ((2, 9, 10, 64), (40, 3, 3, 64), Conv((1, 1), (1,) * 4, (1, 1))),
    ((2, 9, 10, 64), (40, 3, 3, 64), Conv((2, 2), (1,) * 4, (1, 1))),
    ((1, 9, 10, 40), (40, 3, 3, 40), Conv((1, 2), (0, 1, 2, 1), (2, 1))),
    ((1, 9, 10, 64), (40, 1, 1, 64), Conv((1, 1), (0,) * 4, (1, 1))),
    ((1, 9, 10, 64), (40, 1, 1, 64), Conv((2, 2), (0,) * 4, (1, 1))),
    ((1, 9, 10, 24), (48, 3, 3, 4), Conv((1, 1), (1,) * 4, (1, 1), 6)),
    ((2, 18, 3), (20, 5, 3), Conv((1,), (2, 2), (1,))),
    ((1, 4, 5, 6, 12), (20, 3, 3, 3, 12), Conv((1,) * 3, (1,) * 6, (1,) * 3)),
]
LINES = [
    ((2, 18, 20, 3), (20, 7, 7, 3), Conv((2, 2), (3,) * 4, (1, 1)), (1, 2)),
    ((2, 18, 20, 3), (20, 3, 3, 3), Conv((2, 2), (0, 0, 1, 1), (1, 1)), (0, 2)),
    ((2, 18, 20, 4), (20, 7, 7, 4), Conv((2, 2), (3,) * 4, (1, 1)), (4, 8)),
    ((2, 18, 19, 1), (20, 3, 3, 1), Conv((1, 1), (1,) * 4, (1, 1)), (0, 1)),
]
DEPTHWISE = [
    ((1, 14, 14, 96), (96, 3, 3, 1), Conv((1, 1), (1,) * 4, (1, 1), 96)),
    ((2, 15, 14, 36), (36, 5, 5, 1), Conv((2, 2), (1, 2, 2, 1), (1, 1), 36)),
    ((2, 15, 14, 3), (3, 3, 3, 1), Conv((1, 1), (0,) * 4, (2, 1), 3)),
    ((2, 15, 14), (14, 3, 1), Conv((1,), (1, 1), (1,), 14)),
    ((1, 2, 2, 3), (3, 2, 2, 1), Conv((1, 1), (0,) * 4, (1, 1), 3)),
]


@pytest.mark.parametrize(("x", "weight", "op"), CASES)
def test_windows_of_any_geometry_are_multiplied(x, weight, op):
    made = product(op, floats("f2", *x), floats("f2", *weight), floats("f2", weight[0]))
    check(made, 1e-2, in_tiles(made, 64, 32, 32))


@pytest.mark.parametrize(("x", "weight", "op", "vector"), LINES)
def test_few_channels_are_read_as_lines_by_vectors(x, weight, op, vector):
    made = product(op, floats("f2", *x), floats("f2", *weight), floats("f2", weight[0]))
    assert ConvLayout(made.anchor).line_vector == vector
    check(made, 1e-2, in_tiles(made, 64, 32, 32))


@pytest.mark.parametrize(("dtype", "tolerance"), [("f4", 1e-5), (ml_dtypes.bfloat16, 1e-1)])
def test_other_floats_are_multiplied(dtype, tolerance):
    op = Conv((1, 1), (1,) * 4, (1, 1))
    made = product(op, floats(dtype, 1, 9, 10, 20), floats(dtype, 40, 3, 3, 20))
    check(made, tolerance, in_tiles(made, 64, 32, 32))


@pytest.mark.parametrize(("groups", "channels"), [(1, 40), (2, 20)])
def test_a_weight_may_be_known_only_when_it_runs(groups, channels):
    op = Conv((1, 1), (1,) * 4, (1, 1), groups)
    x, weight = floats("f2", 1, 9, 10, 40), floats("f2", 40, 3, 3, channels)
    made = product(op, x, weight, constant=False)
    check(made, 1e-2, in_tiles(made, 64, 32, 32))


def test_programs_share_the_terms_of_windows():
    op = Conv((1, 1), (1,) * 4, (1, 1))
    made = product(op, floats("f2", 1, 9, 10, 64), floats("f2", 40, 3, 3, 64))
    check(made, 1e-2, in_tiles(made, 32, 32, 32, 4))


@pytest.mark.parametrize(("x", "weight", "op"), DEPTHWISE)
@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_channels_by_themselves_are_summed_up_by_blocks(x, weight, op, dtype):
    made = product(op, floats(dtype, *x), floats(dtype, *weight), floats(dtype, weight[0]))
    source = check(made, 1e-2 if dtype == "f2" else 1e-5)
    assert "tl.dot" not in source.text
    plans = ANCHORS.find(made.anchor, TARGET).plans(made.job(), TARGET)
    check(made, 1e-2 if dtype == "f2" else 1e-5, number=len(plans) - 1)
