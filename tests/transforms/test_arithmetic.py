"""Laws of arithmetic."""

import pytest

from afterglow.transforms.arithmetic import ARITHMETIC
from tests.transforms.rewriting import check_declines, check_rewrites, program

T = "f32[2, 3]"
SIGNATURE = f"%x: {T}, %y: {T}, %row: f32[3], %i: i32[2, 3]"

LAWS = {
    "constants go right": (
        ["const @c : f32[3] = [1.0, 2.0, 3.0]", f"%r = add(@c, %x) : {T}"],
        ["const @c : f32[3] = [1.0, 2.0, 3.0]", f"%r = add(%x, @c) : {T}"],
    ),
    "adding zero": (
        ["const @c : f32[] = [0]", f"%s = add(%x, @c) : {T}", f"%r = exp(%s) : {T}"],
        [f"%r = exp(%x) : {T}"],
    ),
    "zero on the left": (
        ["const @c : f32[] = [0]", f"%s = add(@c, %x) : {T}", f"%r = exp(%s) : {T}"],
        [f"%r = exp(%x) : {T}"],
    ),
    "subtracting zero": (
        ["const @c : f32[3] = [0, 0, 0]", f"%s = sub(%x, @c) : {T}", f"%r = exp(%s) : {T}"],
        [f"%r = exp(%x) : {T}"],
    ),
    "multiplying by one": (
        ["const @c : f32[1, 3] = [1, 1, 1]", f"%s = mul(%x, @c) : {T}", f"%r = exp(%s) : {T}"],
        [f"%r = exp(%x) : {T}"],
    ),
    "dividing by one": (
        ["const @c : i32[] = [1]", "%s = div(%i, @c) : i32[2, 3]", "%r = abs(%s) : i32[2, 3]"],
        ["%r = abs(%i) : i32[2, 3]"],
    ),
    "the first power": (
        ["const @c : f32[] = [1]", f"%s = pow(%x, @c) : {T}", f"%r = exp(%s) : {T}"],
        [f"%r = exp(%x) : {T}"],
    ),
    "subtracting is adding": (
        ["const @c : f32[3] = [1, -2, 3]", f"%r = sub(%x, @c) : {T}"],
        ["const @c_1 : f32[3] = [-1.0, 2.0, -3.0]", f"%r = add(%x, @c_1) : {T}"],
    ),
    "dividing by powers of two is multiplying": (
        ["const @c : f32[2, 1] = [8, -0.5]", f"%r = div(%x, @c) : {T}"],
        ["const @c_1 : f32[2, 1] = [0.125, -2.0]", f"%r = mul(%x, @c_1) : {T}"],
    ),
    "sums of constants": (
        [
            "const @c : f32[3] = [1, 2, 3]",
            "const @d : f32[] = [1]",
            f"%s = sub(%x, @c) : {T}",
            f"%r = add(@d, %s) : {T}",
        ],
        ["const @d_1 : f32[3] = [0.0, -1.0, -2.0]", f"%r = add(%x, @d_1) : {T}"],
    ),
    "products of constants": (
        [
            "const @c : f32[3] = [1, 2, 3]",
            "const @d : f32[] = [3]",
            f"%s = mul(%x, @c) : {T}",
            f"%r = mul(%s, @d) : {T}",
        ],
        ["const @d_1 : f32[3] = [3.0, 6.0, 9.0]", f"%r = mul(%x, @d_1) : {T}"],
    ),
    "a product divided": (
        [
            "const @c : f32[] = [6]",
            "const @d : f32[] = [3]",
            f"%s = mul(%x, @c) : {T}",
            f"%r = div(%s, @d) : {T}",
        ],
        ["const @d_1 : f32[] = [2.0]", f"%r = mul(%x, @d_1) : {T}"],
    ),
    "a quotient multiplied": (
        [
            "const @c : f32[] = [3]",
            "const @d : f32[] = [6]",
            f"%s = div(%x, @c) : {T}",
            f"%r = mul(%s, @d) : {T}",
        ],
        ["const @d_1 : f32[] = [2.0]", f"%r = mul(%x, @d_1) : {T}"],
    ),
    "a quotient divided": (
        [
            "const @c : f32[] = [3]",
            "const @d : f32[] = [5]",
            f"%s = div(%x, @c) : {T}",
            f"%r = div(%s, @d) : {T}",
        ],
        ["const @d_1 : f32[] = [15.0]", f"%r = div(%x, @d_1) : {T}"],
    ),
    "a factor of a sum": (
        [
            "const @c : f32[] = [3]",
            "const @d : f32[3] = [1, 2, 3]",
            "const @e : f32[] = [2]",
            f"%s = mul(%x, @c) : {T}",
            f"%t = add(%s, @d) : {T}",
            f"%r = mul(%t, @e) : {T}",
        ],
        [
            "const @c_1 : f32[] = [6.0]",
            "const @d_1 : f32[3] = [2.0, 4.0, 6.0]",
            f"%r_1 = mul(%x, @c_1) : {T}",
            f"%r = add(%r_1, @d_1) : {T}",
        ],
    ),
    "squares": (
        ["const @c : f32[] = [2]", f"%r = pow(%x, @c) : {T}"],
        [f"%r = mul(%x, %x) : {T}"],
    ),
    "cubes": (
        ["const @c : f32[] = [3]", f"%r = pow(%x, @c) : {T}"],
        [f"%r_1 = mul(%x, %x) : {T}", f"%r = mul(%r_1, %x) : {T}"],
    ),
    "square roots": (
        ["const @c : f32[] = [0.5]", f"%a = abs(%x) : {T}", f"%r = pow(%a, @c) : {T}"],
        [f"%a = abs(%x) : {T}", f"%r = sqrt(%a) : {T}"],
    ),
    "inverse square roots": (
        ["const @c : f32[] = [-0.5]", f"%a = abs(%x) : {T}", f"%r = pow(%a, @c) : {T}"],
        [
            "const @scalar : f32[] = [1.0]",
            f"%a = abs(%x) : {T}",
            f"%r_1 = sqrt(%a) : {T}",
            f"%r = div(@scalar, %r_1) : {T}",
        ],
    ),
    "inverses": (
        ["const @c : f32[] = [-1]", f"%r = pow(%x, @c) : {T}"],
        ["const @scalar : f32[] = [1.0]", f"%r = div(@scalar, %x) : {T}"],
    ),
    "a negation of a negation": (
        [f"%s = neg(%x) : {T}", f"%t = neg(%s) : {T}", f"%r = exp(%t) : {T}"],
        [f"%r = exp(%x) : {T}"],
    ),
    "adding a negation": (
        [f"%s = neg(%y) : {T}", f"%r = add(%x, %s) : {T}"],
        [f"%r = sub(%x, %y) : {T}"],
    ),
    "adding to a negation": (
        [f"%s = neg(%x) : {T}", f"%r = add(%s, %y) : {T}"],
        [f"%r = sub(%y, %x) : {T}"],
    ),
    "subtracting a negation": (
        [f"%s = neg(%y) : {T}", f"%r = sub(%x, %s) : {T}"],
        [f"%r = add(%x, %y) : {T}"],
    ),
    "multiplying by a reciprocal": (
        [f"%s = reciprocal(%y) : {T}", f"%r = mul(%s, %row) : {T}"],
        [f"%r = div(%row, %y) : {T}"],
    ),
    "dividing by a reciprocal": (
        ["%s = reciprocal(%row) : f32[3]", f"%r = div(%x, %s) : {T}"],
        [f"%r = mul(%x, %row) : {T}"],
    ),
}

