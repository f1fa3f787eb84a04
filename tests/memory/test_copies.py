"""Transposes around ops that take any order of axes become views."""

from __future__ import annotations

import inspect

import numpy as np

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.backends.interpreter import Machine
from afterglow.graph import Function, parse_function, parse_module
from afterglow.instr import Copy, OpInstr, Program, print_program, verify_program
from afterglow.lowering import select_instructions
from afterglow.memory import place_lifetimes, plan_memory, remove_copies
from afterglow.memory.checker import check_plan

HEADS = """
    func @main(%x: f32[1, 5, 24]) {
      %r = reshape(%x) {shape = (1, 5, 6, 4)} : f32[1, 5, 6, 4]
      %p = slice(%r) {starts = (0, 0, 0, 0), extents = (1, 5, 2, 4), steps = (1, 1, 1, 1)} : f32[1, 5, 2, 4]
      %q = transpose(%p) {perm = (0, 2, 1, 3)} : f32[1, 2, 5, 4]
      %a = attention(%q, %q, %q) {scale = 0.5, causal = false} : f32[1, 2, 5, 4]
      %t = transpose(%a) {perm = (0, 2, 1, 3)} : f32[1, 5, 2, 4]
      %y = reshape(%t) {shape = (1, 5, 8)} : f32[1, 5, 8]
      return %y
    }
"""  # noqa: E501


def function_of(text: str) -> Function:
    return parse_function(inspect.cleandoc(text))


def without_copies(text: str) -> Program:
    """The planned program, which must compute what the function with all its copies computes."""
    plain, program = (select_instructions(function_of(text)) for _ in range(2))
    remove_copies(program)
    for made in (plain, program):
        place_lifetimes(made)
        plan_memory(made)
        verify_program(made)
        assert not check_plan(print_program(made))
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(x.type.shape).astype(np.float32) for x in plain.inputs]
    want, got = (Machine(made).run(inputs, {}) for made in (plain, program))
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    return program


def mnemonics(program: Program) -> list[str]:
    return [step.op.mnemonic for step in program.body if isinstance(step, OpInstr)]


def test_attention_reads_and_writes_heads_where_they_lie() -> None:
    program = without_copies(HEADS)
    assert mnemonics(program) == ["attention"]
    (step,) = (step for step in program.body if isinstance(step, OpInstr))
    assert step.outs[0].strides[1:] == (4, 8, 1)
    assert step.ins[0] is not None
    assert step.ins[0].strides[1:] == (4, 24, 1)


def test_heads_are_written_as_columns_of_a_wider_result() -> None:
    program = without_copies("""
        func @main(%q: f32[1, 2, 5, 4], %x: f32[1, 5, 3]) {
          %a = attention(%q, %q, %q) {scale = 0.5, causal = false} : f32[1, 2, 5, 4]
          %t = transpose(%a) {perm = (0, 2, 1, 3)} : f32[1, 5, 2, 4]
          %r = reshape(%t) {shape = (1, 5, 8)} : f32[1, 5, 8]
          %y = concat(%x, %r) {axis = 2} : f32[1, 5, 11]
          return %y
        }
    """)
    (step,) = (step for step in program.body if isinstance(step, OpInstr))
    assert (step.op.mnemonic, step.outs[0].strides[1:]) == ("attention", (4, 11, 1))


def test_a_transpose_stays_before_an_op_that_wants_rows_in_order() -> None:
    program = without_copies("""
        func @main(%x: f32[1, 5, 2, 4], %w: f32[4, 3]) {
          %q = transpose(%x) {perm = (0, 2, 1, 3)} : f32[1, 2, 5, 4]
          %a = attention(%q, %q, %q) {scale = 0.5, causal = false} : f32[1, 2, 5, 4]
          %y = matmul(%q, %w) {transpose_lhs = false, transpose_rhs = false} : f32[1, 2, 5, 3]
          return %a, %y
        }
    """)
    assert "transpose" in mnemonics(program)


def test_a_transpose_stays_after_an_op_that_wants_rows_in_order() -> None:
    program = without_copies("""
        func @main(%x: f32[2, 5, 4], %w: f32[4, 3]) {
          %m = matmul(%x, %w) {transpose_lhs = false, transpose_rhs = false} : f32[2, 5, 3]
          %y = transpose(%m) {perm = (1, 0, 2)} : f32[5, 2, 3]
          return %y
        }
    """)
    assert mnemonics(program) == ["matmul", "transpose"]


def test_a_transpose_that_moves_the_last_axis_stays() -> None:
    program = without_copies("""
        func @main(%x: f32[1, 2, 4, 5]) {
          %q = transpose(%x) {perm = (0, 1, 3, 2)} : f32[1, 2, 5, 4]
          %a = attention(%q, %q, %q) {scale = 0.5, causal = false} : f32[1, 2, 5, 4]
          return %a
        }
    """)
    assert mnemonics(program) == ["transpose", "attention"]


def test_copies_take_any_order() -> None:
    program = without_copies("""
        func @main(%x: f32[3, 2, 4], %z: f32[2, 1, 4]) {
          %t = transpose(%x) {perm = (1, 0, 2)} : f32[2, 3, 4]
          %y = concat(%t, %z) {axis = 1} : f32[2, 4, 4]
          return %y
        }
    """)
    assert mnemonics(program) == []


def test_a_transpose_takes_any_order_of_rows_too() -> None:
    program = without_copies("""
        func @main(%x: f32[5, 2, 12]) {
          %r = reshape(%x) {shape = (5, 2, 3, 4)} : f32[5, 2, 3, 4]
          %t = transpose(%r) {perm = (2, 0, 1, 3)} : f32[3, 5, 2, 4]
          %p = slice(%t) {starts = (1, 0, 0, 0), extents = (2, 5, 2, 4), steps = (1, 1, 1, 1)} : f32[2, 5, 2, 4]
          %q = transpose(%p) {perm = (2, 0, 1, 3)} : f32[2, 2, 5, 4]
          %a = attention(%q, %q, %q) {scale = 0.5, causal = false} : f32[2, 2, 5, 4]
          return %a
        }
    """)  # noqa: E501
    assert mnemonics(program) == ["attention"]


def test_parts_of_a_ranged_result_are_written_where_they_lie() -> None:
    text = """
        dim b : 1..5
        dim s : 1..70
        func @main(%x: f32[2, s, 5], %y: f32[2, b, 5], %z: f32[1, s, s, 3]) {
          %p = relu(%x) : f32[2, s, 5]
          %q = relu(%y) : f32[2, b, 5]
          %all = concat(%p, %q) {axis = 1} : f32[2, b + s, 5]
          %r = relu(%z) : f32[1, s, s, 3]
          %padded = pad(%r) {before = (0, 1, 1, 0), after = (0, 1, 1, 0), mode = constant}
            : f32[1, s + 2, s + 2, 3]
          return %all, %padded
        }
    """
    module = parse_module(inspect.cleandoc(text))
    program = select_instructions(module.main)
    assert remove_copies(program) == 3
    assert not any(isinstance(step, Copy) for step in program.body)
