"""Kernels at extents that their tiles, vectors and work-groups do not divide."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.opencl.backend import OpenCl
from afterglow.ops.activation import Gelu
from afterglow.ops.attention import Attention
from afterglow.ops.convolution import ConvTranspose
from afterglow.ops.indexing import ScatterND, ScatterReduction
from afterglow.ops.linear import MatMul
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.ops.reduction import CumSum, ReduceMax, ReduceSum
from afterglow.ops.search import ArgMax, TopK
from afterglow.ops.softmax import Softmax
from afterglow.testing.cases import CASES as ALL
from afterglow.testing.cases.case import bf16, boolean, case, f16, f32, i8, i32, i64, u8
from afterglow.types import dtype as dtypes
from tests.backends.opencl.programs import check_cases

pytestmark = pytest.mark.usefixtures("opencl_device")

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

NARROW = [
    case(MatMul(), bf16(3, 700), bf16(700, 2)),
    case(ReduceSum((1,)), f16(2, 700)),
    case(Gelu(), bf16(3, 16)),
]


def _is_narrow(each):
    return any(type is not None and type.dtype in (dtypes.f16, dtypes.bf16) for type in each.types)


@pytest.mark.parametrize(
    "cases", [NARROW, pytest.param([*filter(_is_narrow, ALL)], marks=pytest.mark.slow)]
)
def test_floats_of_16_bits_stay_such_in_memory_and_are_computed_in_f32(cases, monkeypatch):
    monkeypatch.setattr(OpenCl, "preparation", ())
    check_cases(cases)


def test_kernels_compute_what_the_ops_are_defined_to():
    check_cases(CASES)