LEFT_ALONE = {
    "constants on both sides": ["const @c : f32[] = [3]", "%r = add(@c, @c) : f32[]"],
    "a sum that repeats x": ["const @c : f32[2, 1] = [0, 0]", f"%r = add(%row, @c) : {T}"],
    "a difference of the same": [f"%r = sub(%x, %x) : {T}"],
    "a product with zero": ["const @c : f32[] = [0]", f"%r = mul(%x, @c) : {T}"],
    "zero minus x": ["const @c : f32[] = [0]", f"%r = sub(@c, %x) : {T}"],
    "a quotient that would be rounded": ["const @c : f32[] = [3]", f"%r = div(%x, @c) : {T}"],
    "a quotient of integers": ["const @c : i32[] = [4]", "%r = div(%i, @c) : i32[2, 3]"],
    "a quotient by zero": ["const @c : f32[] = [0]", f"%r = div(%x, @c) : {T}"],
    "a quotient of integers after a product": [
        "const @c : i32[] = [4]",
        "%s = mul(%i, @c) : i32[2, 3]",
        "%r = div(%s, @c) : i32[2, 3]",
    ],
    "a sum that others need": [
        "const @c : f32[] = [3]",
        f"%s = add(%x, @c) : {T}",
        f"%t = add(%s, @c) : {T}",
        f"%r = mul(%s, %t) : {T}",
    ],
    "constants whose sum is larger than both": [
        "const @c : f32[2, 1] = [3, 4]",
        "const @d : f32[3] = [3, 4, 5]",
        f"%s = add(%x, @c) : {T}",
        f"%r = add(%s, @d) : {T}",
    ],
    "constants whose product overflows": [
        "const @c : f32[] = [1e30]",
        f"%s = mul(%x, @c) : {T}",
        f"%r = mul(%s, @c) : {T}",
    ],
    "constants whose product vanishes": [
        "const @c : f32[] = [1e-30]",
        f"%s = mul(%x, @c) : {T}",
        f"%r = mul(%s, @c) : {T}",
    ],
    "powers of other numbers": ["const @c : f32[] = [2.5]", f"%r = pow(%x, @c) : {T}"],
    "squares of integers": ["const @c : i32[] = [2]", "%r = pow(%i, @c) : i32[2, 3]"],
    "powers by a vector": ["const @c : f32[3] = [2, 2, 1]", f"%r = pow(%x, @c) : {T}"],
    "a reciprocal smaller than the result": [
        "%s = reciprocal(%row) : f32[3]",
        f"%r = mul(%x, %s) : {T}",
    ],
}


@pytest.mark.parametrize("law", LAWS)
def test_law(law: str) -> None:
    before, after = LAWS[law]
    check_rewrites(ARITHMETIC, before=program(SIGNATURE, *before), after=program(SIGNATURE, *after))


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_left_alone(case: str) -> None:
    check_declines(ARITHMETIC, program(SIGNATURE, *LEFT_ALONE[case]))


def test_a_sum_that_is_returned_stays() -> None:
    check_declines(
        ARITHMETIC,
        """
        const @c : f32[] = [3]
        func @main(%x: f32[2]) {
          %s = add(%x, @c) : f32[2]
          %t = add(%s, @c) : f32[2]
          return %s, %t
        }
        """,
    )
