"""A random program; the conformance kit draws many, which takes a driver minutes to compile."""

from __future__ import annotations

import pytest

import afterglow as ag
from afterglow.graph import Function, run_function
from afterglow.testing.arrays import random_inputs
from fuzzing.compare import compare
from fuzzing.programs import drawn

pytestmark = pytest.mark.usefixtures("opencl_device")
MOST_NODES = 18


@pytest.fixture
def program() -> Function:
    """The longest of some random programs that is compiled soon enough."""
    sizes = {function: len([*function.nodes]) for function in drawn(0, 20)}
    return max((f for f in sizes if sizes[f] <= MOST_NODES), key=sizes.__getitem__)


def test_a_random_program_computes_what_its_ops_define(program) -> None:
    inputs = random_inputs(program)
    model = ag.compile(program.module.clone(), backend="opencl", cache=False, verify=True)
    names = [placeholder.name for placeholder in program.inputs]
    found = model.run(None, dict(zip(names, inputs, strict=True)))
    compare("opencl", found, run_function(program, inputs))
