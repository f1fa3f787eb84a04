"""Kernels at extents that their tiles, vectors and work-groups do not divide."""

from __future__ import annotations

import pytest

from afterglow.ops.attention import Attention
from afterglow.testing.cases.case import boolean, case, f32
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
]


def test_kernels_compute_what_the_ops_are_defined_to():
    check_cases(CASES)
