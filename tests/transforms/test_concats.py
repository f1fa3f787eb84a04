"""Concatenations that are joined, shortened, or looked through."""

from afterglow.transforms.concats import SIMPLIFY_CONCATS
from tests.transforms.rewriting import check_declines, check_rewrites, program

TWO = "%x: f32[2, 3], %y: f32[2, 2]"


def test_nested_concatenations_become_one() -> None:
    check_rewrites(
        SIMPLIFY_CONCATS,
        before=program(
            TWO,
            "%a = concat(%y, %x) {axis = -1} : f32[2, 5]",
            "%r = concat(%x, %a, %y) {axis = 1} : f32[2, 10]",
        ),
        after=program(TWO, "%r = concat(%x, %y, %x, %y) {axis = 1} : f32[2, 10]"),
    )


def test_nested_concatenations_along_other_axes_stay() -> None:
    check_declines(
        SIMPLIFY_CONCATS,
        program(
            TWO,
            "%a = concat(%x, %x) {axis = 0} : f32[4, 3]",
            "%r = concat(%a, %a) {axis = 1} : f32[4, 6]",
        ),
    )


def test_a_concatenation_that_others_need_stays_one() -> None:
    check_declines(
        SIMPLIFY_CONCATS,
        """
        func @main(%x: f32[2, 3], %y: f32[2, 2]) {
          %a = concat(%x, %y) {axis = 1} : f32[2, 5]
          %b = concat(%a, %y) {axis = 1} : f32[2, 7]
          return %a, %b
        }
        """,
    )


def test_empty_parts_and_single_parts_need_no_concatenation() -> None:
    check_rewrites(
        SIMPLIFY_CONCATS,
        before=program(
            "%x: f32[2, 3], %e: f32[2, 0]",
            "%a = concat(%e, %x) {axis = 1} : f32[2, 3]",
            "%b = concat(%a) {axis = 0} : f32[2, 3]",
            "%r = exp(%b) : f32[2, 3]",
        ),
        after=program("%x: f32[2, 3], %e: f32[2, 0]", "%r = exp(%x) : f32[2, 3]"),
    )


def test_slices_that_cover_a_value_are_the_value() -> None:
    check_rewrites(
        SIMPLIFY_CONCATS,
        before=program(
            "%x: f32[2, 6]",
            "%a = slice(%x) {starts = (0, 0), extents = (2, 2), steps = (1, 1)} : f32[2, 2]",
            "%b = slice(%x) {starts = (0, 2), extents = (2, 1), steps = (1, 1)} : f32[2, 1]",
            "%c = slice(%x) {starts = (0, 3), extents = (2, 3), steps = (1, 1)} : f32[2, 3]",
            "%d = concat(%a, %b, %c) {axis = 1} : f32[2, 6]",
            "%r = exp(%d) : f32[2, 6]",
        ),
        after=program("%x: f32[2, 6]", "%r = exp(%x) : f32[2, 6]"),
    )


def test_neighbouring_slices_are_one_slice() -> None:
    check_rewrites(
        SIMPLIFY_CONCATS,
        before=program(
            "%x: f32[2, 6]",
            "%a = slice(%x) {starts = (0, 1), extents = (2, 2), steps = (1, 1)} : f32[2, 2]",
            "%b = slice(%x) {starts = (0, 3), extents = (2, 1), steps = (1, 1)} : f32[2, 1]",
            "%r = concat(%a, %b) {axis = 1} : f32[2, 3]",
        ),
        after=program(
            "%x: f32[2, 6]",
            "%r = slice(%x) {starts = (0, 1), extents = (2, 3), steps = (1, 1)} : f32[2, 3]",
        ),
    )


def test_slices_in_another_order_stay() -> None:
    check_declines(
        SIMPLIFY_CONCATS,
        program(
            "%x: f32[2, 6]",
            "%a = slice(%x) {starts = (0, 0), extents = (2, 3), steps = (1, 1)} : f32[2, 3]",
            "%b = slice(%x) {starts = (0, 3), extents = (2, 3), steps = (1, 1)} : f32[2, 3]",
            "%r = concat(%b, %a) {axis = 1} : f32[2, 6]",
        ),
    )


def test_neighbouring_constants_are_one() -> None:
    check_rewrites(
        SIMPLIFY_CONCATS,
        before=program(
            "%x: f32[2]",
            "const @c : f32[1] = [1]",
            "const @d : f32[2] = [2, 3]",
            "%r = concat(%x, @c, @d) {axis = 0} : f32[5]",
        ),
        after=program(
            "%x: f32[2]",
            "const @c_1 : f32[3] = [1.0, 2.0, 3.0]",
            "%r = concat(%x, @c_1) {axis = 0} : f32[5]",
        ),
    )


def test_large_constants_stay_apart() -> None:
    check_declines(
        SIMPLIFY_CONCATS,
        program(
            "%x: f32[2]",
            "const @c : f32[30000] = fill 1",
            "%r = concat(%x, @c, @c) {axis = 0} : f32[60002]",
        ),
    )


def test_a_slice_within_one_part_is_a_slice_of_the_part() -> None:
    check_rewrites(
        SIMPLIFY_CONCATS,
        before=program(
            TWO,
            "%a = concat(%x, %y) {axis = 1} : f32[2, 5]",
            "%r = slice(%a) {starts = (0, 4), extents = (1, 2), steps = (1, -1)} : f32[1, 2]",
        ),
        after=program(
            TWO,
            "%r = slice(%y) {starts = (0, 1), extents = (1, 2), steps = (1, -1)} : f32[1, 2]",
        ),
    )


def test_a_slice_across_parts_stays() -> None:
    check_declines(
        SIMPLIFY_CONCATS,
        program(
            TWO,
            "%a = concat(%x, %y) {axis = 1} : f32[2, 5]",
            "%r = slice(%a) {starts = (0, 2), extents = (2, 2), steps = (1, 1)} : f32[2, 2]",
        ),
    )
