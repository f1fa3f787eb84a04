"""Axes that reshapes join, kept apart."""

import pytest

from afterglow.graph import parse_module
from afterglow.ops.movement import Transpose
from afterglow.transforms.regroup_axes import REGROUP_AXES
from tests.transforms.rewriting import assert_same_meaning, check_declines, check_rewrites, program


def test_axes_that_are_cut_again_are_not_joined() -> None:
    check_rewrites(
        REGROUP_AXES,
        before=program(
            "%x: f32[5, 2, 6]",
            "%j = reshape(%x) {shape = (5, 6, 2)} : f32[5, 6, 2]",
            "%t = transpose(%j) {perm = (1, 0, 2)} : f32[6, 5, 2]",
            "%y = reshape(%t) {shape = (2, 3, 5, 2)} : f32[2, 3, 5, 2]",
        ),
        after=program(
            "%x: f32[5, 2, 6]",
            "%y_1 = reshape(%x) {shape = (5, 2, 3, 2)} : f32[5, 2, 3, 2]",
            "%y = transpose(%y_1) {perm = (1, 2, 0, 3)} : f32[2, 3, 5, 2]",
        ),
    )


@pytest.mark.parametrize(
    "body",
    [
        (  # nothing is joined
            "%j = reshape(%x) {shape = (5, 2, 3, 2)} : f32[5, 2, 3, 2]",
            "%t = transpose(%j) {perm = (1, 0, 2, 3)} : f32[2, 5, 3, 2]",
            "%y = reshape(%t) {shape = (2, 5, 6)} : f32[2, 5, 6]",
        ),
        (  # nothing is cut again
            "%j = reshape(%x) {shape = (5, 6, 2)} : f32[5, 6, 2]",
            "%t = transpose(%j) {perm = (1, 0, 2)} : f32[6, 5, 2]",
            "%y = reshape(%t) {shape = (60)} : f32[60]",
        ),
    ],
)
def test_other_reshapes_stay(body: tuple[str, ...]) -> None:
    check_declines(REGROUP_AXES, program("%x: f32[5, 2, 6]", *body))


def test_rows_of_a_product_are_regrouped_before_it() -> None:
    check_rewrites(
        REGROUP_AXES,
        before=program(
            "%x: f32[3, 2, 2]",
            "const @w : f32[2, 1] = [1.0, 2.0]",
            "const @b : f32[1] = [3.0]",
            "%r = reshape(%x) {shape = (6, 2)} : f32[6, 2]",
            "%m = matmul(%r, @w) {transpose_lhs = false, transpose_rhs = false} : f32[6, 1]",
            "%s = add(%m, @b) : f32[6, 1]",
            "%y = reshape(%s) {shape = (3, 2, 1)} : f32[3, 2, 1]",
        ),
        after=program(
            "%x: f32[3, 2, 2]",
            "const @w : f32[2, 1] = [1.0, 2.0]",
            "const @b : f32[1] = [3.0]",
            "%y_1 = reshape(%x) {shape = (3, 2, 2)} : f32[3, 2, 2]",
            "%y_2 = matmul(%y_1, @w) {transpose_lhs = false, transpose_rhs = false} : f32[3, 2, 1]",
            "%y = add(%y_2, @b) : f32[3, 2, 1]",
        ),
    )


def test_a_transpose_of_rows_joins_the_one_before_the_product() -> None:
    check_rewrites(
        REGROUP_AXES,
        before=program(
            "%x: f32[2, 3, 5, 4], %w: f32[12, 7]",
            "%t = transpose(%x) {perm = (2, 0, 1, 3)} : f32[5, 2, 3, 4]",
            "%r = reshape(%t) {shape = (5, 2, 12)} : f32[5, 2, 12]",
            "%m = matmul(%r, %w) {transpose_lhs = false, transpose_rhs = false} : f32[5, 2, 7]",
            "%y = transpose(%m) {perm = (1, 0, 2)} : f32[2, 5, 7]",
        ),
        after=program(
            "%x: f32[2, 3, 5, 4], %w: f32[12, 7]",
            "%y_1 = reshape(%x) {shape = (2, 3, 5, 4)} : f32[2, 3, 5, 4]",
            "%y_2 = transpose(%y_1) {perm = (0, 2, 1, 3)} : f32[2, 5, 3, 4]",
            "%y_3 = reshape(%y_2) {shape = (2, 5, 12)} : f32[2, 5, 12]",
            "%y = matmul(%y_3, %w) {transpose_lhs = false, transpose_rhs = false} : f32[2, 5, 7]",
        ),
    )


def test_a_transpose_that_moves_the_last_axis_stays_behind_the_product() -> None:
    check_declines(
        REGROUP_AXES,
        program(
            "%x: f32[2, 5, 4], %w: f32[4, 7]",
            "%t = transpose(%x) {perm = (1, 0, 2)} : f32[5, 2, 4]",
            "%r = reshape(%t) {shape = (5, 2, 4)} : f32[5, 2, 4]",
            "%m = matmul(%r, %w) {transpose_lhs = false, transpose_rhs = false} : f32[5, 2, 7]",
            "%y = transpose(%m) {perm = (2, 0, 1)} : f32[7, 5, 2]",
        ),
    )


def test_attention_of_torch_keeps_its_meaning() -> None:
    text = program(
        "%x: f32[5, 2, 1, 12], %w: f32[12, 2]",
        "%j = reshape(%x) {shape = (5, 6, 4)} : f32[5, 6, 4]",
        "%t = transpose(%j) {perm = (1, 0, 2)} : f32[6, 5, 4]",
        "%h = reshape(%t) {shape = (2, 3, 5, 4)} : f32[2, 3, 5, 4]",
        "%e = exp(%h) : f32[2, 3, 5, 4]",
        "%b = transpose(%e) {perm = (2, 0, 1, 3)} : f32[5, 2, 3, 4]",
        "%r = reshape(%b) {shape = (10, 12)} : f32[10, 12]",
        "%m = matmul(%r, %w) {transpose_lhs = false, transpose_rhs = false} : f32[10, 2]",
        "%g = reshape(%m) {shape = (5, 2, 2)} : f32[5, 2, 2]",
        "%y = transpose(%g) {perm = (1, 0, 2)} : f32[2, 5, 2]",
    )
    before, after = parse_module(text).main, parse_module(text).main
    assert REGROUP_AXES.run(after)
    perms = [node.op.perm for node in after.nodes if isinstance(node.op, Transpose)]
    assert perms == [(1, 2, 3, 0, 4), (0, 2, 1, 3)]
    assert_same_meaning(before, after)
