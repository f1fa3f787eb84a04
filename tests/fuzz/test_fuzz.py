"""Random graphs verify, print and parse; what they compute, the conformance kit checks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Constant, Function, parse_module, print_module, verify_module
from afterglow.testing.graphs import functions_of_floats

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
THOROUGH = settings(QUICK, max_examples=3000)


def payload(function: Function) -> dict[str, np.ndarray]:
    return {name: c.data for name, c in function.module.constants.items()}


def check_text(function: Function) -> None:
    module = function.module
    verify_module(module)
    text = print_module(module)
    assert print_module(parse_module(text, payload(function))) == text


@QUICK
@given(functions_of_floats())
def test_text_round_trips(function: Function) -> None:
    check_text(function)


@pytest.mark.slow
@THOROUGH
@given(functions_of_floats(most_steps=25))
def test_text_of_larger_graphs(function: Function) -> None:
    check_text(function)


def test_a_constant_can_be_returned() -> None:
    f = Function("main")
    constant = f.module.constant("c", np.ones(3, np.float32))
    assert isinstance(constant, Constant)
    f.output("y", constant)
    for backend in ("interpreter", "primitives"):
        compiled = Stages(Options(backend=backend, verify=True)).finish(f.module.clone())
        np.testing.assert_array_equal(compiled.run([])[0], constant.data)
