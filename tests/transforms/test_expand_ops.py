"""Ops that stand for others are replaced by them."""

from __future__ import annotations

from afterglow import ops  # noqa: F401  a text names ops of any family
from afterglow.transforms.expand_ops import EXPAND_OPS
from tests.transforms.rewriting import check_rewrites


def test_a_comprehension_becomes_the_ops_that_it_means() -> None:
    check_rewrites(
        EXPAND_OPS,
        before="""
            func @main(%x: f32[4]) {
              %y = comprehension(%x) {text = "o[i] = x[i + 1] - x[i]"} : f32[3]
              return %y
            }
        """,
        after="""
            func @main(%x: f32[4]) {
              %y_1 = slice(%x) {starts = (1,), extents = (3,), steps = (1,)} : f32[3]
              %y_2 = slice(%x) {starts = (0,), extents = (3,), steps = (1,)} : f32[3]
              %y = sub(%y_1, %y_2) : f32[3]
              return %y
            }
        """,
    )
