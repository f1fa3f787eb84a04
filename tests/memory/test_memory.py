"""Lifetimes, copies and the planner, on small programs."""

from __future__ import annotations

import inspect

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import parse_function
from afterglow.instr import Copy, Program, parse_program, print_program, verify_program
from afterglow.lowering import select_instructions
from afterglow.memory import drop_dead_stores, place_lifetimes, plan_memory, remove_copies


def without_comments(text: str) -> str:
    return "\n".join(line.split(" ;")[0].rstrip() for line in text.splitlines())


def selected(text: str) -> Program:
    program = select_instructions(parse_function(inspect.cleandoc(text)))
    place_lifetimes(program)
    verify_program(program)
    return program


def check_copies(before: str, after: str) -> None:
    program = selected(before)
    remove_copies(program)
    place_lifetimes(program)
    verify_program(program)
    assert without_comments(print_program(program)) == inspect.cleandoc(after)


def test_selection_writes_outputs_where_they_belong() -> None:
    program = selected("""
        func @main(%x: f32[2]) {
          %a = exp(%x) : f32[2]
          %b = exp(%a) : f32[2]
          return %b as "y", %b as "z", %x as "w"
        }
    """)
    assert without_comments(print_program(program)) == inspect.cleandoc("""
        program @main {
          input %x : f32[2]
          output %y : f32[2]
          output %z : f32[2]
          output %w : f32[2]
          %a = alloc f32[2]
          exp out %a, in %x
          exp out %y, in %a
          dealloc %a
          copy out %z, in %y
          copy out %w, in %x
        }
    """)


def test_states_are_stored_at_the_end_even_when_they_swap() -> None:
    program = selected("""
        state @a : f32[2]
        state @b : f32[2]
        func @main() {
          store @b to @a
          store @a to @b
          return
        }
    """)
    assert without_comments(print_program(program)) == inspect.cleandoc("""
        program @main {
          state @b : f32[2]
          state @a : f32[2]
          %b.old = alloc f32[2]
          copy out %b.old, in @b
          %a.old = alloc f32[2]
          copy out %a.old, in @a
          copy out @a, in %b.old
          dealloc %b.old
          copy out @b, in %a.old
          dealloc %a.old
        }
    """)


def test_a_reshape_is_a_view() -> None:
    check_copies(
        """
        func @main(%x: f32[2, 3]) {
          %a = exp(%x) : f32[2, 3]
          %r = reshape(%a) {shape = (6,)} : f32[6]
          %y = exp(%r) : f32[6]
          return %y
        }
        """,
        """
        program @main {
          input %x : f32[2, 3]
          output %y : f32[6]
          %a = alloc f32[2, 3]
          exp out %a, in %x
          %r = view %a : f32[6]
          exp out %y, in %r
          dealloc %a
        }
        """,
    )


def test_a_reshaped_output_is_written_by_its_producer() -> None:
    check_copies(
        """
        func @main(%x: f32[2, 3]) {
          %a = exp(%x) : f32[2, 3]
          %y = reshape(%a) {shape = (6,)} : f32[6]
          return %y
        }
        """,
        """
        program @main {
          input %x : f32[2, 3]
          output %y : f32[6]
          %a = view %y : f32[2, 3]
          exp out %a, in %x
        }
        """,
    )


def test_a_slice_is_read_in_place() -> None:
    check_copies(
        """
        func @main(%x: f32[4, 6]) {
          %s = slice(%x) {starts = (1, 2), extents = (2, 3), steps = (1, 1)} : f32[2, 3]
          %y = exp(%s) : f32[2, 3]
          return %y
        }
        """,
        """
        program @main {
          input %x : f32[4, 6]
          output %y : f32[2, 3]
          %s = view %x[1:3, 2:5] : f32[2, 3]
          exp out %y, in %s
        }
        """,
    )


