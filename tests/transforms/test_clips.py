"""Bounds of clips, rectifiers, maxima and minima."""

import pytest

from afterglow.transforms.clips import RAISE_CLIPS, SIMPLIFY_CLIPS, Range
from tests.transforms.rewriting import check_declines, check_rewrites


def program(*lines: str, constants: str = "") -> str:
    """A function of %x: f32[2, 3] that returns the value of the last line."""
    body = "\n".join(f"  {line} : f32[2, 3]" for line in lines)
    result = lines[-1].split(" = ")[0] if lines else "%x"
    return f"{constants}\nfunc @main(%x: f32[2, 3]) {{\n{body}\n  return {result}\n}}".strip()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("max(%x, @c)", "clip(%x) {low = 1.0, high = none}"),
        ("min(%x, @c)", "clip(%x) {low = none, high = 1.0}"),
    ],
)
def test_a_bound_by_one_number_is_a_clip(before: str, after: str) -> None:
    check_rewrites(
        RAISE_CLIPS,
        before=program(f"%r = {before}", constants="const @c : f32[3] = [1, 1, 1]"),
        after=program(f"%r = {after}"),
    )


def test_the_larger_of_x_and_zero_is_a_rectifier() -> None:
    check_rewrites(
        RAISE_CLIPS,
        before=program("%r = max(%x, @c)", constants="const @c : f32[] = [0]"),
        after=program("%r = relu(%x)"),
    )


@pytest.mark.parametrize("constant", ["const @c : f32[3] = [1, 1, 2]", "const @c : f32[] = [nan]"])
def test_other_bounds_are_no_clip(constant: str) -> None:
    check_declines(RAISE_CLIPS, program("%r = max(%x, @c)", constants=constant))


def test_a_bound_that_repeats_x_is_no_clip() -> None:
    check_declines(
        RAISE_CLIPS,
        """
        const @c : f32[2, 1] = [0, 0]
        func @main(%x: f32[3]) {
          %r = max(%x, @c) : f32[2, 3]
          return %r
        }
        """,
    )


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ("relu(%x)", "clip(%s) {low = none, high = 6.0}", "clip(%x) {low = 0.0, high = 6.0}"),
        ("clip(%x) {low = -1.0, high = 6.0}", "relu(%s)", "clip(%x) {low = 0.0, high = 6.0}"),
        ("clip(%x) {low = -1.0, high = none}", "relu(%s)", "relu(%x)"),
        (
            "clip(%x) {low = -1.0, high = 1.0}",
            "clip(%s) {low = -0.5, high = 2.0}",
            "clip(%x) {low = -0.5, high = 1.0}",
        ),
        (
            "clip(%x) {low = -1.0, high = 1.0}",
            "clip(%s) {low = 2.0, high = 3.0}",
            "clip(%x) {low = 2.0, high = 2.0}",
        ),
        (
            "clip(%x) {low = 1.0, high = -1.0}",
            "clip(%s) {low = -0.5, high = 3.0}",
            "clip(%x) {low = -0.5, high = -0.5}",
        ),
    ],
)
def test_a_clip_of_a_clip_is_one_clip(first: str, second: str, merged: str) -> None:
    check_rewrites(
        SIMPLIFY_CLIPS,
        before=program(f"%s = {first}", f"%r = {second}"),
        after=program(f"%r = {merged}"),
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("relu(%x)", "relu(%s)"),
        ("sigmoid(%x)", "relu(%s)"),
        ("sigmoid(%x)", "clip(%s) {low = 0.0, high = 1.0}"),
        ("softmax(%x) {axis = 1}", "relu(%s)"),
        ("exp(%x)", "relu(%s)"),
        ("abs(%x)", "relu(%s)"),
        ("tanh(%x)", "clip(%s) {low = -2.0, high = 1.0}"),
        ("clip(%x) {low = 0.5, high = 1.0}", "relu(%s)"),
        ("exp(%x)", "clip(%s) {low = none, high = none}"),
    ],
)
def test_a_clip_of_what_is_in_bounds_goes(first: str, second: str) -> None:
    check_rewrites(
        SIMPLIFY_CLIPS,
        before=program(f"%s = {first}", f"%r = {second}", "%t = neg(%r)"),
        after=program(f"%s = {first}", "%t = neg(%s)"),
    )


def test_bounds_are_known_through_moves() -> None:
    check_rewrites(
        SIMPLIFY_CLIPS,
        before="""
            func @main(%x: f32[2, 3]) {
              %a = relu(%x) : f32[2, 3]
              %b = transpose(%a) {perm = (1, 0)} : f32[3, 2]
              %c = relu(%b) : f32[3, 2]
              return %c
            }
        """,
        after="""
            func @main(%x: f32[2, 3]) {
              %a = relu(%x) : f32[2, 3]
              %b = transpose(%a) {perm = (1, 0)} : f32[3, 2]
              return %b as "c"
            }
        """,
    )


@pytest.mark.parametrize(
    "lines",
    [
        ["%s = tanh(%x)", "%r = relu(%s)"],
        ["%s = sigmoid(%x)", "%r = clip(%s) {low = 0.1, high = 1.0}"],
        ["%s = clip(%x) {low = -1.0, high = 1.0}", "%t = relu(%s)", "%r = add(%s, %t)"],
    ],
)
def test_a_clip_that_matters_stays(lines: list[str]) -> None:
    check_declines(SIMPLIFY_CLIPS, program(*lines))


def test_ranges_compose_as_clips_do() -> None:
    for inner in (Range(-1, 2), Range(2, -1), Range(), Range(high=0)):
        for outer in (Range(0, 1), Range(1, 0), Range(), Range(low=3)):
            merged = outer.after(inner)
            for x in (-4, -1, 0, 0.5, 1, 2, 3, 9):
                once = min(max(x, inner.low), inner.high)
                twice = min(max(once, outer.low), outer.high)
                assert min(max(x, merged.low), merged.high) == twice
