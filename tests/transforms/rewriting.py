"""How passes are tested: the smallest program before and after, as text."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import numpy as np

from afterglow.graph import Function, parse_module, print_module, run_function, verify_module
from afterglow.passes import Pass
from afterglow.testing.arrays import random_inputs as random_inputs
from afterglow.types import Array
from afterglow.types.extent import Extents
from tests.transforms.special_constants import check_special_constants


def check_rewrites(step: Pass, *, before: str, after: str, tolerance: float = 1e-4) -> None:
    """Run a pass on `before`; the result prints as `after` and computes the same."""
    module = parse_module(inspect.cleandoc(before))
    verify_module(module)
    reference = module.clone()
    for function in list(module.functions.values()):
        step.run(function)
    verify_module(module)
    drop_unused_constants(module.main)
    assert print_module(module).strip() == inspect.cleandoc(after).strip()
    assert_same_meaning(reference.main, module.main, tolerance)
    check_special_constants(step, reference, tolerance)


def program(signature: str, *lines: str) -> str:
    """The text of constants and of a function that returns what its last line defines."""
    constants = [line for line in lines if line.startswith("const ")]
    body = [line for line in lines if not line.startswith("const ")]
    inner = [f"  {line}" for line in (*body, f"return {body[-1].partition(' = ')[0]}")]
    return "\n".join([*constants, f"func @main({signature}) {{", *inner, "}"])


def check_declines(step: Pass, text: str) -> None:
    """Run a pass on a program that it must leave alone."""
    module = parse_module(inspect.cleandoc(text))
    expected = print_module(module)
    assert not step.run(module.main)
    assert print_module(module) == expected


def drop_unused_constants(function: Function) -> None:
    """Forget constants that a rewrite left behind."""
    kept = {id(c) for f in function.module.functions.values() for c in f.constants()}
    for constant in list(function.module.constants.values()):
        if id(constant) not in kept:
            function.module.erase_constant(constant)


def assert_same_meaning(expected: Function, got: Function, tolerance: float = 1e-4) -> None:
    """Both functions give the same outputs, and leave the same states, on random inputs."""
    inputs = random_inputs(expected)
    wanted, found = _outputs_and_states(expected, inputs), _outputs_and_states(got, inputs)
    for want, have in zip(wanted, found, strict=True):
        assert want.shape == have.shape
        assert want.dtype == have.dtype
        np.testing.assert_allclose(
            have.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance
        )


def _outputs_and_states(function: Function, inputs: list[Array]) -> list[Array]:
    states = {s.name: np.zeros(s.type.shape, s.type.dtype.numpy) for s in function.states()}
    return [*run_function(function, inputs, states), *states.values()]


def check_rewrites_ranged(step: Pass, *, before: str, after: str, runs: Iterable[Extents]) -> None:
    """As `check_rewrites`, for a program with ranged extents; it computes the same in each run."""
    module = parse_module(inspect.cleandoc(before))
    reference = module.clone()
    step.run(module.main)
    verify_module(module)
    drop_unused_constants(module.main)
    assert print_module(module).strip() == inspect.cleandoc(after).strip()
    for extents in runs:
        assert_same_meaning(reference.bind(extents).main, module.bind(extents).main)
