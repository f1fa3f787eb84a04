"""State is computed where it lies, if nobody needs its old value any more."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.backends.interpreter import Machine
from afterglow.graph import parse_function, parse_module
from afterglow.instr import Copy, Program, Region, Stack, print_program, verify_program
from afterglow.lowering import select_instructions
from afterglow.memory import form_stacks, place_lifetimes, plan_memory, remove_copies
from afterglow.memory.checker import check_plan
from afterglow.memory.updates import update_in_place
from afterglow.runtime.buffers import HostBuffer

CARRIED = [(0, 0), (1, 1)]
"""The first two inputs become the first two outputs."""


def program_of(text: str, *, in_place: bool) -> Program:
    program = select_instructions(parse_function(inspect.cleandoc(text)), CARRIED)
    if in_place:
        remove_copies(program)
        form_stacks(program)
        update_in_place(program)
    place_lifetimes(program)
    plan_memory(program)
    verify_program(program)
    assert not check_plan(print_program(program))
    return program


def copies_left(text: str) -> int:
    """Copies in the program, which must do the same as the one that copies all state."""
    plain, program = (program_of(text, in_place=in_place) for in_place in (False, True))
    random = np.random.default_rng(0)
    # Whole numbers, whose products are exact in whatever order they are added up.
    arrays = [random.integers(-9, 10, b.type.shape) for b in (*plain.states, *plain.inputs)]
    results = []
    for made in (plain, program):
        values = [array.astype(np.float32) for array in arrays]
        pairs = zip(made.states, values, strict=False)
        states = {b.name: HostBuffer(b.type, value) for b, value in pairs}
        outputs = Machine(made, tile=2).run(values[len(states) :], states)
        results.append([*outputs, *(state.array for state in states.values())])
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    return sum(isinstance(step, Copy) for step in program.body)


@pytest.mark.parametrize(
    ("copies", "body"),
    [
        (0, "%p = add(%a, %x) : f32[4]\n%q = tanh(%b) : f32[4]\nreturn %p, %q"),
        (0, "return %a, %b"),
        (0, "%p = mul(%a, %a) : f32[4]\n%q = relu(%p) : f32[4]\nreturn %q, %b, %p as 'o'"),
        (2, "%p = add(%a, %b) : f32[4]\nreturn %b, %p, %p as 'o'"),
        (1, "%p = add(%a, %x) : f32[4]\n%q = add(%p, %a) : f32[4]\nreturn %p, %b, %q as 'o'"),
        # a weight and its momentum in one kernel
        (0, "%q = add(%b, %x) : f32[4]\n%p = sub(%a, %q) : f32[4]\nreturn %p, %q"),
        # what needs the old value comes first
        (0, "%p = add(%a, %x) : f32[4]\n%q = mul(%a, %a) : f32[4]\nreturn %p, %b, %q as 'o'"),
        (3, "return %b, %a"),
        (2, "return %x, %x as 'again'"),
    ],
)
def test_new_values_of_state(copies: int, body: str) -> None:
    lines = body.replace("'", '"').splitlines()
    text = "\n".join(["func @f(%a: f32[4], %b: f32[4], %x: f32[4]) {", *lines, "}"])
    assert copies_left(text) == copies


def test_a_product_does_not_overwrite_what_it_reads() -> None:
    text = """
        func @f(%a: f32[3, 3], %b: f32[3, 3], %x: f32[3, 3]) {
          %p = matmul(%a, %x) {transpose_lhs = false, transpose_rhs = false} : f32[3, 3]
          %q = add(%p, %a) : f32[3, 3]
          return %q, %b
        }
    """
    assert copies_left(text) == 1


CACHE = """
    dim past : 0..7
    state @cache : f32[2, 8, 3] filled 1 from past to past + 1
    func @main(%x: f32[2, 1, 3]) {
      %all = overwrite(@cache, %x) {starts = (0, past, 0)} : f32[2, 8, 3]
      BODY
      store %all to @cache
      return %o
    }
"""
FILLED = "extents = (2, past + 1, 3), steps = (1, 1, 1)} : f32[2, past + 1, 3]"
LAST = "%s = slice(SOURCE) {starts = (0, past, 0), extents = (2, 1, 3), steps = (1, 1, 1)}"


@pytest.mark.parametrize(
    ("sizes", "body"),
    [
        # what is appended is the only copy
        (
            [6],
            f"%f = slice(%all) {{starts = (0, 0, 0), {FILLED}\n%o = relu(%f) : f32[2, past + 1, 3]",
        ),
        # what is overwritten is read before, from the state itself, or later: then it is copied
        (
            [48, 6, 48],
            f"{LAST.replace('SOURCE', '@cache')} : f32[2, 1, 3]\n%o = relu(%s) : f32[2, 1, 3]",
        ),
    ],
)
def test_what_is_appended_is_written_into_the_state(sizes: list[int], body: str) -> None:
    module = parse_module(inspect.cleandoc(CACHE.replace("BODY", body)))
    program = select_instructions(module.main)
    remove_copies(program)
    update_in_place(program)
    copied = [step.dest.type for step in program.body if isinstance(step, Copy)]
    assert [type.nbytes // 4 for type in copied] == sizes


def test_those_who_read_the_old_value_join_the_one_who_writes_the_new() -> None:
    text = """
        func @f(%a: f32[4], %b: f32[4], %x: f32[4]) {
          %p = mul(%a, %x) : f32[4]
          %q = add(%p, %x) : f32[4]
          return %q, %b
        }
    """
    program = program_of(text, in_place=True)
    (stack,) = (step for step in program.body if isinstance(step, Stack))
    assert [step.outs[0].region for step in stack.body] == [Region.LOCAL, Region.STATE]
    assert copies_left(text) == 0
