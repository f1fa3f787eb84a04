"""What is known of an OpenCL device as a target."""

from __future__ import annotations

from afterglow.backends.opencl.target import OpenClTarget
from afterglow.types.dtype import bf16, f16, i8
from tests.backends.opencl.test_driver import LIMITS


def test_weights_of_16_bits_are_read_at_full_speed_and_smaller_ones_are_not():
    target = OpenClTarget(LIMITS)
    assert [target.reads(dtype) for dtype in (f16, bf16, i8)] == [True, True, False]
