"""Pads that vanish, compose, or become part of what slides over them."""

import pytest

from afterglow.transforms.pads import FOLD_PADS
from tests.transforms.rewriting import check_declines, check_rewrites, program

IMAGE = "%x: f32[1, 4, 4, 2]"
PAD = "%p = pad(%x) {before = (0, 1, 0, 0), after = (0, 1, 2, 0), mode = constant} "
WINDOW = "kernel = (2, 2), strides = (2, 2), pads = (%s), dilations = (1, 1), ceil_mode = %s"
CONV = "strides = (1, 1), pads = (%s), dilations = (1, 1), groups = 1"
WEIGHT = "const @w : f32[3, 2, 2, 2] = fill 0.5"


def test_a_pad_of_nothing_vanishes() -> None:
    check_rewrites(
        FOLD_PADS,
        before=program(
            "%x: f32[3]",
            "%p = pad(%x) {before = (0,), after = (0,), mode = reflect} : f32[3]",
            "%r = exp(%p) : f32[3]",
        ),
        after=program("%x: f32[3]", "%r = exp(%x) : f32[3]"),
    )


def test_pads_with_the_same_value_compose() -> None:
    check_rewrites(
        FOLD_PADS,
        before=program(
            "%x: f32[3]",
            "const @v : f32[] = [7]",
            "%p = pad(%x, @v) {before = (1,), after = (0,), mode = constant} : f32[4]",
            "%r = pad(%p, @v) {before = (1,), after = (2,), mode = constant} : f32[7]",
        ),
        after=program(
            "%x: f32[3]",
            "const @v : f32[] = [7.0]",
            "%r = pad(%x, @v) {before = (2,), after = (2,), mode = constant} : f32[7]",
        ),
    )


def test_pads_with_different_values_stay() -> None:
    check_declines(
        FOLD_PADS,
        program(
            "%x: f32[3]",
            "const @v : f32[] = [7]",
            "%p = pad(%x, @v) {before = (1,), after = (0,), mode = constant} : f32[4]",
            "%r = pad(%p) {before = (1,), after = (2,), mode = constant} : f32[7]",
        ),
    )


def test_a_convolution_pads_by_itself() -> None:
    check_rewrites(
        FOLD_PADS,
        before=program(
            IMAGE,
            WEIGHT,
            PAD + ": f32[1, 6, 6, 2]",
            f"%r = conv(%p, @w) {{{CONV % '1, 0, 0, 0'}}} : f32[1, 6, 5, 3]",
        ),
        after=program(
            IMAGE,
            "const @w : f32[3, 2, 2, 2]",
            f"%r = conv(%x, @w) {{{CONV % '2, 0, 1, 2'}}} : f32[1, 6, 5, 3]",
        ),
    )


@pytest.mark.parametrize(
    "pad",
    [
        "pad(%x, @one) {before = (0, 1, 1, 0), after = (0, 0, 0, 0), mode = constant}",
        "pad(%x) {before = (0, 1, 1, 0), after = (0, 0, 0, 0), mode = edge}",
        "pad(%x, %v) {before = (0, 1, 1, 0), after = (0, 0, 0, 0), mode = constant}",
    ],
)
def test_a_convolution_pads_with_nothing_but_zeros(pad: str) -> None:
    check_declines(
        FOLD_PADS,
        program(
            f"{IMAGE}, %v: f32[]",
            WEIGHT,
            "const @one : f32[] = [1]",
            f"%p = {pad} : f32[1, 5, 5, 2]",
            f"%r = conv(%p, @w) {{{CONV % '0, 0, 0, 0'}}} : f32[1, 4, 4, 3]",
        ),
    )


def test_a_convolution_does_not_pad_channels() -> None:
    check_declines(
        FOLD_PADS,
        program(
            "%x: f32[1, 4, 4, 1]",
            WEIGHT,
            "%p = pad(%x) {before = (0, 0, 0, 0), after = (0, 0, 0, 1), mode = constant} "
            ": f32[1, 4, 4, 2]",
            f"%r = conv(%p, @w) {{{CONV % '0, 0, 0, 0'}}} : f32[1, 3, 3, 3]",
        ),
    )


def test_a_maximum_pads_by_itself_with_the_least_of_all() -> None:
    pad = PAD.replace("%x", "%x, @least")
    check_rewrites(
        FOLD_PADS,
        before=program(
            IMAGE,
            "const @least : f32[] = [-inf]",
            pad + ": f32[1, 6, 6, 2]",
            f"%r = max_pool(%p) {{{WINDOW % ('0, 0, 0, 0', 'false')}}} : f32[1, 3, 3, 2]",
        ),
        after=program(
            IMAGE, f"%r = max_pool(%x) {{{WINDOW % ('1, 0, 1, 2', 'false')}}} : f32[1, 3, 3, 2]"
        ),
    )


def test_a_maximum_over_zeros_stays_padded() -> None:
    check_declines(
        FOLD_PADS,
        program(
            IMAGE,
            PAD + ": f32[1, 6, 6, 2]",
            f"%r = max_pool(%p) {{{WINDOW % ('0, 0, 0, 0', 'false')}}} : f32[1, 3, 3, 2]",
        ),
    )


def average(value: str, pads: str, ceil_mode: str, counted: str) -> str:
    """The line of an average pooling."""
    window = f"{WINDOW % (pads, ceil_mode)}, count_include_pad = {counted}"
    return f"%r = avg_pool({value}) {{{window}}} : f32[1, 3, 3, 2]"


@pytest.mark.parametrize("counted", ["true", "false"])
def test_an_average_over_all_padding_pads_by_itself(counted: str) -> None:
    check_rewrites(
        FOLD_PADS,
        before=program(
            IMAGE, PAD + ": f32[1, 6, 6, 2]", average("%p", "0, 0, 0, 0", "false", counted)
        ),
        after=program(IMAGE, average("%x", "1, 0, 1, 2", "false", "true")),
    )


@pytest.mark.parametrize(
    ("pads", "ceil_mode", "counted"),
    [("0, 0, 0, 0", "true", "true"), ("1, 0, 0, 0", "false", "false")],
)
def test_an_average_that_counts_other_elements_stays(
    pads: str, ceil_mode: str, counted: str
) -> None:
    check_declines(
        FOLD_PADS,
        program(IMAGE, PAD + ": f32[1, 6, 6, 2]", average("%p", pads, ceil_mode, counted)),
    )
