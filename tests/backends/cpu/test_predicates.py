"""Steps that are skipped where their predicate is false."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
import afterglow.ops
from afterglow.support.errors import AfterglowError

LOOK_UP = """
    func @main(%x: f32[4], %i: i64[3], %flag: bool[]) {
      %no = not(%flag) : bool[]
      %found = gather(%x, %i) {axis = 0} if %flag : f32[3]
      %twice = add(%found, %found) if %flag : f32[3]
      %zero = sub(%found, %found) if %flag : f32[3]
      %other = cast(%i) {dtype = f32} if %no : f32[3]
      %y = where(%flag, %twice, %other) : f32[3]
      return %y
    }
"""


def compiled(text: str, **options: object) -> ag.CompiledModel:
    return ag.compile(ag.parse_module(text), cache=False, verify=True, **options)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_an_index_is_looked_at_only_where_it_is_needed(backend: str) -> None:
    model = compiled(LOOK_UP, backend=backend)
    x, wrong = np.arange(4, dtype=np.float32), np.array([9, 1, 2])
    np.testing.assert_array_equal(model(x, wrong, np.array(False)), [9, 1, 2])
    np.testing.assert_array_equal(model(x, np.array([3, 1, 2]), np.array(True)), [6, 2, 4])
    with pytest.raises(AfterglowError, match="9"):
        model(x, wrong, np.array(True))


def test_a_stack_has_one_predicate_and_the_text_shows_it() -> None:
    text = compiled(LOOK_UP).ir("instructions")
    assert "add out %twice, in %found, in %found if %flag" in text
    assert "round_mode = up} if %no plan element-wise" in text


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_agree_on_what_is_skipped(threads: int) -> None:
    model = compiled(
        """
        func @main(%x: f32[256, 256], %flag: bool[]) {
          %a = matmul(%x, %x) {transpose_lhs = false, transpose_rhs = false} if %flag : f32[256, 256]
          %no = not(%flag) : bool[]
          %b = relu(%a) if %flag : f32[256, 256]
          %c = matmul(%b, %x) {transpose_lhs = false, transpose_rhs = false} if %flag : f32[256, 256]
          %d = neg(%x) if %no : f32[256, 256]
          %y = where(%flag, %c, %d) : f32[256, 256]
          return %y
        }
        """,  # noqa: E501
        threads=threads,
    )
    x = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    wanted = {True: np.maximum(x @ x, 0) @ x, False: -x}
    for flag in (True, False, False, True, True, False) * 4:
        np.testing.assert_allclose(model(x, np.array(flag)), wanted[flag], rtol=1e-3, atol=1e-2)


def test_the_predicate_of_a_step_is_not_overwritten_by_it() -> None:
    model = compiled("""
        func @main(%x: f32[1], %limit: f32[]) {
          %peak = reduce_max(%x) {axes = (0,), keepdims = false} : f32[]
          %p = less(%limit, %peak) : bool[]
          %q = not(%p) if %p : bool[]
          %y = where(%q, %limit, %peak) : f32[]
          return %y
        }
    """)
    assert model(np.array([3], np.float32), np.array(2, np.float32)) == 3


def test_a_branch_is_skipped_whole() -> None:
    model = compiled("""
        func @then(%v: f32[4]) {
          %t = exp(%v) : f32[4]
          return %t
        }
        func @else(%v: f32[4]) {
          %e = neg(%v) : f32[4]
          return %e
        }
        func @main(%x: f32[4], %which: bool[], %flag: bool[]) {
          %r = if(%which, %x) {then_branch = @then, else_branch = @else} if %flag : f32[4]
          %y = where(%flag, %r, %x) : f32[4]
          return %y
        }
    """)
    x = np.array([0, 1, 2, 3], np.float32)
    for which, flag, wanted in (
        (True, True, np.exp(x)),
        (False, True, -x),
        (True, False, x),
        (False, False, x),
    ):
        np.testing.assert_allclose(model(x, np.array(which), np.array(flag)), wanted, rtol=1e-6)
