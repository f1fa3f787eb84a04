"""Taps of kernels that see only padding vanish."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from afterglow.graph import Builder, Function, Module, verify_module
from afterglow.ops.convolution import Conv
from afterglow.transforms.padding_only_taps import DROP_PADDING_ONLY_TAPS
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from tests.transforms.rewriting import assert_same_meaning, check_declines, check_rewrites, program

CONV = "strides = (1, 1), pads = (%s), dilations = (1, 1), groups = 1"


def test_of_a_kernel_on_one_pixel_its_middle_is_left() -> None:
    check_rewrites(
        DROP_PADDING_ONLY_TAPS,
        before=program(
            "%x: f32[1, 1, 1, 2]",
            "const @w : f32[3, 3, 3, 2] = fill 0.5",
            f"%r = conv(%x, @w) {{{CONV % '1, 1, 1, 1'}}} : f32[1, 1, 1, 3]",
        ),
        after=program(
            "%x: f32[1, 1, 1, 2]",
            "const @w_1 : f32[3, 1, 1, 2] = [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]",
            f"%r = conv(%x, @w_1) {{{CONV % '0, 0, 0, 0'}}} : f32[1, 1, 1, 3]",
        ),
    )


def test_a_row_of_pixels_keeps_the_taps_along_it() -> None:
    check_rewrites(
        DROP_PADDING_ONLY_TAPS,
        before=program(
            "%x: f32[1, 1, 9, 2]",
            "const @w : f32[3, 3, 3, 2] = fill 0.5",
            f"%r = conv(%x, @w) {{{CONV % '1, 1, 1, 1'}}} : f32[1, 1, 9, 3]",
        ),
        after=program(
            "%x: f32[1, 1, 9, 2]",
            "const @w_1 : f32[3, 1, 3, 2]",
            f"%r = conv(%x, @w_1) {{{CONV % '0, 1, 0, 1'}}} : f32[1, 1, 9, 3]",
        ),
    )


def test_where_every_tap_sees_something_nothing_changes() -> None:
    check_declines(
        DROP_PADDING_ONLY_TAPS,
        program(
            "%x: f32[1, 2, 9, 2]",
            "const @w : f32[3, 3, 3, 2] = fill 0.5",
            f"%r = conv(%x, @w) {{{CONV % '1, 1, 1, 1'}}} : f32[1, 2, 9, 3]",
        ),
    )


small = st.integers(0, 5)
positive = st.integers(1, 4)


@given(positive, positive, positive, positive, small, small)
def test_the_numbers_stay(
    extent: int, kernel: int, stride: int, dilation: int, begin: int, end: int
) -> None:
    assume(extent + begin + end >= (kernel - 1) * dilation + 1)
    module = Module("one")
    function = Function("main", module)
    b = Builder(function)
    x = function.input("x", TensorType(f32, (1, extent, 2)))
    weight = np.random.default_rng(0).standard_normal((3, kernel, 2)).astype(np.float32)
    op = Conv((stride,), (begin, end), (dilation,), 1)
    function.output("y", b.emit(op, x, b.constant(weight)))
    reference = module.clone()
    DROP_PADDING_ONLY_TAPS.run(function)
    verify_module(module)
    assert_same_meaning(reference.main, module.main)
