"""Ranges of indices that do not follow from shapes, or leave a tensor."""

from __future__ import annotations

import pytest

import afterglow as ag
from afterglow.ops.comprehension.ranges import Range, ranges_of
from afterglow.ops.comprehension.syntax import parse_notation
from afterglow.types import TensorType
from afterglow.types.dtype import boolean, f32, i32


@pytest.mark.parametrize(
    ("text", "shapes", "what", "at"),
    [
        ("o[i] = x[i, 0]", {"x": (3,)}, "x has 1 axes, and 2 indices here", 7),
        (
            "o[i] = x[i] + y[i]",
            {"x": (3,), "y": (4,)},
            "index i has extent 3 in x[i] and 4 in y[i]",
            14,
        ),
        (
            "o[i] = sum(k) x[i+k]",
            {"x": (3,)},
            "the ranges of i and k do not follow from x[i + k]",
            14,
        ),
        (
            "o[i] = x[i-1]",
            {"x": (3,)},
            "index i - 1 leaves x: it runs from -1 to 2, and the extent is 3",
            7,
        ),
        (
            "o[i] = sum(k) x[i+k] * w[k]",
            {"x": (3,), "w": (4,)},
            "index i + k leaves x, whose extent there is 3, for every i",
            14,
        ),
        (
            "o[i] = x[i] where i in 0:9",
            {"x": (3,)},
            "index i leaves x: it runs from 0 to 8, and the extent is 3",
            7,
        ),
        (
            "o[] = sum(i in 0:2000000000, j in 0:2000000000) x[] * i",
            {"x": ()},
            "o takes 4,000,000,000,000,000,000 combinations of indices, "
            "the most are 1,125,899,906,842,624",
            0,
        ),
        ("o[i] = where(x[i], 1, 2)", {"x": (3,)}, "where: condition must hold bool, got f32[]", 7),
        ("o[i] = not x[i]", {"x": (3,)}, "not: x must hold integers or bool, got f32[]", 7),
    ],
)
def test_what_does_not_fit_is_shown_at_its_place(
    text: str, shapes: dict[str, tuple[int, ...]], what: str, at: int
) -> None:
    with pytest.raises(ag.CompileError) as caught:
        ag.comprehension(text).module(shapes)
    assert caught.value.what == f"comprehension: {what}"
    assert caught.value.excerpt[-2:] == (text, " " * at + "^")


def test_numbers_of_two_types_do_not_mix() -> None:
    with pytest.raises(ag.AfterglowError, match="x holds f32, y holds i32"):
        ag.comprehension("o[i] = x[i] + y[i]").infer(TensorType(f32, (3,)), TensorType(i32, (3,)))
    result = ag.comprehension("o[i] = where(c[i], x[i], 0)").infer(
        TensorType(boolean, (3,)), TensorType(i32, (3,))
    )
    assert result == TensorType(i32, (3,))
    with pytest.raises(ag.AfterglowError, match=r"0\.5 is not of type i32"):
        ag.comprehension("o[i] = x[i] + 0.5").infer(TensorType(i32, (3,)))


@pytest.mark.parametrize(
    ("text", "shapes", "extents"),
    [
        ("o[i] = x[i+1] - x[i]", {"x": (9,)}, {"i": 8}),
        ("o[i] = x[2*i] + x[2*i+1]", {"x": (9,)}, {"i": 4}),
        ("o[i] = sum(k) x[2*i+3*k] * w[k]", {"x": (12,), "w": (3,)}, {"i": 3, "k#1": 3}),
        ("o[i] = sum(k) x[i+k] * y[i]", {"x": (9,), "y": (4,)}, {"i": 4, "k#1": 6}),
        ("o[i, j] = x[i - j + 2] where j in 0:3", {"x": (9,)}, {"i": 7, "j": 3}),
    ],
)
def test_indices_run_as_far_as_they_stay_inside(
    text: str, shapes: dict[str, tuple[int, ...]], extents: dict[str, int]
) -> None:
    (statement,) = parse_notation(text).statements
    found = ranges_of(text, statement, shapes)
    assert found == {name: Range(0, extent) for name, extent in extents.items()}
