"""Outputs not yet written and donated inputs serve as memory of the arena."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import afterglow as ag
from afterglow.backends.interpreter import Machine
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Function, parse_function, run_function
from afterglow.instr import Program, parse_program, print_program, verify_program
from afterglow.lowering import select_instructions
from afterglow.memory import (
    alias_memory,
    donate_inputs,
    place_lifetimes,
    plan_memory,
    remove_copies,
    share_buffers,
)
from afterglow.memory.checker import check_plan
from afterglow.memory.timeline import Timeline
from afterglow.support.errors import VerifyError
from afterglow.testing.graphs import functions_of_floats
from tests.transforms.rewriting import random_inputs

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def without_comments(text: str) -> str:
    return "\n".join(line.split(" ;")[0].rstrip() for line in text.splitlines())


def aliased(text: str) -> Program:
    program = parse_program(inspect.cleandoc(text))
    alias_memory(program)
    place_lifetimes(program)
    verify_program(program)
    return program


def check_borrowing(before: str, after: str) -> None:
    program = aliased(before)
    assert without_comments(print_program(program)) == inspect.cleandoc(after)
    plan_memory(program)
    text = print_program(program)
    assert print_program(parse_program(text)) == text
    assert not check_plan(text)


def test_a_buffer_lies_in_an_output_until_the_first_part_of_it_is_written() -> None:
    check_borrowing(
        """
        program @main {
          input %x : f32[64]
          output %y : f32[128]
          %a = alloc f32[64]
          softmax out %a, in %x {axis = 0}
          %b = alloc f32[64]
          softmax out %b, in %a {axis = 0}
          %left = view %y[0:64] : f32[64]
          exp out %left, in %b
          %right = view %y[64:128] : f32[64]
          neg out %right, in %b
        }
        """,
        """
        program @main {
          input %x : f32[64]
          output %y : f32[128]
          %a = view %y[0:64] : f32[64]
          softmax out %a, in %x {axis = 0}
          %b = alloc f32[64]
          softmax out %b, in %a {axis = 0}
          dealloc %a
          %left = view %y[0:64] : f32[64]
          exp out %left, in %b
          %right = view %y[64:128] : f32[64]
          neg out %right, in %b
          dealloc %b
        }
        """,
    )


def test_an_output_is_written_over_the_operand_that_it_replaces() -> None:
    check_borrowing(
        """
        program @main {
          input %x : f32[64]
          output %y : f32[64]
          %a = alloc f32[64]
          softmax out %a, in %x {axis = 0}
          exp out %y, in %a
        }
        """,
        """
        program @main {
          input %x : f32[64]
          output %y : f32[64]
          %a = view %y : f32[64]
          softmax out %a, in %x {axis = 0}
          exp out %y, in %a
        }
        """,
    )


def test_an_output_is_not_written_over_what_its_instruction_reads_elsewhere() -> None:
    program = aliased("""
        program @main {
          input %x : f32[8, 8]
          output %y : f32[8, 8]
          %a = alloc f32[8, 8]
          softmax out %a, in %x {axis = 0}
          transpose out %y, in %a {perm = (1, 0)}
        }
    """)
    assert [buffer.name for buffer in program.arena()] == ["a"]


def test_several_buffers_share_an_output_side_by_side_and_one_after_the_other() -> None:
    program = aliased("""
        program @main {
          input %x : f32[16]
          output %y : f32[32]
          %a = alloc f32[16]
          softmax out %a, in %x {axis = 0}
          %b = alloc f32[16]
          softmax out %b, in %a {axis = 0}
          %c = alloc f32[16]
          softmax out %c, in %b {axis = 0}
          %d = alloc f32[16]
          softmax out %d, in %c {axis = 0}
          %left = view %y[0:16] : f32[16]
          exp out %left, in %d
          %right = view %y[16:32] : f32[16]
          exp out %right, in %d
        }
    """)
    assert [buffer.name for buffer in program.arena()] == ["d"]


def test_nothing_moves_that_does_not_lower_the_peak() -> None:
    program = aliased("""
        program @main {
          input %x : f32[64]
          output %y : f32[16]
          %a = alloc f32[64]
          softmax out %a, in %x {axis = 0}
          %part = view %a[0:16] : f32[16]
          %s = alloc f32[16]
          softmax out %s, in %part {axis = 0}
          %m = alloc f32[64]
          softmax out %m, in %a {axis = 0}
          %t = alloc f32[64]
          softmax out %t, in %m {axis = 0}
          %end = view %t[0:16] : f32[16]
          add out %y, in %end, in %end
        }
    """)
    assert "s" in [buffer.name for buffer in program.arena()]


@pytest.mark.parametrize(("output", "left"), [("f32[64]", 0), ("f16[128]", 1), ("f64[32]", 0)])
def test_a_lender_is_aligned_for_its_own_elements_only(output: str, left: int) -> None:
    program = aliased(f"""
        program @main {{
          input %x : f32[64]
          input %z : {output}
          output %y : {output}
          output %w : f32[1]
          %a = alloc f32[64]
          softmax out %a, in %x {{axis = 0}}
          reduce_sum out %w, in %a {{axes = (0,), keepdims = true}}
          exp out %y, in %z
        }}
    """)
    assert len(program.arena()) == left


def test_a_lent_input_serves_once_it_has_been_read() -> None:
    program = parse_program("""
        program @main {
          input %x : f32[64] donated
          output %y : f32[1]
          %a = alloc f32[64]
          softmax out %a, in %x {axis = 0}
          %b = alloc f32[64]
          softmax out %b, in %a {axis = 0}
          reduce_sum out %y, in %b {axes = (0,), keepdims = true}
        }
    """)
    assert alias_memory(program) == 1
    place_lifetimes(program)
    verify_program(program)
    assert without_comments(print_program(program)) == inspect.cleandoc("""
        program @main {
          input %x : f32[64] donated
          output %y : f32[1]
          %a = alloc f32[64]
          softmax out %a, in %x {axis = 0}
          %b = view %x : f32[64]
          softmax out %b, in %a {axis = 0}
          dealloc %a
          reduce_sum out %y, in %b {axes = (0,), keepdims = true}
          dealloc %b
        }
    """)
    plan_memory(program)
    assert [each.buffer.name for each in Timeline(program).allocations] == ["a"]


CHAIN = """
func @main(%x: f32[64]) {
  %a = exp(%x) : f32[64]
  %b = neg(%a) : f32[64]
  %y = reduce_sum(%b) {axes = (0,), keepdims = true} : f32[1]
  return %y
}
"""


@pytest.mark.parametrize(("donated", "buffers"), [(True, 0), (False, 1)])
def test_results_take_over_donated_inputs_only(donated: bool, buffers: int) -> None:
    program = select_instructions(parse_function(CHAIN))
    if donated:
        donate_inputs(program)
    share_buffers(program)
    place_lifetimes(program)
    verify_program(program)
    assert len(program.arena()) == buffers


def test_a_result_does_not_take_over_what_its_instruction_reads_shifted() -> None:
    program = select_instructions(
        parse_function("""
            func @main(%x: f32[4]) {
              %a = exp(%x) : f32[4]
              %s = slice(%a) {starts = (0,), extents = (3,), steps = (1,)} : f32[3]
              %t = slice(%a) {starts = (1,), extents = (3,), steps = (1,)} : f32[3]
              %b = add(%s, %t) : f32[3]
              %y = exp(%b) : f32[3]
              %z = log(%b) : f32[3]
              return %y, %z
            }
        """)
    )
    remove_copies(program)
    share_buffers(program)
    place_lifetimes(program)
    verify_program(program)
    assert len(program.arena()) == 2


HEAD = """
program @main {
  input %x : f32[4]
  output %y : f32[4]
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "%a = view %y : f32[4]\nexp out %a, in %x\ndealloc %a\n",
            "output %y is not written",
        ),
        (
            "%a = view %y[0:2] : f32[2]\n%b = view %x[0:2] : f32[2]\nexp out %a, in %b\n"
            "dealloc %a\nexp out %a, in %a\n",
            "%a is read before it is written",
        ),
        ("%a = view %x : f32[4]\nexp out %a, in %y\n", "%a is written, but it is input memory"),
    ],
)
def test_what_lay_in_a_loan_is_gone_at_its_end(body: str, message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify_program(parse_program(HEAD + body + "}"))
    assert caught.value.what == message
    planned = (HEAD + body + "}").replace("@main", "@main arena 0")
    assert any(message in finding.text for finding in check_plan(planned))


def doubled() -> ag.Module:
    return parse_function("""
        func @main(%x: f32[64], %z: f32[64]) {
          %a = exp(%x) : f32[64]
          %b = add(%a, %z) : f32[64]
          %s = softmax(%b) {axis = 0} : f32[64]
          %y = reduce_sum(%s) {axes = (0,), keepdims = true} : f32[1]
          %w = reduce_sum(%b) {axes = (0,), keepdims = true} : f32[1]
          return %y, %w
        }
    """).module


def test_inputs_that_cannot_be_lent_are_copied() -> None:
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    want = ag.compile(doubled())(x, x)
    model = ag.compile(doubled(), donate_inputs=True, verify=True)
    kept = x.copy()
    kept.flags.writeable = False
    np.testing.assert_allclose(model(kept, kept[::-1][::-1]), want, rtol=1e-6)
    np.testing.assert_array_equal(kept, x)
    one, other = x.copy(), x.copy()
    np.testing.assert_allclose(model(one, other), want, rtol=1e-6)
    assert not np.array_equal(one, x) or not np.array_equal(other, x)
    np.testing.assert_allclose(model(x, x), want, rtol=1e-6)


def check_lending(function: Function) -> None:
    inputs = random_inputs(function)
    want = run_function(function, inputs)
    for donated in (False, True):
        options = Options(donate_inputs=donated, verify=True)
        compiled = Stages(options).finish(function.module.clone())
        for machine in (compiled.executable, Machine(compiled.program, tile=2)):
            outputs = machine.run([array.copy() for array in inputs], {})
            for have, expected in zip(outputs, want, strict=True):
                np.testing.assert_allclose(have, expected, rtol=2e-3, atol=2e-4)


@QUICK
@given(functions_of_floats())
def test_random_programs_compute_the_same_with_lent_memory(function: Function) -> None:
    check_lending(function)


@pytest.mark.slow
@settings(QUICK, max_examples=3000)
@given(functions_of_floats(most_steps=25))
def test_larger_programs_compute_the_same_with_lent_memory(function: Function) -> None:
    check_lending(function)


def test_a_buffer_that_fits_an_output_only_at_large_extents_stays_in_the_arena() -> None:
    for rows, moves in (("8*s", True), ("8*s + 8", False), ("64", False)):
        program = aliased(f"""
            program @main {{
              dim s : 1..64
              input %x : f32[{rows}]
              output %y : f32[8*s]
              output %z : f32[{rows}]
              %a = alloc f32[{rows}]
              exp out %a, in %x
              neg out %z, in %a
              dealloc %a
              fill out %y {{shape = (8*s,), value = 0.0, dtype = f32}}
            }}
        """)
        lies_in_y = "%a = view %y" in print_program(program)
        assert lies_in_y == moves, rows


def _chain(steps: int) -> str:
    """A program whose values are each read by the next step only; the output is written last."""
    lines = ["program @main {", "  input %x : f32[64]", "  output %y : f32[64]"]
    for number in range(steps):
        read = "%x" if number == 0 else f"%v{number - 1}"
        lines += [f"  %v{number} = alloc f32[64]", f"  exp out %v{number}, in {read}"]
        lines += [f"  dealloc {read}"] if number else []
    last = f"%v{steps - 1}"
    return "\n".join([*lines, f"  exp out %y, in {last}", f"  dealloc {last}", "}"])


def _calls_of_aliasing(steps: int) -> int:
    program, calls = parse_program(_chain(steps)), 0

    def note(_frame: object, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        assert alias_memory(program) > 0
    finally:
        sys.setprofile(None)
    return calls


def test_the_work_is_proportional_to_the_number_of_steps() -> None:
    _calls_of_aliasing(10)
    assert _calls_of_aliasing(800) < 4 * 1.1 * _calls_of_aliasing(200)
