"""Printing and parsing the instruction IR."""

from __future__ import annotations

import inspect

import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.instr import parse_program, print_program
from afterglow.support.errors import ParseError


def round_trip(text: str) -> None:
    text = inspect.cleandoc(text) + "\n"
    printed = print_program(parse_program(text))
    without_comments = "\n".join(line.split(" ;")[0].rstrip() for line in printed.splitlines())
    assert without_comments + "\n" == text
    assert print_program(parse_program(printed)) == printed


def test_a_planned_program_reads_back() -> None:
    round_trip("""
        program @main arena 128 {
          input %x : f32[2, 3]
          output %y : f32[6]
          const @w : f32[3]
          state @s : f32[6]
          %h = alloc f32[2, 3] at 64
          add out %h, in %x, in @w
          relu inout %h, in %h
          %flat = view %h : f32[6]
          copy out %y, in %flat
          copy out @s, in %flat
          dealloc %h
        }
    """)


def test_views_are_windows_or_strides() -> None:
    round_trip("""
        program @main {
          input %x : f32[4, 6]
          output %y : f32[2, 3]
          %a = view %x[1:3, 0:5:2] : f32[2, 3]
          %b = view %x {start = 1, strides = (1, 6)} : f32[2, 3]
          add out %y, in %a, in %b
        }
    """)


def test_predicates_scratch_and_missing_operands() -> None:
    round_trip("""
        program @main {
          input %p : bool[]
          input %x : f32[3]
          output %y : f32[3]
          %s = alloc f32[3]
          layer_norm out %y, in %x, none, in %x, scratch %s {axis = -1, epsilon = 1e-05} if %p
          dealloc %s
        }
    """)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func @main {", "expected 'program', found 'func'"),
        ("program @main {\n  magic out %x\n}", "no such instruction: 'magic'"),
        ("program @main {\n  dealloc %x\n}", "%x is not declared"),
        ("program @main {\n  input %x : f32[]\n  input %x : f32[]\n}", "x is declared twice"),
        ("program @main {\n  input %x : f32[]\n  exp inside %x\n}", "no such access: 'inside'"),
        (
            "program @m {\n input %x : f32[2]\n %v = view %x {start = 0, strides = ()} : f32[1]\n}",
            "f32[1] has 1 axes, got 0 strides",
        ),
    ],
)
def test_what_is_wrong_with_a_text_is_said(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_program(text)
    assert caught.value.what == message


def test_a_kernel_plan_reads_back_with_what_it_wants_of_operands() -> None:
    round_trip("""
        program @main {
          input %x : f32[3]
          output %y : f32[3]
          relu out %y, in %x plan direct {tile = (1, 8)} needs {cost = 3.0, packed = (1,), halo = (0,), gap = (1,), alignment = 128}
        }
    """)  # noqa: E501


def test_a_program_for_ranges_declares_its_dimensions() -> None:
    round_trip("""
        program @main arena 8192 {
          dim b : 1..4
          dim s : 1..512
          input %x : f32[b, s]
          output %y : f32[b, s + 1]
          %h = alloc f32[b, s] at 0
          exp out %h, in %x plan rows {block = min(8, s), tile = (s, 4)} needs {cost = 1.0}
          %left = view %y[0:b, 0:s] : f32[b, s]
          copy out %left, in %h
          %right = view %y[0:b, s:s + 1] : f32[b, 1]
          %turned = view %h {start = b*s - 1, strides = (1, s)} : f32[s, b]
          fill out %right {shape = (b, 1), value = 0.0, dtype = f32}
          dealloc %h
        }
    """)
