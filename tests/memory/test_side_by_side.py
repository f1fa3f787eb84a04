"""Independent instructions become neighbours, and what they touch is kept apart."""

from __future__ import annotations

import inspect

import numpy as np
from hypothesis import HealthCheck, given, settings

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.backends.interpreter import Machine
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Function
from afterglow.instr import (
    ON_HOST,
    KernelPlan,
    OpInstr,
    Program,
    parse_program,
    print_program,
    verify_program,
)
from afterglow.memory import place_lifetimes, plan_memory, put_side_by_side
from afterglow.memory.checker import check_plan
from afterglow.memory.lifetimes import working_steps
from afterglow.memory.side_by_side import MOST_BESIDE
from afterglow.testing.graphs import functions_of_floats
from tests.transforms.rewriting import random_inputs

QUICK = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def without_comments(text: str) -> str:
    return "\n".join(line.split(" ;")[0].rstrip() for line in text.splitlines())


def check_grouping(before: str, after: str) -> None:
    program = parse_program(inspect.cleandoc(before))
    put_side_by_side(program)
    verify_program(program)
    assert without_comments(print_program(program)) == inspect.cleandoc(after)
    plan_memory(program)
    assert not check_plan(print_program(program))


def check_nothing_moves(text: str) -> None:
    program = parse_program(inspect.cleandoc(text))
    place_lifetimes(program)
    before = print_program(program)
    assert put_side_by_side(program) == 0
    assert print_program(program) == before


def test_the_first_steps_of_two_branches_run_side_by_side_and_then_the_second_ones() -> None:
    check_grouping(
        """
        program @main {
          input %x : f32[4]
          output %y : f32[8]
          %left = view %y[0:4] : f32[4]
          %right = view %y[4:8] : f32[4]
          %a = alloc f32[4]
          exp out %a, in %x
          relu out %left, in %a
          dealloc %a
          %b = alloc f32[4]
          neg out %b, in %x
          sqrt out %right, in %b
          dealloc %b
          %w = alloc f32[8]
          exp out %w, in %y
          %v = alloc f32[8]
          exp out %v, in %w
          dealloc %v
          dealloc %w
        }
        """,
        """
        program @main {
          input %x : f32[4]
          output %y : f32[8]
          %a = alloc f32[4]
          %b = alloc f32[4]
          exp out %a, in %x
          neg out %b, in %x
          %left = view %y[0:4] : f32[4]
          %right = view %y[4:8] : f32[4]
          relu out %left, in %a
          sqrt out %right, in %b
          dealloc %a
          dealloc %b
          %w = alloc f32[8]
          exp out %w, in %y
          %v = alloc f32[8]
          exp out %v, in %w
          dealloc %w
          dealloc %v
        }
        """,
    )


TWO_LARGE = """
    program @main {
      input %x : f32[64]
      output %y : f32[1]
      output %z : f32[1]
      %a = alloc f32[64]
      exp out %a, in %x
      reduce_sum out %y, in %a {axes = (0,), keepdims = true}
      dealloc %a
      %b = alloc f32[64]
      neg out %b, in %x
      reduce_sum out %z, in %b {axes = (0,), keepdims = true}
      dealloc %b
    }
"""


def test_a_step_that_would_raise_the_peak_stays_where_it_is() -> None:
    check_nothing_moves(TWO_LARGE)


def test_a_step_does_not_move_before_one_that_reads_what_it_overwrites() -> None:
    check_nothing_moves(
        """
        program @main {
          input %x : f32[4]
          output %y : f32[4]
          output %z : f32[4]
          state @s : f32[4]
          exp out %y, in %x
          exp inout %y, in %y
          add out %z, in @s, in %y
          copy out @s, in %x
        }
        """
    )


def test_parts_of_one_buffer_are_independent_and_the_whole_is_not() -> None:
    program = parse_program(
        inspect.cleandoc(
            """
            program @main {
              input %x : f32[4]
              output %y : f32[8]
              output %z : f32[8]
              %left = view %y[0:4] : f32[4]
              exp out %left, in %x
              exp inout %left, in %left
              %right = view %y[4:8] : f32[4]
              neg out %right, in %x
              exp out %z, in %y
            }
            """
        )
    )
    put_side_by_side(program)
    names = [s.op.mnemonic for s in working_steps(program) if isinstance(s, OpInstr)]
    assert names == ["exp", "neg", "exp", "exp"]


def test_nothing_moves_past_what_the_host_runs() -> None:
    program = parse_program(
        "program @main {\ninput %x : f32[4]\n"
        "output %y : f32[4]\noutput %z : f32[4]\noutput %w : f32[4]\n"
        "exp out %y, in %x\nrelu out %z, in %y\nneg out %w, in %x\n}\n"
    )
    host = next(s for s in program.body if isinstance(s, OpInstr) and s.op.mnemonic == "relu")
    host.plan = KernelPlan(ON_HOST)
    assert put_side_by_side(program) == 0
    host.plan = None
    assert put_side_by_side(program) == 2  # two change places


def test_so_many_run_side_by_side_at_most() -> None:
    count = MOST_BESIDE + 3
    outputs = "\n".join(f"output %y{n} : f32[1]" for n in range(count))
    steps = "\n".join(f"exp out %y{n}, in %x" for n in range(count))
    program = parse_program(f"program @main {{\ninput %x : f32[1]\n{outputs}\n{steps}\n}}\n")
    before = working_steps(program)
    assert put_side_by_side(program) == 0  # they are neighbours as they are
    assert working_steps(program) == before


def planned(function: Function, *, side_by_side: bool) -> Program:
    """The plan of the interpreter, as it is or with instructions side by side."""
    program = Stages(Options(backend="interpreter")).finish(function.module.clone()).program
    if side_by_side:
        put_side_by_side(program)
        plan_memory(program)
    return program


@QUICK
@given(functions_of_floats(most_steps=20))
def test_random_programs_compute_the_same_in_no_more_memory_at_once(function: Function) -> None:
    first = planned(function, side_by_side=False)
    program = planned(function, side_by_side=True)
    verify_program(program)
    assert not check_plan(print_program(program))
    assert program.planned.lower_bound_bytes <= first.planned.lower_bound_bytes
    assert print_program(parse_program(print_program(program))) == print_program(program)
    assert len(working_steps(program)) == len(working_steps(first))
    runs = (Machine(each).run(random_inputs(function), {}) for each in (first, program))
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)
