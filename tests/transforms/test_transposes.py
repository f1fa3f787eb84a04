"""Transposes that compose, vanish, or become part of a matrix product."""

import numpy as np

from afterglow.graph import parse_module
from afterglow.transforms.transposes import SIMPLIFY_TRANSPOSES
from tests.transforms.rewriting import check_declines, check_rewrites, program

PLAIN = "transpose_lhs = false, transpose_rhs = false"


def test_neighbouring_transposes_cancel() -> None:
    check_rewrites(
        SIMPLIFY_TRANSPOSES,
        before=program(
            "%x: f32[2, 3, 4]",
            "%a = transpose(%x) {perm = (1, 2, 0)} : f32[3, 4, 2]",
            "%b = transpose(%a) {perm = (2, 0, 1)} : f32[2, 3, 4]",
            "%y = exp(%b) : f32[2, 3, 4]",
        ),
        after=program("%x: f32[2, 3, 4]", "%y = exp(%x) : f32[2, 3, 4]"),
    )


def test_neighbouring_transposes_compose() -> None:
    check_rewrites(
        SIMPLIFY_TRANSPOSES,
        before=program(
            "%x: f32[2, 3, 4]",
            "%a = transpose(%x) {perm = (1, 2, 0)} : f32[3, 4, 2]",
            "%y = transpose(%a) {perm = (0, 2, 1)} : f32[3, 2, 4]",
        ),
        after=program("%x: f32[2, 3, 4]", "%y = transpose(%x) {perm = (1, 0, 2)} : f32[3, 2, 4]"),
    )


def test_a_transpose_that_others_need_is_not_done_twice() -> None:
    check_declines(
        SIMPLIFY_TRANSPOSES,
        """
        func @main(%x: f32[2, 3, 1]) {
          %a = transpose(%x) {perm = (1, 0, 2)} : f32[3, 2, 1]
          %b = transpose(%a) {perm = (0, 2, 1)} : f32[3, 1, 2]
          return %a, %b
        }
        """,
    )


def test_transposes_around_a_reshape_become_one() -> None:
    check_rewrites(
        SIMPLIFY_TRANSPOSES,
        before=program(
            "%x: f32[2, 5, 6]",
            "%a = transpose(%x) {perm = (0, 2, 1)} : f32[2, 6, 5]",
            "%b = reshape(%a) {shape = (2, 2, 3, 5)} : f32[2, 2, 3, 5]",
            "%y = transpose(%b) {perm = (0, 3, 2, 1)} : f32[2, 5, 3, 2]",
        ),
        after=program(
            "%x: f32[2, 5, 6]",
            "%y_1 = reshape(%x) {shape = (10, 2, 3)} : f32[10, 2, 3]",
            "%y_2 = transpose(%y_1) {perm = (0, 2, 1)} : f32[10, 3, 2]",
            "%y = reshape(%y_2) {shape = (2, 5, 3, 2)} : f32[2, 5, 3, 2]",
        ),
    )


def test_a_reshape_that_cuts_unevenly_stays_between_transposes() -> None:
    check_declines(
        SIMPLIFY_TRANSPOSES,
        program(
            "%x: f32[4, 6]",
            "%a = transpose(%x) {perm = (1, 0)} : f32[6, 4]",
            "%b = reshape(%a) {shape = (8, 3)} : f32[8, 3]",
            "%y = transpose(%b) {perm = (1, 0)} : f32[3, 8]",
        ),
    )


def test_a_transpose_of_a_constant_is_a_view_of_it() -> None:
    check_rewrites(
        SIMPLIFY_TRANSPOSES,
        before=program(
            "%x: f32[3, 2]",
            "const @w : f32[2, 3] = [1, 2, 3, 4, 5, 6]",
            "%a = transpose(@w) {perm = (1, 0)} : f32[3, 2]",
            "%y = add(%x, %a) : f32[3, 2]",
        ),
        after=program(
            "%x: f32[3, 2]",
            "const @w_1 : f32[3, 2] = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]",
            "%y = add(%x, @w_1) : f32[3, 2]",
        ),
    )


def test_no_constant_is_copied() -> None:
    weights = np.ones((2, 3), np.float32)
    text = """
        const @w : f32[2, 3]
        func @main() {
          %a = transpose(@w) {perm = (1, 0)} : f32[3, 2]
          return %a
        }
        """
    module = parse_module(text, {"w": weights})
    SIMPLIFY_TRANSPOSES.run(module.main)
    assert np.shares_memory(module.constants["w_1"].data, weights)


def test_a_product_takes_transposed_matrices() -> None:
    check_rewrites(
        SIMPLIFY_TRANSPOSES,
        before=program(
            "%x: f32[2, 4, 3], %y: f32[2, 5, 4]",
            "%a = transpose(%x) {perm = (0, 2, 1)} : f32[2, 3, 4]",
            "%b = transpose(%y) {perm = (0, 2, 1)} : f32[2, 4, 5]",
            f"%z = matmul(%a, %b) {{{PLAIN}}} : f32[2, 3, 5]",
        ),
        after=program(
            "%x: f32[2, 4, 3], %y: f32[2, 5, 4]",
            "%z = matmul(%x, %y) {transpose_lhs = true, transpose_rhs = true} : f32[2, 3, 5]",
        ),
    )


def test_a_product_does_not_take_permuted_batches() -> None:
    check_declines(
        SIMPLIFY_TRANSPOSES,
        program(
            "%x: f32[2, 3, 4, 5], %y: f32[5, 6]",
            "%a = transpose(%x) {perm = (1, 0, 2, 3)} : f32[3, 2, 4, 5]",
            f"%z = matmul(%a, %y) {{{PLAIN}}} : f32[3, 2, 4, 6]",
        ),
    )


def test_rows_move_whole_into_a_product() -> None:
    check_rewrites(
        SIMPLIFY_TRANSPOSES,
        before=program(
            "%q: f32[1, 2, 3, 8], %k: f32[1, 4, 2, 8]",
            "%t = transpose(%k) {perm = (0, 2, 3, 1)} : f32[1, 2, 8, 4]",
            f"%z = matmul(%q, %t) {{{PLAIN}}} : f32[1, 2, 3, 4]",
        ),
        after=program(
            "%q: f32[1, 2, 3, 8], %k: f32[1, 4, 2, 8]",
            "%z_1 = transpose(%k) {perm = (0, 2, 1, 3)} : f32[1, 2, 4, 8]",
            "%z = matmul(%q, %z_1) {transpose_lhs = false, transpose_rhs = true} : f32[1, 2, 3, 4]",
        ),
    )


def test_rows_that_others_take_apart_stay_so() -> None:
    check_declines(
        SIMPLIFY_TRANSPOSES,
        f"""
        func @main(%q: f32[1, 2, 3, 8], %k: f32[1, 4, 2, 8]) {{
          %t = transpose(%k) {{perm = (0, 2, 3, 1)}} : f32[1, 2, 8, 4]
          %z = matmul(%q, %t) {{{PLAIN}}} : f32[1, 2, 3, 4]
          return %t, %z
        }}
        """,
    )
