"""Random graphs: they verify, print and parse; optimised equals unoptimised; plans are right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afterglow.backends.interpreter import Machine
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import (
    Constant,
    Function,
    parse_module,
    print_module,
    run_function,
    verify_module,
)
from afterglow.instr import parse_program, print_program, verify_program
from tests.fuzz.graphs import functions_of_floats
from tests.transforms.rewriting import random_inputs

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
THOROUGH = settings(QUICK, max_examples=3000)
FEW = settings(QUICK, max_examples=25)
"""Where each example takes the time of making machine code."""


def payload(function: Function) -> dict[str, np.ndarray]:
    return {name: c.data for name, c in function.module.constants.items()}


def check_text(function: Function) -> None:
    module = function.module
    verify_module(module)
    text = print_module(module)
    assert print_module(parse_module(text, payload(function))) == text


def check_compiled(function: Function, backend: str) -> None:
    inputs = random_inputs(function)
    want = run_function(function, inputs)
    compiled = Stages(Options(backend=backend, verify=True)).finish(function.module.clone())
    verify_program(compiled.program)
    text = print_program(compiled.program)
    assert print_program(parse_program(text)) == text
    in_tiles = Machine(compiled.program, tile=2)  # small, so that an illegal stack goes wrong
    for outputs in (compiled.run(inputs), in_tiles.run(inputs, {})):
        for have, expected in zip(outputs, want, strict=True):
            assert have.shape == expected.shape
            np.testing.assert_allclose(have, expected, rtol=2e-3, atol=2e-4)


@QUICK
@given(functions_of_floats())
def test_text_round_trips(function: Function) -> None:
    check_text(function)


@QUICK
@given(functions_of_floats())
def test_optimised_and_planned_equals_the_definition(function: Function) -> None:
    check_compiled(function, "interpreter")


@QUICK
@given(functions_of_floats())
def test_primitives_alone_compute_the_same(function: Function) -> None:
    check_compiled(function, "primitives")


def check_native(function: Function, *, optimize: bool) -> None:
    inputs = random_inputs(function)
    options = Options(optimize=optimize, verify=True, threads=1)
    outputs = Stages(options).finish(function.module.clone()).run(inputs)
    for have, expected in zip(outputs, run_function(function, inputs), strict=True):
        assert have.shape == expected.shape
        np.testing.assert_allclose(have, expected, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("optimize", [True, False], ids=["optimised", "as it is"])
@FEW
@given(function=functions_of_floats())
def test_machine_code_equals_the_definition(function: Function, optimize: bool) -> None:
    check_native(function, optimize=optimize)


@QUICK
@given(functions_of_floats())
def test_unoptimised_programs_equal_the_definition(function: Function) -> None:
    inputs = random_inputs(function)
    options = Options(backend="interpreter", optimize=False, verify=True)
    outputs = Stages(options).finish(function.module.clone()).run(inputs)
    for have, expected in zip(outputs, run_function(function, inputs), strict=True):
        np.testing.assert_allclose(have, expected, rtol=2e-3, atol=2e-4)


@pytest.mark.slow
@settings(QUICK, max_examples=300)
@given(functions_of_floats(most_steps=25), st.booleans())
def test_machine_code_of_larger_graphs(function: Function, optimize: bool) -> None:
    check_native(function, optimize=optimize)


@pytest.mark.slow
@THOROUGH
@given(functions_of_floats(most_steps=25))
def test_larger_graphs(function: Function) -> None:
    check_text(function)
    check_compiled(function, "interpreter")
    check_compiled(function, "primitives")


def test_a_constant_can_be_returned() -> None:
    f = Function("main")
    constant = f.module.constant("c", np.ones(3, np.float32))
    assert isinstance(constant, Constant)
    f.output("y", constant)
    check_compiled(f, "interpreter")
