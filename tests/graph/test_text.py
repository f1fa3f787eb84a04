"""Printing and parsing the graph IR."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import parse_function, parse_module, print_function, print_module
from afterglow.support.errors import ParseError, TypeRuleError


def round_trip(text: str) -> None:
    text = inspect.cleandoc(text) + "\n"
    assert print_module(parse_module(text)) == text


def test_a_function_reads_back_as_it_was_written() -> None:
    round_trip("""
        const @w : f32[2, 2] = [1.0, 0.5, -2.0, 1e-05]
        func @main(%x: f32[1, 2], %y: f32[]) {
          %h = matmul(%x, @w) {transpose_lhs = false, transpose_rhs = false} : f32[1, 2]
          %s = softmax(%h) {axis = -1} : f32[1, 2]
          %z = add(%s, %y) : f32[1, 2]
          return %z, %s as "probabilities"
        }
    """)


def test_several_results_optional_operands_predicates_and_state() -> None:
    round_trip("""
        const @flag : bool[] = [true]
        state @kept : f32[3]
        func @main(%x: f32[3]) {
          %v, %i = top_k(%x) {k = 2, axis = 0, largest = true, sorted = true} : f32[2], i64[2]
          %n = layer_norm(%x, none, @kept) {axis = -1, epsilon = 1e-05} : f32[3]
          %y = add(%n, @kept) if @flag : f32[3]
          store %y to @kept
          return %v, @flag as "on"
        }
    """)


def test_odd_names_are_quoted() -> None:
    round_trip("""
        func @main(%"a b": f32[]) {
          %"x\\"y" = exp(%"a b") : f32[]
          %/layer/Conv_output_0 = exp(%"x\\"y") : f32[]
          return %/layer/Conv_output_0
        }
    """)


def test_element_types_and_small_constants() -> None:
    round_trip("""
        const @a : i64[2] = [1, -2]
        const @b : bool[1] = [false]
        const @c : str[1] = ["q\\"uote"]
        const @d : bf16[2] = [1.5, inf]
        const @e : f32[0] = []
        const @f : i4[] = [-8]
        const @g : f8e5m2[1] = [nan]
        func @main() {
          return @a, @b, @c, @d, @e, @f, @g
        }
    """)


def test_quantized_types() -> None:
    round_trip("""
        state @x : i8[4; scale 0.05, offset -3]
        state @y : i8[2, 3; axis 0, scales (0.5, 0.25), offsets (0, 1)]
        func @main() {
          return @x, @y
        }
    """)


def test_functions_as_attributes() -> None:
    round_trip("""
        func @double(%x: f32[]) {
          %y = add(%x, %x) : f32[]
          return %y
        }
        func @same(%x: f32[]) {
          return %x
        }
        func @main(%c: bool[], %x: f32[]) {
          %y = if(%c, %x) {then_branch = @double, else_branch = @same} : f32[]
          return %y
        }
    """)


def test_large_constants_are_a_payload_beside_the_text() -> None:
    data = np.arange(100, dtype=np.float32)
    text = "const @w : f32[100]\nfunc @main() {\n  return @w\n}\n"
    module = parse_module(text, {"w": data})
    assert print_module(module) == text
    assert module.constants["w"].data is data


def test_origins_are_printed_on_demand() -> None:
    text = 'func @main(%x: f32[]) {\n  %y = exp(%x) : f32[] from "Exp_3"\n  return %y\n}'
    assert print_function(parse_function(text), origins=True) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no function"),
        ("func @main(", "expected the name of a value, found 'end of text'"),
        ("nonsense", "expected 'const', 'state' or 'func', found 'nonsense'"),
        ("func @main() {\n  return %x\n}", "%x is not defined"),
        ("func @main(%x: q7[]) {\n}", "no such element type: 'q7'"),
        ("func @main(%x: f32[], %x: f32[]) {\n}", "%x is defined twice"),
        ("func @main(%x: f32[]) {\n  %y = magic(%x) : f32[]\n}", "no such op: 'magic'"),
        ("func @main(%x: f32[]) {\n  %y = exp(%x) : f32[1]\n}", "exp gives f32[], not f32[1]"),
        ("func @main(%x: i8[]) {\n  %y = exp(%x) : i8[]\n}", "exp: x must hold floats, got i8[]"),
        ("func @main(%x: f32[]) {\n  %y = exp(%x) {z = 1} : f32[]\n}", "exp has no attribute 'z'"),
        ("const @w : f32[9]\nfunc @main() {\n}", "the elements of constant @w are missing"),
        ("const @w : f32[2] = [1]\nfunc @main() {\n}", "f32[2] has 2 elements, got 1"),
        ("const @w : f32[-1] = []", "a shape has no negative extents, got (-1,)"),
        ("func @main(%x: f32[]) {\n  ! \n}", "unexpected character '!'"),
        ("func @f(%x: f32[]) {\n return %x\n}\nfunc @f() {\n}", "function @f is defined twice"),
        ("dim s : 1..4\ndim s : 1..4", "dimension 's' is declared twice"),
        ("dim s : 4..1", "dimension 's' cannot be 4..1"),
        ("dim s : 3..8 by 4", "dimension 's' cannot be 3..8 by 4"),
        ("dim s : few", "expected an integer, found 'few'"),
        ("func @main(%x: f32[s + 1]) {\n}", "dimension 's' is not declared"),
        (
            "dim s : 0..4\nfunc @main(%x: f32[8 // s]) {\n}",
            "this is no extent: 8 divided by s depends on s (0..4)",
        ),
        (
            "dim s : 0..4\nfunc @main(%x: f32[s - 1]) {\n}",
            "whether s - 1 < 0 depends on s (0..4)",
        ),
    ],
)
def test_what_is_wrong_with_a_text_is_said(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(text)
    assert caught.value.what == message
    assert caught.value.where.startswith("in line ")


def test_dimensions_and_expressions_over_them_read_back() -> None:
    round_trip("""
        dim b : 1..4
        dim h : 32..640 by 32
        dim "odd name" : 0..9
        dim s : 1..512
        state @cache : f32[s, 2]
        func @main(%x: f32[b, s, 12], %y: f32[h, "odd name"], %z: f32[s, 2]) {
          %flat = reshape(%x) {shape = (12*b*s,)} : f32[12*b*s]
          %more = pad(%flat, none) {before = (1,), after = (s - 1,), mode = constant} : f32[12*b*s + s]
          %slow = reshape(%y) {shape = ("odd name", h)} : f32["odd name", h]
          %half = fill() {shape = (2*(h // 64), (s + 1) // 2, min(5, s), s % 3), value = 0.0, dtype = f32} : f32[2*(h // 64), (s + 1) // 2, min(5, s), s % 3]
          store %z to @cache
          return %more, %slow, %half
        }
    """)  # noqa: E501


def test_a_name_that_is_no_dimension_of_the_text_is_dynamic() -> None:
    text = "dim s : 1..4\nfunc @main(%x: f32[s, t]) {\n  return %x\n}\n"
    (x,) = parse_module(text).main.inputs
    assert str(x.type) == "f32[s, t]"
    with pytest.raises(TypeRuleError):
        assert x.type.shape


def test_functions_that_ops_carry_share_the_dimensions_of_their_module() -> None:
    round_trip("""
        dim s : 1..9
        func @double(%x: f32[s]) {
          %y = add(%x, %x) : f32[s]
          return %y
        }
        func @same(%x: f32[s]) {
          return %x
        }
        func @main(%p: bool[], %x: f32[s]) {
          %y = if(%p, %x) {then_branch = @double, else_branch = @same} : f32[s]
          return %y
        }
    """)
