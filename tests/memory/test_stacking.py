"""Stacks: what joins, what does not, and that tiles compute the same."""

# ruff: noqa: E501  lines of programs are long

from __future__ import annotations

import inspect

import numpy as np
import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.backends.interpreter import Machine
from afterglow.graph import parse_function, run_function
from afterglow.instr import Program, parse_program, print_program, verify_program
from afterglow.instr.tiling import tile_axes
from afterglow.lowering import select_instructions
from afterglow.memory import (
    form_stacks,
    place_lifetimes,
    plan_memory,
    remove_copies,
    share_buffers,
)
from afterglow.support.errors import VerifyError
from tests.memory.test_memory import without_comments
from tests.transforms.rewriting import random_inputs


def stacked(text: str, *, share: bool = False) -> Program:
    program = select_instructions(parse_function(inspect.cleandoc(text)))
    remove_copies(program)
    form_stacks(program)
    if share:
        share_buffers(program)
    place_lifetimes(program)
    verify_program(program)
    return program


def check(before: str, after: str, *, share: bool = False) -> None:
    program = stacked(before, share=share)
    assert without_comments(print_program(program)) == inspect.cleandoc(after)
    plan_memory(program)
    function = parse_function(inspect.cleandoc(before))
    inputs = random_inputs(function)
    want = run_function(function, inputs)
    for tile in (None, 1, 2, 3):
        got = Machine(program, tile=tile).run(inputs, {})
        for have, expected in zip(got, want, strict=True):
            np.testing.assert_allclose(have, expected, rtol=1e-5, atol=1e-6)


def test_a_chain_of_elementwise_instructions_is_one_kernel() -> None:
    check(
        """
        func @main(%x: f32[4, 5], %b: f32[5]) {
          %s = add(%x, %b) : f32[4, 5]
          %t = tanh(%s) : f32[4, 5]
          %y = mul(%t, %s) : f32[4, 5]
          return %y
        }
        """,
        """
        program @main {
          input %x : f32[4, 5]
          input %b : f32[5]
          output %y : f32[4, 5]
          stack {
            %s = local f32[4, 5]
            %t = local f32[4, 5]
            add out %s, in %x, in %b
            tanh out %t, in %s
            mul out %y, in %t, in %s
          }
        }
        """,
    )


def test_the_epilogue_of_a_product_joins_it() -> None:
    check(
        """
        func @main(%x: f32[4, 3], %w: f32[3, 5], %r: f32[4, 5]) {
          %p = matmul(%x, %w) {transpose_lhs = false, transpose_rhs = false} : f32[4, 5]
          %s = add(%p, %r) : f32[4, 5]
          %y = relu(%s) : f32[4, 5]
          return %y
        }
        """,
        """
        program @main {
          input %x : f32[4, 3]
          input %w : f32[3, 5]
          input %r : f32[4, 5]
          output %y : f32[4, 5]
          stack {
            %p = local f32[4, 5]
            %s = local f32[4, 5]
            matmul out %p, in %x, in %w {transpose_lhs = false, transpose_rhs = false}
            add out %s, in %p, in %r
            relu out %y, in %s
          }
        }
        """,
    )


def test_an_update_joins_the_gradient_of_a_weight() -> None:
    geometry = "strides = (1, 1), pads = (1, 1, 1, 1), dilations = (1, 1), groups = 1"
    check(
        f"""
        func @main(%x: f32[1, 3, 3, 2], %g: f32[1, 3, 3, 4], %w: f32[4, 3, 3, 2]) {{
          %d = conv_weight_gradient(%x, %g) {{{geometry}, kernel = (3, 3)}} : f32[4, 3, 3, 2]
          %y = sub(%w, %d) : f32[4, 3, 3, 2]
          return %y
        }}
        """,
        f"""
        program @main {{
          input %x : f32[1, 3, 3, 2]
          input %g : f32[1, 3, 3, 4]
          input %w : f32[4, 3, 3, 2]
          output %y : f32[4, 3, 3, 2]
          stack {{
            %d = local f32[4, 3, 3, 2]
            conv_weight_gradient out %d, in %x, in %g {{{geometry}, kernel = (3, 3)}}
            sub out %y, in %w, in %d
          }}
        }}
        """,
    )


