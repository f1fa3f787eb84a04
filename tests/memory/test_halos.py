"""Halos instead of padding."""

# ruff: noqa: E501  lines of programs are long

from __future__ import annotations

import inspect

import numpy as np
from hypothesis import HealthCheck, given, settings

from afterglow.backends.interpreter import Machine
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Function, parse_function, run_function
from afterglow.instr import (
    KernelPlan,
    OpInstr,
    Program,
    Stack,
    print_program,
    verify_program,
)
from afterglow.lowering import select_instructions
from afterglow.memory import (
    PlanStep,
    add_halos,
    form_stacks,
    place_lifetimes,
    plan_memory,
    remove_copies,
    share_buffers,
)
from afterglow.testing.graphs import functions_of_floats
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


def wants_halo(step: OpInstr | Stack, *, exact: bool = False) -> KernelPlan:
    return KernelPlan("direct", halo=(0,))


def with_halos(function: Function, plan: PlanStep = wants_halo) -> Program:
    program = select_instructions(function)
    remove_copies(program)
    add_halos(program, plan)
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
    program = with_halos(function)
    check_meaning(function, program)
    text = without_comments(print_program(program))
    assert "%a.halo = alloc f32[1, 7, 7, 1] at 0" in text
    assert "%a = view %a.halo[0:1, 1:6, 1:6, 0:1] : f32[1, 5, 5, 1]" in text
    assert "relu out %a, in %x" in text
    assert "conv out %c, in %a.halo, in %w {strides = (1, 1), pads = (0, 0, 0, 0)" in text
    assert "conv out %d, in %a, in %v" in text
    assert text.count("fill out") == 4


def test_the_halo_of_a_maximum_is_below_everything() -> None:
    function = parse_function("""
        func @main(%x: f32[1, 6, 6, 2]) {
          %a = neg(%x) : f32[1, 6, 6, 2]
          %b = max_pool(%a) {kernel = (3, 3), strides = (1, 1), pads = (1, 1, 1, 1), dilations = (1, 1), ceil_mode = false} : f32[1, 6, 6, 2]
          return %b
        }
    """)
    program = with_halos(function)
    assert "value = -inf" in print_program(program)
    check_meaning(function, program)


def test_a_plan_that_wants_no_halo_leaves_the_padding() -> None:
    def plan(step: OpInstr | Stack, *, exact: bool = False) -> KernelPlan:
        return KernelPlan("direct")

    function = parse_function(inspect.cleandoc(TWO_READERS))
    assert ".halo" not in print_program(with_halos(function, plan))


def test_a_buffer_that_would_double_keeps_its_size() -> None:
    function = parse_function("""
        func @main(%x: f32[1, 2, 2, 1], %w: f32[1, 5, 5, 1]) {
          %a = relu(%x) : f32[1, 2, 2, 1]
          %b = conv(%a, %w) {strides = (1, 1), pads = (2, 2, 2, 2), dilations = (1, 1), groups = 1} : f32[1, 2, 2, 1]
          return %b
        }
    """)
    assert ".halo" not in print_program(with_halos(function))


def test_a_gap_keeps_channels_apart_and_is_not_filled() -> None:
    def plan(step: OpInstr | Stack, *, exact: bool = False) -> KernelPlan:
        return KernelPlan("direct", halo=(0,), gap=(0, 0, 0, 1))

    function = parse_function(
        inspect.cleandoc(
            TWO_READERS.replace("5, 5, 1", "8, 8, 5")
            .replace("1, 3, 3, 1", "5, 3, 3, 5")
            .replace("2, 1, 1, 1", "2, 1, 1, 5")
            .replace("3, 3, 2", "4, 4, 2")
        )
    )
    program = with_halos(function, plan)
    check_meaning(function, program)
    text = without_comments(print_program(program))
    assert "%a.halo = alloc f32[1, 10, 10, 6]" in text
    assert "%a = view %a.halo[0:1, 1:9, 1:9, 0:5] : f32[1, 8, 8, 5]" in text
    assert "%a.read = view %a.halo[0:1, 0:10, 0:10, 0:5] : f32[1, 10, 10, 5]" in text


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(functions_of_floats(most_steps=16))
def test_random_graphs_compute_the_same_with_halos(function: Function) -> None:
    stages = Stages(Options())
    module = stages.lower(stages.optimise(function.module.clone()))
    program = with_halos(module.main)
    check_meaning(function, program)