def test_parts_of_a_concat_are_produced_in_their_windows() -> None:
    check_copies(
        """
        func @main(%x: f32[2, 3]) {
          %a = exp(%x) : f32[2, 3]
          %b = log(%a) : f32[2, 3]
          %y = concat(%a, %b) {axis = 1} : f32[2, 6]
          return %y
        }
        """,
        """
        program @main {
          input %x : f32[2, 3]
          output %y : f32[2, 6]
          %a = view %y[0:2, 0:3] : f32[2, 3]
          exp out %a, in %x
          %b = view %y[0:2, 3:6] : f32[2, 3]
          log out %b, in %a
        }
        """,
    )


def test_nested_concats_live_in_one_buffer() -> None:
    program = selected("""
        func @main(%x: f32[2, 1]) {
          %a = exp(%x) : f32[2, 1]
          %b = concat(%a, %x) {axis = 1} : f32[2, 2]
          %c = exp(%b) : f32[2, 2]
          %d = concat(%b, %c) {axis = 1} : f32[2, 4]
          %y = exp(%d) : f32[2, 4]
          return %y
        }
    """)
    remove_copies(program)
    place_lifetimes(program)
    verify_program(program)
    assert [str(s.src) for s in program.body if isinstance(s, Copy)] == ["%x"]
    assert len(program.arena()) == 1


def test_a_part_used_twice_is_copied_once() -> None:
    program = selected("""
        func @main(%x: f32[3]) {
          %a = exp(%x) : f32[3]
          %y = concat(%a, %a) {axis = 0} : f32[6]
          return %y
        }
    """)
    remove_copies(program)
    place_lifetimes(program)
    verify_program(program)
    assert sum(isinstance(step, Copy) for step in program.body) == 1


def test_a_copy_stays_when_its_source_is_overwritten() -> None:
    program = parse_program("""
        program @main {
          input %x : f32[2]
          output %y : f32[2]
          output %z : f32[2]
          %a = alloc f32[2]
          exp out %a, in %x
          copy out %y, in %a
          exp inout %a, in %a
          copy out %z, in %a
          dealloc %a
        }
    """)
    remove_copies(program)
    place_lifetimes(program)
    verify_program(program)
    assert sum(isinstance(step, Copy) for step in program.body) == 1


def test_the_arena_of_a_chain_is_its_two_largest_neighbours() -> None:
    program = selected("""
        func @main(%x: f32[64]) {
          %a = exp(%x) : f32[64]
          %b = exp(%a) : f32[64]
          %c = exp(%b) : f32[64]
          %y = exp(%c) : f32[64]
          return %y
        }
    """)
    plan = plan_memory(program)
    verify_program(program)
    assert (plan.arena_bytes, plan.lower_bound_bytes, plan.total_bytes) == (512, 512, 768)


def test_padding_is_written_around_the_producer() -> None:
    check_copies(
        """
        func @main(%x: f32[2, 2]) {
          %a = exp(%x) : f32[2, 2]
          %y = pad(%a) {before = (1, 0), after = (0, 1), mode = constant} : f32[3, 3]
          return %y
        }
        """,
        """
        program @main {
          input %x : f32[2, 2]
          output %y : f32[3, 3]
          %a = view %y[1:3, 0:2] : f32[2, 2]
          exp out %a, in %x
          %y.view = view %y[0:1, 0:3] : f32[1, 3]
          fill out %y.view {shape = (1, 3), value = 0.0, dtype = f32}
          %y.view_1 = view %y[1:3, 2:3] : f32[2, 1]
          fill out %y.view_1 {shape = (2, 1), value = 0.0, dtype = f32}
        }
        """,
    )


def test_instructions_that_nobody_needs_are_dropped() -> None:
    program = parse_program("""
        program @main {
          input %x : f32[2]
          output %y : f32[2]
          %a = alloc f32[2]
          %b = alloc f32[2]
          exp out %a, in %x
          exp out %b, in %a
          exp out %y, in %x
          dealloc %a
          dealloc %b
        }
    """)
    assert drop_dead_stores(program) == 2
    place_lifetimes(program)
    verify_program(program)
    assert not program.arena()
