"""Weights behind a flattened feature map."""

import numpy as np
import pytest

from afterglow.graph import Function, parse_module
from afterglow.ops.movement import Transpose
from afterglow.transforms.reorder_rows import REORDER_ROWS
from afterglow.types.later import ReorderedArray
from tests.transforms.rewriting import assert_same_meaning, check_declines, check_rewrites, program


def test_rows_are_reordered_instead_of_the_columns() -> None:
    check_rewrites(
        REORDER_ROWS,
        before=program(
            "%x: f32[5, 2, 2]",
            "const @w : f32[4, 1] = [1, 2, 3, 4]",
            "%t = transpose(%x) {perm = (0, 2, 1)} : f32[5, 2, 2]",
            "%f = reshape(%t) {shape = (5, 4)} : f32[5, 4]",
            "%y = matmul(%f, @w) {transpose_lhs = false, transpose_rhs = false} : f32[5, 1]",
        ),
        after=program(
            "%x: f32[5, 2, 2]",
            "const @w_1 : f32[4, 1] = [1.0, 3.0, 2.0, 4.0]",
            "%y_1 = reshape(%x) {shape = (5, 4)} : f32[5, 4]",
            "%y = matmul(%y_1, @w_1) {transpose_lhs = false, transpose_rhs = false} : f32[5, 1]",
        ),
    )


def count_transposes(function: Function) -> int:
    return sum(isinstance(node.op, Transpose) for node in function.nodes)


@pytest.mark.parametrize(
    ("weights", "value", "flag"),
    [
        ("const @w : f32[12, 5]", "@w", "false"),
        ("const @w : f32[5, 12]", "@w", "true"),
    ],
)
def test_rows_of_any_matrix_are_reordered(weights: str, value: str, flag: str) -> None:
    elements = ", ".join(str(i * i % 7) for i in range(60))
    text = program(
        "%x: f32[2, 2, 2, 3]",
        f"{weights} = [{elements}]",
        "%t = transpose(%x) {perm = (0, 3, 1, 2)} : f32[2, 3, 2, 2]",
        "%f = reshape(%t) {shape = (2, 12)} : f32[2, 12]",
        f"%y = matmul(%f, {value}) {{transpose_lhs = false, transpose_rhs = {flag}}} : f32[2, 5]",
    )
    before, after = parse_module(text), parse_module(text)
    assert REORDER_ROWS.run(after.main)
    assert not count_transposes(after.main)
    assert_same_meaning(before.main, after.main)


@pytest.mark.parametrize(("axis", "scales", "reordered"), [(1, 2, True), (0, 4, False)])
def test_rows_with_scales_of_their_own_stay(axis: int, scales: int, reordered: bool) -> None:
    text = program(
        "%x: f32[5, 2, 2]",
        "const @w : i8[4, 2] = [1, 2, 3, 4, 5, 6, 7, 8]",
        f"const @s : f32[{scales}] = [{', '.join('1234'[:scales])}]",
        "%t = transpose(%x) {perm = (0, 2, 1)} : f32[5, 2, 2]",
        "%f = reshape(%t) {shape = (5, 4)} : f32[5, 4]",
        f"%d = dequantize_linear(@w, @s) {{axis = {axis}, dtype = f32, block_size = 0}} "
        ": f32[4, 2]",
        "%y = matmul(%f, %d) {transpose_lhs = false, transpose_rhs = false} : f32[5, 2]",
    )
    before, after = parse_module(text), parse_module(text)
    assert REORDER_ROWS.run(after.main) is reordered
    assert count_transposes(after.main) == (not reordered)
    assert_same_meaning(before.main, after.main)


def test_a_transpose_that_moves_rows_of_the_product_stays() -> None:
    check_declines(
        REORDER_ROWS,
        program(
            "%x: f32[2, 5, 2]",
            "const @w : f32[4, 1] = [1, 2, 3, 4]",
            "%t = transpose(%x) {perm = (1, 0, 2)} : f32[5, 2, 2]",
            "%f = reshape(%t) {shape = (5, 4)} : f32[5, 4]",
            "%y = matmul(%f, @w) {transpose_lhs = false, transpose_rhs = false} : f32[5, 1]",
        ),
    )


def test_weights_that_are_not_known_stay() -> None:
    check_declines(
        REORDER_ROWS,
        program(
            "%x: f32[5, 2, 2], %w: f32[4, 1]",
            "%t = transpose(%x) {perm = (0, 2, 1)} : f32[5, 2, 2]",
            "%f = reshape(%t) {shape = (5, 4)} : f32[5, 4]",
            "%y = matmul(%f, %w) {transpose_lhs = false, transpose_rhs = false} : f32[5, 1]",
        ),
    )


@pytest.mark.parametrize(("shape", "flag"), [("12, 2048", "false"), ("2048, 12", "true")])
def test_large_weights_are_reordered_when_somebody_reads_them(shape: str, flag: str) -> None:
    rows = [int(extent) for extent in shape.split(",")]
    text = program(
        "%x: f32[1, 2, 2, 3]",
        f"const @w : f32[{shape}] = fill 0",
        "%t = transpose(%x) {perm = (0, 3, 1, 2)} : f32[1, 3, 2, 2]",
        "%f = reshape(%t) {shape = (1, 12)} : f32[1, 12]",
        f"%y = matmul(%f, @w) {{transpose_lhs = false, transpose_rhs = {flag}}} : f32[1, 2048]",
    )
    before, after = parse_module(text), parse_module(text)
    weights = np.random.default_rng(0).standard_normal(rows).astype(np.float32)
    for module in (before, after):
        next(iter(module.constants.values())).data = weights
    assert REORDER_ROWS.run(after.main)
    contents = [constant.content for constant in after.constants.values()]
    assert [type(content) for content in contents if content is not weights] == [ReorderedArray]
    assert_same_meaning(before.main, after.main)
