"""Laws of logic and of choice."""

import pytest

from afterglow.transforms.logic import SIMPLIFY_LOGIC
from tests.transforms.rewriting import check_declines, check_rewrites, program

T = "f32[2, 3]"
SIGNATURE = f"%x: {T}, %y: {T}, %row: f32[3], %i: i32[2, 3], %p: bool[2, 3], %q: bool[2, 3]"

LAWS = {
    "or false": (
        [
            "const @c : bool[] = [false]",
            "%s = or(%p, @c) : bool[2, 3]",
            "%r = not(%s) : bool[2, 3]",
        ],
        ["%r = not(%p) : bool[2, 3]"],
    ),
    "and true": (
        [
            "const @c : bool[] = [true]",
            "%s = and(@c, %p) : bool[2, 3]",
            "%r = not(%s) : bool[2, 3]",
        ],
        ["%r = not(%p) : bool[2, 3]"],
    ),
    "the larger of the same": (
        [f"%s = max(%x, %x) : {T}", f"%r = exp(%s) : {T}"],
        [f"%r = exp(%x) : {T}"],
    ),
    "not not": (
        [
            "%s = not(%p) : bool[2, 3]",
            "%t = not(%s) : bool[2, 3]",
            "%r = or(%t, %q) : bool[2, 3]",
        ],
        ["%r = or(%p, %q) : bool[2, 3]"],
    ),
    "where it is true": (
        ["const @c : bool[] = [true]", f"%s = where(@c, %x, %y) : {T}", f"%r = exp(%s) : {T}"],
        [f"%r = exp(%x) : {T}"],
    ),
    "where it is false": (
        ["const @c : bool[] = [false]", f"%s = where(@c, %x, %y) : {T}", f"%r = exp(%s) : {T}"],
        [f"%r = exp(%y) : {T}"],
    ),
    "where both are the same": (
        [f"%s = where(%p, %x, %x) : {T}", f"%r = exp(%s) : {T}"],
        [f"%r = exp(%x) : {T}"],
    ),
    "where not": (
        ["%s = not(%p) : bool[2, 3]", f"%r = where(%s, %x, %y) : {T}"],
        [f"%r = where(%p, %y, %x) : {T}"],
    ),
    "shifting by zero": (
        [
            "const @c : i32[] = [0]",
            "%s = shift_left(%i, @c) : i32[2, 3]",
            "%r = abs(%s) : i32[2, 3]",
        ],
        ["%r = abs(%i) : i32[2, 3]"],
    ),
}

LEFT_ALONE = {
    "where it is both": [
        "const @c : bool[3] = [true, false, true]",
        f"%r = where(@c, %x, %y) : {T}",
    ],
    "where the branch is smaller": [
        "const @c : bool[] = [true]",
        f"%r = where(@c, %row, %y) : {T}",
    ],
    "a conjunction with another number": [
        "const @c : i32[] = [1]",
        "%r = and(%i, @c) : i32[2, 3]",
    ],
    "a disjunction with true": ["const @c : bool[] = [true]", "%r = or(%p, @c) : bool[2, 3]"],
    "one negation": ["%r = not(%p) : bool[2, 3]"],
}


@pytest.mark.parametrize("law", LAWS)
def test_law(law: str) -> None:
    before, after = LAWS[law]
    check_rewrites(
        SIMPLIFY_LOGIC, before=program(SIGNATURE, *before), after=program(SIGNATURE, *after)
    )


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_left_alone(case: str) -> None:
    check_declines(SIMPLIFY_LOGIC, program(SIGNATURE, *LEFT_ALONE[case]))
