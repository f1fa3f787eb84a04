"""Kernels at extents that their tiles, vectors and work-groups do not divide."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.ops.attention import Attention
from afterglow.ops.convolution import ConvTranspose
from afterglow.ops.indexing import ScatterND, ScatterReduction
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.ops.reduction import CumSum, ReduceMax
from afterglow.ops.search import ArgMax, TopK
from afterglow.ops.softmax import Softmax
from afterglow.testing.cases.case import boolean, case, f32, i8, i32, i64, u8
from tests.backends.opencl.programs import check_cases

pytest.importorskip("pyopencl", reason="pyopencl is not installed: pip install afterglow[opencl]")

CASES = [
    case(
        Attention(0.5, causal=True),
        f32(1, 4, 6, 24),
        f32(1, 2, 141, 24),
        f32(1, 2, 141, 20),
        boolean(6, 141),
    ),
    case(ConvTranspose((2, 3), (1, 0, 0, 1), (1, 2), 2), f32(1, 3, 5, 4), f32(4, 2, 3, 3), f32(6)),
    case(ReduceMax((0, 2)), f32(3, 5, 40)),
    case(Softmax(), f32(3, 21)),
    case(CumSum(0, reverse=True), f32(5, 3)),
    case(ArgMax(1), f32(2, 5)),
    case(TopK(3), f32(2, 9)),
    case(
        ScatterND(ScatterReduction.ADD),
        f32(5, 4),
        i64(3, 1),
        f32(3, 4),
        given={1: np.array([[4], [-1], [0]])},
    ),
    case(QuantizedMatMul(lhs_zero_point=7), u8(5, 600), i8(600, 20), f32(20), i32(20)),
    case(QuantizedConv((1, 1), (1, 1, 1, 1), (1, 1), 2), u8(1, 4, 5, 6), i8(10, 3, 3, 3)),
]


def test_kernels_compute_what_the_ops_are_defined_to():
    check_cases(CASES)