def test_what_a_softmax_reads_is_computed_as_it_is_read() -> None:
    check(
        """
        func @main(%x: f32[3, 4], %m: f32[4]) {
          %s = add(%x, %m) : f32[3, 4]
          %p = softmax(%s) {axis = -1} : f32[3, 4]
          %y = mul(%p, %x) : f32[3, 4]
          return %y
        }
        """,
        """
        program @main {
          input %x : f32[3, 4]
          input %m : f32[4]
          output %y : f32[3, 4]
          stack {
            %s = local f32[3, 4]
            %p = local f32[3, 4]
            add out %s, in %x, in %m
            softmax out %p, in %s {axis = -1}
            mul out %y, in %p, in %x
          }
        }
        """,
    )


def test_a_product_does_not_compute_its_operand_again_and_again() -> None:
    program = stacked("""
        func @main(%x: f32[4, 3], %w: f32[3, 5]) {
          %t = tanh(%x) : f32[4, 3]
          %y = matmul(%t, %w) {transpose_lhs = false, transpose_rhs = false} : f32[4, 5]
          return %y
        }
    """)
    assert "stack" not in print_program(program)


def test_two_anchors_do_not_share_a_stack() -> None:
    program = stacked("""
        func @main(%x: f32[3, 3]) {
          %a = softmax(%x) {axis = -1} : f32[3, 3]
          %b = exp(%a) : f32[3, 3]
          %y = softmax(%b) {axis = 0} : f32[3, 3]
          return %y
        }
    """)
    assert print_program(program).count("softmax out") == 2
    assert print_program(program).count("stack {") == 1


def test_a_reduced_value_is_not_repeated_inside_its_stack() -> None:
    check(
        """
        func @main(%x: f32[3, 4]) {
          %e = exp(%x) : f32[3, 4]
          %s = reduce_sum(%e) {axes = (1,), keepdims = true} : f32[3, 1]
          %y = div(%e, %s) : f32[3, 4]
          return %y
        }
        """,
        """
        program @main {
          input %x : f32[3, 4]
          output %y : f32[3, 4]
          %e = alloc f32[3, 4]
          %s = alloc f32[3, 1]
          stack {
            exp out %e, in %x
            reduce_sum out %s, in %e {axes = (1,), keepdims = true}
          }
          div out %y, in %e, in %s
          dealloc %e
          dealloc %s
        }
        """,
    )


def test_a_stack_may_have_several_results() -> None:
    check(
        """
        func @main(%x: f32[6]) {
          %a = exp(%x) : f32[6]
          %b = neg(%a) : f32[6]
          return %a, %b
        }
        """,
        """
        program @main {
          input %x : f32[6]
          output %a : f32[6]
          output %b : f32[6]
          stack {
            exp out %a, in %x
            neg out %b, in %a
          }
        }
        """,
    )


def test_nothing_joins_across_a_reader_outside() -> None:
    """The transpose reads %a before the last add could run, so %a cannot wait for it."""
    program = stacked("""
        func @main(%x: f32[2, 2]) {
          %a = exp(%x) : f32[2, 2]
          %t = transpose(%a) {perm = (1, 0)} : f32[2, 2]
          %y = add(%a, %t) : f32[2, 2]
          return %y
        }
    """)
    assert "local" not in print_program(program)


def test_a_residual_add_accumulates_in_place() -> None:
    check(
        """
        func @main(%x: f32[4, 3], %w: f32[3, 3]) {
          %a = exp(%x) : f32[4, 3]
          %h = matmul(%a, %w) {transpose_lhs = false, transpose_rhs = false} : f32[4, 3]
          %p = matmul(%h, %w) {transpose_lhs = false, transpose_rhs = false} : f32[4, 3]
          %s = add(%p, %a) : f32[4, 3]
          %y = transpose(%s) {perm = (1, 0)} : f32[3, 4]
          return %y
        }
        """,
        """
        program @main {
          input %x : f32[4, 3]
          input %w : f32[3, 3]
          output %y : f32[3, 4]
          %a = alloc f32[4, 3]
          exp out %a, in %x
          %h = alloc f32[4, 3]
          matmul out %h, in %a, in %w {transpose_lhs = false, transpose_rhs = false}
          %s = view %a : f32[4, 3]
          stack {
            %p = local f32[4, 3]
            matmul out %p, in %h, in %w {transpose_lhs = false, transpose_rhs = false}
            add out %s, in %p, in %a
          }
          dealloc %h
          transpose out %y, in %s {perm = (1, 0)}
          dealloc %a
        }
        """,
        share=True,
    )


