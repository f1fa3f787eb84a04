"""The memory that a function takes, as the scheduler sees it and as it is planned in the end."""

from __future__ import annotations

import inspect

import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import Function, parse_function
from afterglow.instr import Copy, Program
from afterglow.lowering import select_instructions
from afterglow.lowering.schedule import Schedule, peak_bytes
from afterglow.lowering.scheduling.model import model_of
from afterglow.lowering.scheduling.problem import Step
from afterglow.memory import (
    form_stacks,
    place_lifetimes,
    plan_memory,
    remove_copies,
    share_buffers,
    update_in_place,
)


def function(*lines: str, inputs: str = "%x: f32[4, 16]", results: str = "%y") -> Function:
    """A function on inputs of 256 bytes; a line without a type gives a tensor like them."""
    body = [line if " : " in line else f"{line} : f32[4, 16]" for line in lines]
    text = ["const @scale : f32[] = [0.5]", f"func @main({inputs}) {{", *body, f"return {results}"]
    return parse_function("\n".join([*text, "}"]))


def planned_bytes(function: Function) -> int:
    """What the plan says that no arena can be smaller than."""
    program = select_instructions(function)
    remove_copies(program)
    form_stacks(program)
    share_buffers(program)
    place_lifetimes(program)
    return plan_memory(program).lower_bound_bytes


MATMUL = "matmul({}, {}) {{transpose_lhs = false, transpose_rhs = true}}"
"""Of [4, 16] and [16, 16]: neither element-wise nor in place."""


def matmul(x: str, weight: str = "%w") -> str:
    return MATMUL.format(x, weight)


WITH_WEIGHT = "%x: f32[4, 16], %w: f32[16, 16]"

