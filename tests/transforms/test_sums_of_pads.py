"""Sums of padded tensors become concatenations."""

from __future__ import annotations

from afterglow.transforms.sums_of_pads import SUMS_OF_PADS
from tests.transforms.rewriting import check_declines, check_rewrites


def test_parts_that_fill_the_sum_are_concatenated_in_their_order() -> None:
    check_rewrites(
        SUMS_OF_PADS,
        before="""
            func @main(%a: f32[2, 1], %b: f32[2, 2], %c: f32[2, 3]) {
              %p = pad(%b) {before = (0, 1), after = (0, 3), mode = constant} : f32[2, 6]
              %q = pad(%c) {before = (0, 3), after = (0, 0), mode = constant} : f32[2, 6]
              %s = add(%p, %q) : f32[2, 6]
              %r = pad(%a) {before = (0, 0), after = (0, 5), mode = constant} : f32[2, 6]
              %y = add(%s, %r) : f32[2, 6]
              return %y
            }
        """,
        after="""
            func @main(%a: f32[2, 1], %b: f32[2, 2], %c: f32[2, 3]) {
              %y = concat(%a, %b, %c) {axis = 1} : f32[2, 6]
              return %y
            }
        """,
    )


def test_other_terms_and_zeros_that_are_left_stay() -> None:
    check_rewrites(
        SUMS_OF_PADS,
        before="""
            func @main(%a: f32[1], %b: f32[2], %x: f32[5]) {
              %p = pad(%a) {before = (1,), after = (3,), mode = constant} : f32[5]
              %s = add(%x, %p) : f32[5]
              %q = pad(%b) {before = (2,), after = (1,), mode = constant} : f32[5]
              %y = add(%q, %s) : f32[5]
              return %y
            }
        """,
        after="""
            func @main(%a: f32[1], %b: f32[2], %x: f32[5]) {
              %y_1 = concat(%a, %b) {axis = 0} : f32[3]
              %y_2 = pad(%y_1) {before = (1,), after = (1,), mode = constant} : f32[5]
              %y = add(%y_2, %x) : f32[5]
              return %y
            }
        """,
    )


def test_parts_that_overlap_or_are_used_elsewhere_stay() -> None:
    check_declines(
        SUMS_OF_PADS,
        """
            func @main(%a: f32[3], %b: f32[3], %c: f32[2]) {
              %p = pad(%a) {before = (0,), after = (2,), mode = constant} : f32[5]
              %q = pad(%b) {before = (2,), after = (0,), mode = constant} : f32[5]
              %s = add(%p, %q) : f32[5]
              %r = pad(%c) {before = (3,), after = (0,), mode = constant} : f32[5]
              %t = pad(%a) {before = (0,), after = (2,), mode = constant} : f32[5]
              %u = add(%r, %t) : f32[5]
              return %s, %u, %r
            }
        """,
    )


def test_what_is_padded_with_other_numbers_stays() -> None:
    check_declines(
        SUMS_OF_PADS,
        """
            const @one : f32[] = [1]
            func @main(%a: f32[3], %b: f32[2]) {
              %p = pad(%a, @one) {before = (0,), after = (2,), mode = constant} : f32[5]
              %q = pad(%b) {before = (3,), after = (0,), mode = constant} : f32[5]
              %s = add(%p, %q) : f32[5]
              return %s
            }
        """,
    )
