from __future__ import annotations

import numpy as np
import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import Function, Value, parse_function
from afterglow.transforms.matching.polynomials import (
    Polynomial,
    is_polynomial,
    multiple_of,
    polynomial,
)


def values(*lines: str) -> dict[str, Value]:
    """The values of a function of %x and %z whose nodes are written without types."""
    nodes = "\n".join(f"%{line} : f32[3]" for line in lines)
    function: Function = parse_function(
        "const @two : f32[] = [2]\nconst @half : f32[1] = [0.5]\nconst @w : f32[3] = [1, 2, 3]\n"
        f"const @minus_half : f32[] = [-0.5]\nfunc @main(%x: f32[3], %z: f32[3]) {{\n{nodes}\n"
        "return %y\n}"
    )
    found: dict[str, Value] = {value.name: value for value in function.inputs}
    found.update((node.name, node.result) for node in function.nodes)
    return found


READ: list[tuple[tuple[str, ...], Polynomial]] = [
    (("y = add(%x, @two)",), {(1, 0): 1, (0, 0): 2}),
    (("y = sub(@two, %x)",), {(1, 0): -1, (0, 0): 2}),
    (("a = neg(%x)", "y = div(%a, @two)"), {(1, 0): -0.5}),
    (("a = sub(%x, %z)", "y = mul(%a, %a)"), {(2, 0): 1, (1, 1): -2, (0, 2): 1}),
    (("a = sub(%x, %z)", "y = pow(%a, @two)"), {(2, 0): 1, (1, 1): -2, (0, 2): 1}),
    (("a = sub(%x, %z)", "y = sub(%x, %a)"), {(0, 1): 1}),
    (("a = sqrt(%z)", "y = div(%x, %a)"), {(1, -0.5): 1}),
    (("a = pow(%z, @minus_half)", "y = mul(%a, %x)"), {(1, -0.5): 1}),
    (("a = pow(%z, @half)", "b = reciprocal(%a)", "y = mul(%x, %b)"), {(1, -0.5): 1}),
]


@pytest.mark.parametrize(("lines", "wanted"), READ)
def test_formulas_are_read(lines: tuple[str, ...], wanted: Polynomial) -> None:
    found = values(*lines)
    assert polynomial(found["y"], found["x"], found["z"]) == wanted


OTHERS = [
    ("y = exp(%x)",),
    ("y = mul(%x, @w)",),
    ("a = add(%x, %z)", "y = reciprocal(%a)"),
    ("a = mul(%x, %x)", "y = sqrt(%a)"),
    ("y = div(%x, %x)",),
    ("y = pow(%x, %z)",),
]


@pytest.mark.parametrize("lines", OTHERS)
def test_what_is_no_polynomial_is_not_read(lines: tuple[str, ...]) -> None:
    found = values(*lines)
    assert polynomial(found["y"], found["x"], found["z"]) is None


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 3e38])
def test_exponents_that_no_polynomial_has_are_not_read(number: float) -> None:
    text = """
        const @c : f32[]
        func @main(%x: f32[3]) {
          %a = mul(%x, @c) : f32[3]
          %y = pow(%a, @c) : f32[3]
          return %y
        }
        """
    function = parse_function(text, {"c": np.array(number, np.float32)})
    assert polynomial(function.outputs[0].value, function.inputs[0]) is None


def test_an_atom_is_not_looked_into() -> None:
    found = values("a = exp(%x)", "y = mul(%a, @two)")
    assert polynomial(found["y"], found["a"]) == {(1,): 2}


def test_coefficients_need_to_be_near_only() -> None:
    found = values("y = mul(%x, @two)")
    assert is_polynomial(found["y"], [found["x"]], {(1,): 2.0001})
    assert not is_polynomial(found["y"], [found["x"]], {(1,): 2.01})
    assert not is_polynomial(found["y"], [found["x"]], {(1,): 2.0, (0,): 1.0})


def test_a_multiple_has_one_term() -> None:
    found = values("a = mul(@two, %x)", "y = add(%a, @two)")
    assert multiple_of(found["a"], found["x"]) == 2
    assert multiple_of(found["y"], found["x"]) is None


def test_long_formulas_are_given_up() -> None:
    lines = ["a0 = add(%x, %z)", *(f"a{i + 1} = mul(%a{i}, %a{i})" for i in range(6))]
    found = values(*lines, "y = neg(%a6)")
    assert polynomial(found["y"], found["x"], found["z"]) is None