def test_what_a_product_reads_is_not_overwritten_by_its_epilogue() -> None:
    program = stacked(
        """
        func @main(%x: f32[3, 3], %w: f32[3, 3]) {
          %a = exp(%x) : f32[3, 3]
          %p = matmul(%a, %w) {transpose_lhs = false, transpose_rhs = false} : f32[3, 3]
          %s = add(%p, %a) : f32[3, 3]
          %y = transpose(%s) {perm = (1, 0)} : f32[3, 3]
          return %y
        }
        """,
        share=True,
    )
    assert len(program.arena()) == 2


def test_elementwise_results_take_over_what_dies() -> None:
    check(
        """
        func @main(%x: f32[4], %w: f32[4]) {
          %a = softmax(%x) {axis = 0} : f32[4]
          %b = softmax(%a) {axis = 0} : f32[4]
          %c = softmax(%b) {axis = 0} : f32[4]
          %y = softmax(%c) {axis = 0} : f32[4]
          return %y
        }
        """,
        """
        program @main {
          input %x : f32[4]
          input %w : f32[4]
          output %y : f32[4]
          %a = alloc f32[4]
          softmax out %a, in %x {axis = 0}
          %b = view %a : f32[4]
          softmax out %b, in %a {axis = 0}
          %c = view %a : f32[4]
          softmax out %c, in %b {axis = 0}
          softmax out %y, in %c {axis = 0}
          dealloc %a
        }
        """,
        share=True,
    )


def test_a_narrower_result_fits_too() -> None:
    program = stacked(
        """
        func @main(%x: f32[8, 8]) {
          %a = softmax(%x) {axis = 0} : f32[8, 8]
          %b = cast(%a) {dtype = f16, saturate = true, round_mode = up} : f16[8, 8]
          %c = transpose(%b) {perm = (1, 0)} : f16[8, 8]
          return %c
        }
        """,
        share=True,
    )
    plan_memory(program)
    verify_program(program)
    assert len(program.arena()) == 1


def test_an_illegal_stack_is_refused_and_gives_wrong_numbers() -> None:
    text = """
        program @main arena 0 {
          input %x : f32[4]
          output %y : f32[4]
          stack {
            %t = local f32[4]
            exp out %t, in %x
            softmax out %y, in %t {axis = 0}
          }
        }
    """
    program = parse_program(text)
    with pytest.raises(VerifyError, match="cannot run tile by tile together"):
        verify_program(program)
    assert tile_axes(program.body[0]) == []


def test_a_state_that_is_overwritten_in_between_keeps_its_reader_in_front() -> None:
    program = parse_program("""
        program @main {
          input %x : f32[4]
          output %y : f32[4]
          state @s : f32[4]
          %old = alloc f32[4]
          neg out %old, in @s
          exp out @s, in %x
          add out %y, in %old, in @s
        }
    """)
    form_stacks(program)
    place_lifetimes(program)
    verify_program(program)
    text = print_program(program)
    assert text.index("neg out %old") < text.index("exp out @s")


def test_a_compact_form_is_unpacked_as_it_is_read() -> None:
    check(
        """
        const @scale : f32[] = [0.5]
        func @main(%x: i8[1, 3, 3, 1], %w: f32[1, 2, 2, 1]) {
          %f = dequantize_linear(%x, @scale) {axis = 0, dtype = f32, block_size = 0} : f32[1, 3, 3, 1]
          %y = conv(%f, %w) {strides = (1, 1), pads = (0, 0, 0, 0), dilations = (1, 1), groups = 1} : f32[1, 2, 2, 1]
          return %y
        }
        """,
        """
        program @main {
          input %x : i8[1, 3, 3, 1]
          input %w : f32[1, 2, 2, 1]
          output %y : f32[1, 2, 2, 1]
          const @scale : f32[]
          stack {
            %f = local f32[1, 3, 3, 1]
            dequantize_linear out %f, in %x, in @scale {axis = 0, dtype = f32, block_size = 0}
            conv out %y, in %f, in %w {strides = (1, 1), pads = (0, 0, 0, 0), dilations = (1, 1), groups = 1}
          }
        }
        """,
    )
