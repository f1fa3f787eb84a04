"""Reshapes, expansions and tiles that compose or vanish."""

from afterglow.transforms.reshapes import SIMPLIFY_RESHAPES
from tests.transforms.rewriting import check_declines, check_rewrites, program


def test_neighbouring_reshapes_compose() -> None:
    check_rewrites(
        SIMPLIFY_RESHAPES,
        before=program(
            "%x: f32[2, 6]",
            "%a = reshape(%x) {shape = (12,)} : f32[12]",
            "%y = reshape(%a) {shape = (3, 4)} : f32[3, 4]",
        ),
        after=program("%x: f32[2, 6]", "%y = reshape(%x) {shape = (3, 4)} : f32[3, 4]"),
    )


def test_reshapes_expansions_and_tiles_to_the_same_shape_vanish() -> None:
    check_rewrites(
        SIMPLIFY_RESHAPES,
        before=program(
            "%x: f32[2, 6]",
            "%a = reshape(%x) {shape = (2, 6)} : f32[2, 6]",
            "%b = expand(%a) {shape = (2, 6)} : f32[2, 6]",
            "%c = tile(%b) {repeats = (1, 1)} : f32[2, 6]",
            "%y = exp(%c) : f32[2, 6]",
        ),
        after=program("%x: f32[2, 6]", "%y = exp(%x) : f32[2, 6]"),
    )


def test_expansions_compose() -> None:
    check_rewrites(
        SIMPLIFY_RESHAPES,
        before=program(
            "%x: f32[1, 3]",
            "%a = expand(%x) {shape = (2, 3)} : f32[2, 3]",
            "%y = expand(%a) {shape = (4, 2, 3)} : f32[4, 2, 3]",
        ),
        after=program("%x: f32[1, 3]", "%y = expand(%x) {shape = (4, 2, 3)} : f32[4, 2, 3]"),
    )


def test_a_reshaped_constant_is_a_constant() -> None:
    check_rewrites(
        SIMPLIFY_RESHAPES,
        before=program(
            "%x: f32[2, 2]",
            "const @w : f32[4] = [1, 2, 3, 4]",
            "%a = reshape(@w) {shape = (2, 2)} : f32[2, 2]",
            "%y = add(%x, %a) : f32[2, 2]",
        ),
        after=program(
            "%x: f32[2, 2]",
            "const @w_1 : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]",
            "%y = add(%x, @w_1) : f32[2, 2]",
        ),
    )


def test_a_transpose_that_moves_only_short_axes_is_a_reshape() -> None:
    check_rewrites(
        SIMPLIFY_RESHAPES,
        before=program(
            "%x: f32[2, 5, 1, 1]",
            "%y = transpose(%x) {perm = (0, 2, 3, 1)} : f32[2, 1, 1, 5]",
        ),
        after=program(
            "%x: f32[2, 5, 1, 1]", "%y = reshape(%x) {shape = (2, 1, 1, 5)} : f32[2, 1, 1, 5]"
        ),
    )


def test_other_reshapes_expansions_and_transposes_stay() -> None:
    check_declines(
        SIMPLIFY_RESHAPES,
        program(
            "%x: f32[2, 3]",
            "%a = transpose(%x) {perm = (1, 0)} : f32[3, 2]",
            "%b = reshape(%a) {shape = (1, 6)} : f32[1, 6]",
            "%c = expand(%b) {shape = (2, 6)} : f32[2, 6]",
            "%y = tile(%c) {repeats = (2, 1)} : f32[4, 6]",
        ),
    )
