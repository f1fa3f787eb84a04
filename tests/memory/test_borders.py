"""Borders instead of padding."""

# ruff: noqa: E501  lines of programs are long

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings

from afterglow.backends.interpreter import Machine
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Border, Function, parse_function, run_function
from afterglow.instr import OpInstr, Program, print_program, verify_program
from afterglow.lowering import select_instructions
from afterglow.memory import (
    add_borders,
    form_stacks,
    place_lifetimes,
    plan_memory,
    remove_copies,
    share_buffers,
)
from afterglow.memory.borders import BorderOf
from tests.fuzz.graphs import functions_of_floats
from tests.memory.test_memory import without_comments
from tests.transforms.rewriting import random_inputs

TWO_READERS = """
    func @main(%x: f32[1, 5, 5, 1], %w: f32[1, 3, 3, 1], %v: f32[2, 1, 1, 1]) {
      %a = relu(%x) : f32[1, 5, 5, 1]
      %c = conv(%a, %w) {strides = (1, 1), pads = (1, 1, 1, 1), dilations = (1, 1), groups = 1} : f32[1, 5, 5, 1]
      %d = conv(%a, %v) {strides = (2, 2), pads = (0, 0, 0, 0), dilations = (1, 1), groups = 1} : f32[1, 3, 3, 2]
      return %c, %d
    }
"""


def own_border(step: OpInstr) -> Border | None:
    return step.op.bordered([None if b is None else b.type for b in step.ins])


def bordered(function: Function, border_of: BorderOf = own_border) -> Program:
    program = select_instructions(function)
    remove_copies(program)
    add_borders(program, border_of)
    form_stacks(program)
    share_buffers(program)
    place_lifetimes(program)
    plan_memory(program)
    verify_program(program)
    return program


def check_meaning(function: Function, program: Program) -> None:
    inputs = random_inputs(function)
    got = Machine(program, tile=2).run(inputs, {})
    for have, want in zip(got, run_function(function, inputs), strict=True):
        np.testing.assert_allclose(have, want, rtol=2e-3, atol=2e-4)


def test_the_producer_writes_inside_and_the_convolution_reads_all() -> None:
    function = parse_function(inspect.cleandoc(TWO_READERS))
    program = bordered(function)
    check_meaning(function, program)
    text = without_comments(print_program(program))
    assert "%a.bordered = alloc f32[1, 7, 7, 1] at 0" in text
    assert "%a = view %a.bordered[0:1, 1:6, 1:6, 0:1] : f32[1, 5, 5, 1]" in text
    assert "relu out %a, in %x" in text
    assert "conv out %c, in %a.bordered, in %w {strides = (1, 1), pads = (0, 0, 0, 0)" in text
    assert "conv out %d, in %a, in %v" in text
    assert text.count("fill out") == 4


def test_the_border_of_a_maximum_is_below_everything() -> None:
    function = parse_function("""
        func @main(%x: f32[1, 6, 6, 2]) {
          %a = neg(%x) : f32[1, 6, 6, 2]
          %b = max_pool(%a) {kernel = (3, 3), strides = (1, 1), pads = (1, 1, 1, 1), dilations = (1, 1), ceil_mode = false} : f32[1, 6, 6, 2]
          return %b
        }
    """)
    program = bordered(function)
    assert "value = -inf" in print_program(program)
    check_meaning(function, program)


def test_a_buffer_that_would_double_keeps_its_size() -> None:
    function = parse_function("""
        func @main(%x: f32[1, 2, 2, 1], %w: f32[1, 5, 5, 1]) {
          %a = relu(%x) : f32[1, 2, 2, 1]
          %b = conv(%a, %w) {strides = (1, 1), pads = (2, 2, 2, 2), dilations = (1, 1), groups = 1} : f32[1, 2, 2, 1]
          return %b
        }
    """)
    assert "bordered" not in print_program(bordered(function))


def test_a_pitch_keeps_channels_apart_and_is_not_filled() -> None:
    def border_of(step: OpInstr) -> Border | None:
        border = own_border(step)
        return border and replace(border, pitch=(0, 0, 0, 1))

    function = parse_function(
        inspect.cleandoc(
            TWO_READERS.replace("5, 5, 1", "8, 8, 5")
            .replace("1, 3, 3, 1", "5, 3, 3, 5")
            .replace("2, 1, 1, 1", "2, 1, 1, 5")
            .replace("3, 3, 2", "4, 4, 2")
        )
    )
    program = bordered(function, border_of)
    check_meaning(function, program)
    text = without_comments(print_program(program))
    assert "%a.bordered = alloc f32[1, 10, 10, 6]" in text
    assert "%a = view %a.bordered[0:1, 1:9, 1:9, 0:5] : f32[1, 8, 8, 5]" in text
    assert "%a.read = view %a.bordered[0:1, 0:10, 0:10, 0:5] : f32[1, 10, 10, 5]" in text


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(functions_of_floats(most_steps=16))
def test_random_graphs_compute_the_same_with_borders(function: Function) -> None:
    stages = Stages(Options())
    module = stages.lower(stages.optimise(function.module.clone()))
    program = bordered(module.main)
    check_meaning(function, program)
