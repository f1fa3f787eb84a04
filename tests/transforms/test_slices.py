"""Slices that compose, vanish, or move; gathers that are slices."""

import pytest

from afterglow.transforms.slices import SIMPLIFY_SLICES
from tests.transforms.rewriting import check_declines, check_rewrites, program


def test_a_slice_of_everything_vanishes() -> None:
    check_rewrites(
        SIMPLIFY_SLICES,
        before=program(
            "%x: f32[2, 1]",
            "%a = slice(%x) {starts = (0, 0), extents = (2, 1), steps = (1, -1)} : f32[2, 1]",
            "%r = exp(%a) : f32[2, 1]",
        ),
        after=program("%x: f32[2, 1]", "%r = exp(%x) : f32[2, 1]"),
    )


def test_a_slice_from_behind_stays() -> None:
    check_declines(
        SIMPLIFY_SLICES,
        program(
            "%x: f32[3]", "%r = slice(%x) {starts = (2,), extents = (3,), steps = (-1,)} : f32[3]"
        ),
    )


def test_slices_of_slices_compose() -> None:
    check_rewrites(
        SIMPLIFY_SLICES,
        before=program(
            "%x: f32[20]",
            "%a = slice(%x) {starts = (18,), extents = (6,), steps = (-3,)} : f32[6]",
            "%r = slice(%a) {starts = (5,), extents = (3,), steps = (-2,)} : f32[3]",
        ),
        after=program(
            "%x: f32[20]", "%r = slice(%x) {starts = (3,), extents = (3,), steps = (6,)} : f32[3]"
        ),
    )


def test_a_slice_of_a_constant_is_a_constant() -> None:
    check_rewrites(
        SIMPLIFY_SLICES,
        before=program(
            "%x: f32[2]",
            "const @w : f32[4] = [1, 2, 3, 4]",
            "%a = slice(@w) {starts = (1,), extents = (2,), steps = (2,)} : f32[2]",
            "%r = add(%x, %a) : f32[2]",
        ),
        after=program(
            "%x: f32[2]",
            "const @w_1 : f32[2] = [2.0, 4.0]",
            "%r = add(%x, @w_1) : f32[2]",
        ),
    )


def test_a_slice_within_what_was_padded_needs_no_pad() -> None:
    check_rewrites(
        SIMPLIFY_SLICES,
        before=program(
            "%x: f32[4]",
            "%a = pad(%x) {before = (2,), after = (1,), mode = reflect} : f32[7]",
            "%r = slice(%a) {starts = (3,), extents = (3,), steps = (1,)} : f32[3]",
        ),
        after=program(
            "%x: f32[4]", "%r = slice(%x) {starts = (1,), extents = (3,), steps = (1,)} : f32[3]"
        ),
    )


def test_a_slice_that_sees_padding_stays() -> None:
    check_declines(
        SIMPLIFY_SLICES,
        program(
            "%x: f32[4]",
            "%a = pad(%x) {before = (2,), after = (1,), mode = constant} : f32[7]",
            "%r = slice(%a) {starts = (1,), extents = (3,), steps = (1,)} : f32[3]",
        ),
    )


def test_what_is_repeated_is_not_sliced() -> None:
    check_rewrites(
        SIMPLIFY_SLICES,
        before=program(
            "%x: f32[4, 1]",
            "%a = expand(%x) {shape = (2, 4, 3)} : f32[2, 4, 3]",
            "%r = slice(%a) {starts = (0, 1, 2), extents = (1, 2, 1), steps = (1, 1, 1)} "
            ": f32[1, 2, 1]",
        ),
        after=program(
            "%x: f32[4, 1]",
            "%r_1 = slice(%x) {starts = (1, 0), extents = (2, 1), steps = (1, 1)} : f32[2, 1]",
            "%r = expand(%r_1) {shape = (1, 2, 1)} : f32[1, 2, 1]",
        ),
    )


def test_a_scalar_can_be_expanded_and_sliced() -> None:
    check_rewrites(
        SIMPLIFY_SLICES,
        before=program(
            "%x: f32[]",
            "%a = expand(%x) {shape = (4,)} : f32[4]",
            "%r = slice(%a) {starts = (1,), extents = (2,), steps = (1,)} : f32[2]",
        ),
        after=program("%x: f32[]", "%r = expand(%x) {shape = (2,)} : f32[2]"),
    )


@pytest.mark.parametrize(
    ("indices", "shape", "start", "extent", "step"),
    [
        ("i64[] = [-1]", "2", 3, 1, 1),
        ("i64[1] = [2]", "2, 1", 2, 1, 1),
        ("i64[3] = [0, 1, 2]", "2, 3", 0, 3, 1),
        ("i32[2, 2] = [3, 2, 1, 0]", "2, 2, 2", 3, 4, -1),
    ],
)
def test_a_gather_of_neighbours_is_a_slice(
    indices: str, shape: str, start: int, extent: int, step: int
) -> None:
    check_rewrites(
        SIMPLIFY_SLICES,
        before=program(
            "%x: f32[2, 4]",
            f"const @i : {indices}",
            f"%r = gather(%x, @i) {{axis = 1}} : f32[{shape}]",
        ),
        after=program(
            "%x: f32[2, 4]",
            f"%r_1 = slice(%x) {{starts = (0, {start}), extents = (2, {extent}), "
            f"steps = (1, {step})}} : f32[2, {extent}]",
            f"%r = reshape(%r_1) {{shape = ({shape}{',' * (shape == '2')})}} : f32[{shape}]",
        ),
    )


@pytest.mark.parametrize("indices", ["[0, 1, 3]", "[1, 1, 1]", "[2, 3, 4]"])
def test_other_gathers_stay(indices: str) -> None:
    check_declines(
        SIMPLIFY_SLICES,
        program(
            "%x: f32[2, 4]",
            f"const @i : i64[3] = {indices}",
            "%r = gather(%x, @i) {axis = 1} : f32[2, 3]",
        ),
    )
