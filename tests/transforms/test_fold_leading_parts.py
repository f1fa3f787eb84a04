"""What is a leading part of a constant, at any extent, becomes a slice of it."""

from afterglow.transforms.fold_leading_parts import FOLD_LEADING_PARTS
from tests.transforms.rewriting import check_declines, check_rewrites_ranged

RUNS = ({"s": 1}, {"s": 3}, {"s": 4})


def test_counting_along_a_ranged_axis_is_a_slice() -> None:
    check_rewrites_ranged(
        FOLD_LEADING_PARTS,
        before="""
            dim s : 1..4
            func @main(%x: f32[s]) {
              %i = iota() {shape = (s,), axis = 0, dtype = f32} : f32[s]
              %r = add(%x, %i) : f32[s]
              return %r
            }""",
        after="""
            dim s : 1..4
            const @i : f32[4] = [0.0, 1.0, 2.0, 3.0]
            func @main(%x: f32[s]) {
              %i = slice(@i) {starts = (0,), extents = (s,), steps = (1,)} : f32[s]
              %r = add(%x, %i) : f32[s]
              return %r
            }""",
        runs=RUNS,
    )


def test_a_mask_of_counts_is_a_slice_of_the_largest() -> None:
    check_rewrites_ranged(
        FOLD_LEADING_PARTS,
        before="""
            dim s : 1..4
            func @main(%x: f32[s]) {
              %i = iota() {shape = (s, 1), axis = 0, dtype = i64} : i64[s, 1]
              %j = iota() {shape = (1, s), axis = 1, dtype = i64} : i64[1, s]
              %c = less_equal(%j, %i) : bool[s, s]
              return %c
            }""",
        after="""
            dim s : 1..4
            const @c : bool[4, 4]
            func @main(%x: f32[s]) {
              %c = slice(@c) {starts = (0, 0), extents = (s, s), steps = (1, 1)} : bool[s, s]
              return %c
            }""",
        runs=RUNS,
    )


def test_rows_of_a_table_at_the_first_places_are_a_slice() -> None:
    check_rewrites_ranged(
        FOLD_LEADING_PARTS,
        before="""
            dim s : 1..4
            const @t : f32[5, 1] = [5.0, 6.0, 7.0, 8.0, 9.0]
            const @p : i64[4] = [0, 1, 2, 3]
            func @main(%x: f32[s]) {
              %p = slice(@p) {starts = (0,), extents = (s,), steps = (1,)} : i64[s]
              %r = gather(@t, %p) {axis = 0} : f32[s, 1]
              return %r
            }""",
        after="""
            dim s : 1..4
            const @r : f32[4, 1] = [5.0, 6.0, 7.0, 8.0]
            func @main(%x: f32[s]) {
              %r = slice(@r) {starts = (0, 0), extents = (s, 1), steps = (1, 1)} : f32[s, 1]
              return %r
            }""",
        runs=RUNS,
    )


def test_extents_as_data_are_computed_in_each_run() -> None:
    check_declines(
        FOLD_LEADING_PARTS,
        """
        dim s : 1..4
        func @main(%x: f32[s]) {
          %n = extents() {values = (s,), shape = (1,), dtype = i64} : i64[1]
          %e = expand(%n) {shape = (s,)} : i64[s]
          return %e
        }""",
    )


def test_a_reshape_that_joins_ranged_axes_stays() -> None:
    check_declines(
        FOLD_LEADING_PARTS,
        """
        dim s : 1..4
        const @t : f32[4, 2] = [5.0, 6.0, 7.0, 8.0, 9.0, 1.0, 2.0, 3.0]
        func @main(%x: f32[s]) {
          %p = slice(@t) {starts = (0, 0), extents = (s, 2), steps = (1, 1)} : f32[s, 2]
          %r = reshape(%p) {shape = (2*s,)} : f32[2*s]
          return %r
        }""",
    )
