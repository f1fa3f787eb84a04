"""Each rule of the instruction IR has a program that breaks it."""

from __future__ import annotations

import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.instr import Program, Region, parse_program, verify_program
from afterglow.support.errors import VerifyError
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import Dim, ranged

HEAD = """
program @main {
  input %x : f32[4]
  output %y : f32[4]
  const @w : f32[4]
"""
PLANNED = HEAD.replace("@main", "@main arena 32")


def verify(body: str, head: str = HEAD) -> None:
    verify_program(parse_program(head + body + "}"))


def broken(body: str, head: str = HEAD) -> str:
    with pytest.raises(VerifyError) as caught:
        verify(body, head)
    return caught.value.what


def test_good_programs_pass() -> None:
    verify("exp out %y, in %x\n")
    verify("%a = alloc f32[4]\nexp out %a, in %x\nexp inout %a, in %a\ncopy out %y, in %a\n")


def test_a_buffer_lives_from_alloc_to_dealloc() -> None:
    start = "%a = alloc f32[4]\nexp out %a, in %x\ndealloc %a\n"
    assert broken(start + "copy out %y, in %a\n") == "%a is used after its end"
    assert broken(start + "dealloc %a\n") == "%a is not live here"


def test_only_written_memory_is_read() -> None:
    assert broken("%a = alloc f32[4]\ncopy out %y, in %a\n") == "%a is read before it is written"
    part = "%a = alloc f32[4]\n%v = view %a[0:3] : f32[3]\n%u = view %x[0:3] : f32[3]\n"
    assert (
        broken(part + "copy out %v, in %u\ncopy out %y, in %a\n")
        == "%a is read before it is written"
    )


def test_constants_and_inputs_are_not_written() -> None:
    assert broken("exp out @w, in %x\n") == "@w is written, but it is const memory"
    assert broken("exp out %x, in @w\n") == "%x is written, but it is input memory"


def test_views_lie_inside_their_buffers() -> None:
    assert (
        broken("%v = view %x {start = 2, strides = (1,)} : f32[3]\n")
        == "%v takes bytes 8 to 20 of 16"
    )
    assert broken("%v = view %x : f64[2]\n") == "a view of f32[4] cannot hold f64"


def test_types_are_checked() -> None:
    assert broken("%v = view %x[0:2] : f32[2]\ncopy out %y, in %v\n") == (
        "a copy's sides have one type, got f32[4] and f32[2]"
    )
    assert broken("is_nan out %y, in %x\n") == "is_nan gives (bool[4],)"


def test_no_operand_overlaps_what_is_written() -> None:
    body = "%a = alloc f32[4]\nexp out %a, in %x\n"
    shifted = "%v = view %a[0:3] : f32[3]\n%u = view %a[1:4] : f32[3]\nexp out %v, in %u\n"
    assert broken(body + shifted) == "%v is written while %u, which overlaps it, is used"
    turned = "transpose inout %a, in %a {perm = (0,)}\n"
    assert broken(body + turned) == "%a is written while %a, which overlaps it, is used"


def test_windows_side_by_side_do_not_overlap() -> None:
    verify(
        "%v = view %y[0:2] : f32[2]\n%u = view %y[2:4] : f32[2]\n%i = view %x[0:2] : f32[2]\n"
        "exp out %v, in %i\nexp out %u, in %v\n"
    )


def test_outputs_are_written() -> None:
    assert broken("") == "output %y is not written"


def test_live_buffers_do_not_overlap_in_the_arena() -> None:
    two = "%a = alloc f32[4] at 0\n%b = alloc f32[4] at 8\n"
    assert broken(two, PLANNED) == "%b overlaps %a, which is live"
    assert broken("%a = alloc f32[4] at 24\n", PLANNED) == (
        "%a at 24 does not lie in an arena of 32 bytes"
    )


def test_predicates_are_boolean_scalars_that_stay() -> None:
    head = HEAD + "  input %p : bool[]\n  output %q : bool[]\n"
    assert broken("exp out %y, in %x if %x\n") == "a predicate must be bool[], got f32[4]"
    start = "%a = alloc bool[]\nnot out %a, in %p\n"
    assert broken(f"{start}not inout %a, in %a if %a\n", head) == "predicate %a is overwritten"
    stack = "stack {\n%h = local f32[4]\nexp out %h, in %x\nneg out %y, in %h if %p\n}\n"
    wanted = "the instructions of the stack have different predicates"
    assert broken(stack, head) == wanted


def test_a_program_for_ranges_is_checked_at_several_extents() -> None:
    text = """
        program @main arena 64 {
          dim s : 2..8
          input %x : f32[s]
          output %y : f32[s]
          %left = view %y[0:5] : f32[5]
          exp out %y, in %x
        }
    """
    with pytest.raises(VerifyError) as caught:
        verify_program(parse_program(text))
    assert caught.value.what == "%left takes bytes 0 to 20 of 8"
    assert caught.value.where == "in program @main with s = 2"


def test_a_dimension_has_the_same_bounds_everywhere() -> None:
    program = Program("main")
    for name, high in (("x", 4), ("y", 8)):
        program.declare(Region.INPUT, name, TensorType(f32, (ranged(Dim("s", 1, high)),)))
    with pytest.raises(VerifyError, match=r"dimension 's' is 1\.\.4 and 1\.\.8"):
        verify_program(program)