EXAMPLES = {
    "inputs and outputs lie outside": (0, ["%y = exp(%x)"]),
    "in place: one tensor": (256, [f"%a = {matmul('%x')}", "%b = exp(%a)", f"%y = {matmul('%b')}"]),
    "not in place: two": (
        512,
        [f"%a = {matmul('%x')}", f"%b = {matmul('%a')}", f"%y = {matmul('%b')}"],
    ),
    "a reshape is a view": (
        512,
        [
            f"%a = {matmul('%x')}",
            "%r = reshape(%a) {shape = (64,)} : f32[64]",
            "%s = reshape(%r) {shape = (4, 16)}",
            f"%b = {matmul('%s')}",
            f"%y = {matmul('%b')}",
        ],
    ),
    "a slice keeps all of its operand": (
        320,
        [
            f"%a = {matmul('%x')}",
            "%s = slice(%a) {starts = (1, 0), extents = (1, 16), steps = (1, 1)} : f32[1, 16]",
            f"%b = {matmul('%s')} : f32[1, 16]",
            f"%y = {matmul('%b')} : f32[1, 16]",
        ],
    ),
    "a slice of an input costs nothing": (
        0,
        [
            "%s = slice(%x) {starts = (1, 0), extents = (1, 16), steps = (1, 1)} : f32[1, 16]",
            f"%y = {matmul('%s')} : f32[1, 16]",
        ],
    ),
    "parts lie in their concatenation": (
        512,
        [
            f"%a = {matmul('%x')}",
            f"%b = {matmul('%a')}",
            "%c = concat(%a, %b) {axis = 0} : f32[8, 16]",
            f"%y = {matmul('%c')} : f32[8, 16]",
        ],
    ),
    "a residual is added in place": (
        512,
        [
            f"%a = {matmul('%x')}",
            f"%b = {matmul('%a')}",
            f"%c = {matmul('%b')}",
            "%d = add(%c, %a)",
            "%e = relu(%d)",
            f"%y = {matmul('%e')}",
        ],
    ),
    "what is inside a kernel has no memory": (
        0,
        [f"%a = {matmul('%x')}", "%b = exp(%a)", "%c = mul(%b, %x)", "%y = relu(%c)"],
    ),
    "what a reduction reads is made as it is read": (
        64,
        [
            "%a = exp(%x)",
            "%b = reduce_sum(%a) {axes = (0,), keepdims = true} : f32[1, 16]",
            f"%c = {matmul('%x')}",
            "%y = mul(%c, %b)",
        ],
    ),
    "what is compact is unpacked where it is read": (
        64,
        [
            f"%a = {matmul('%x')}",
            "%b = quantize_linear(%a, @scale) {axis = 0, dtype = u8, block_size = 0, "
            "saturate = true} : u8[4, 16]",
            "%c = dequantize_linear(%b, @scale) {axis = 0, dtype = f32, block_size = 0}",
            f"%y = {matmul('%c')}",
        ],
    ),
    "a sum of two branches": (
        256,
        [
            f"%a = {matmul('%x')}",
            f"%b = {matmul('%x')}",
            "%c = add(%a, %b)",
            f"%y = {matmul('%c')}",
        ],
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_model_is_what_is_planned(name: str) -> None:
    expected, lines = EXAMPLES[name]
    given = function(*lines, inputs=WITH_WEIGHT) if "%w" in " ".join(lines) else function(*lines)
    assert peak_bytes(given, remove_copies) == expected
    assert planned_bytes(given) == expected


def test_without_removal_of_copies_everything_is_a_tensor() -> None:
    given = function("%r = reshape(%x) {shape = (64,)} : f32[64]", "%y = exp(%r) : f32[64]")
    assert peak_bytes(given) == 256
    assert peak_bytes(given, remove_copies) == 0


def test_values_stored_in_states_are_kept_to_the_end() -> None:
    given = parse_function(
        inspect.cleandoc("""
        state @s : f32[64]
        func @main(%x: f32[64]) {
          %a = exp(%x) : f32[64]
          %b = softmax(%x) {axis = 0} : f32[64]
          %c = softmax(%b) {axis = 0} : f32[64]
          store %a to @s
          return %c
        }
        """)
    )
    problem = model_of(given, lambda program: None).problem
    assert [problem.sizes[buffer] for buffer in problem.live_out] == [256]
    assert peak_bytes(given) == 512


STEP = """
    state @w : f32[16, 16]
    state @v : f32[16, 16]
    func @main(%x: f32[16, 16]) {
      %a = matmul(%x, @w) {transpose_lhs = false, transpose_rhs = false} : f32[16, 16]
      %b = matmul(%a, @v) {transpose_lhs = false, transpose_rhs = false} : f32[16, 16]
      %db = softmax(%b) {axis = 1} : f32[16, 16]
      %dv = matmul(%a, %db) {transpose_lhs = true, transpose_rhs = false} : f32[16, 16]
      %v2 = sub(@v, %dv) : f32[16, 16]
      %da = matmul(%db, @v) {transpose_lhs = false, transpose_rhs = true} : f32[16, 16]
      %dw = matmul(%x, %da) {transpose_lhs = true, transpose_rhs = false} : f32[16, 16]
      %w2 = sub(@w, %dw) : f32[16, 16]
      store %w2 to @w
      store %v2 to @v
      return
    }
"""
"""A step of a network of two layers."""


def settle(program: Program) -> None:
    remove_copies(program)
    update_in_place(program)


def test_state_changes_once_its_old_value_was_read_and_takes_no_memory() -> None:
    given = parse_function(inspect.cleandoc(STEP))
    Schedule(settle).run(given)
    assert [node.name for node in given.nodes] == ["a", "b", "db", "da", "dv", "v2", "dw", "w2"]
    assert peak_bytes(given, settle) == 3 * 1024  # a, db, and the gradient of one of them
    program = select_instructions(given)
    settle(program)
    assert not any(isinstance(step, Copy) for step in program.body)


def test_state_that_is_read_on_the_way_to_an_output_changes_after_that() -> None:
    given = parse_function(
        inspect.cleandoc("""
        state @s : f32[64]
        func @main(%x: f32[64]) {
          %a = exp(@s) : f32[64]
          %before = abs(%a) : f32[64]
          %after = add(%before, %x) : f32[64]
          store %after to @s
          return %before
        }
        """)
    )
    Schedule(settle).run(given)
    assert [node.name for node in given.nodes] == ["a", "before", "after"]


def test_a_step_says_what_it_touches_needs_joins_and_yields() -> None:
    given = function(
        f"%a = {matmul('%x')}",
        "%b = exp(%a)",
        f"%c = {matmul('%b')}",
        f"%y = {matmul('%c')}",
        inputs=WITH_WEIGHT,
    )
    assert model_of(given, remove_copies).problem.steps == (
        Step(touches=(0,)),
        Step(touches=(1, 0), needs=(0,), joins=frozenset([0]), yields=(0,)),
        Step(touches=(2, 1), needs=(1,)),
        Step(touches=(2,), needs=(2,)),
    )


def test_views_of_inputs_are_no_steps_and_come_when_they_are_needed() -> None:
    given = function(
        "%r = reshape(%x) {shape = (64,)} : f32[64]",
        "%a = exp(%x)",
        f"%b = {matmul('%a')}",
        "%y = exp(%r) : f32[64]",
        inputs=WITH_WEIGHT,
        results="%b, %y",
    )
    model = model_of(given, remove_copies)
    assert [node.name for node in model.nodes] == ["a", "b"]
    assert [node.name for node in model.order([0, 1])] == ["a", "b", "r", "y"]
