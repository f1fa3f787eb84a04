"""Programs with NaN, infinities, zeros and extremes in place of their constants.

Every program that a test gives to a pass is tried so: a rule that reads constants must either mind
what it reads or decline, and never fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from afterglow.graph import (
    Constant,
    Module,
    Node,
    parse_module,
    print_module,
    run_function,
    verify_module,
)
from afterglow.graph.builder import infer_types
from afterglow.passes import Pass
from afterglow.support.errors import AfterglowError, TypeRuleError
from afterglow.testing.arrays import random_inputs
from afterglow.types import Array

FLOATS = (np.nan, np.inf, -np.inf, -0.0, 0.0, -1.0)
INTEGERS = (0, -1, 2**31 - 1)
EXTREMES = (1e-45, 3e38)
"""What these overflow to depends on the order of operations: only that nothing fails is checked."""
MOST_CONSTANTS = 8
"""More of them are not tried, so that tests stay fast."""


def check_special_constants(step: Pass, program: Module, tolerance: float) -> None:
    """The pass leaves the meaning of a program, whatever its constants are."""
    for variant in _variants(program, FLOATS, INTEGERS):
        _check_same(variant, _rewritten(step, variant), max(tolerance, 1e-3))
    for variant in _variants(program, EXTREMES, ()):
        _rewritten(step, variant)
    for variant in _emptied(program):
        _check_same(variant, _rewritten(step, variant), tolerance)


def _rewritten(step: Pass, program: Module) -> Module:
    changed = program.clone()
    with np.errstate(all="ignore"):
        for function in list(changed.functions.values()):
            step.run(function)
    verify_module(changed)
    return changed


def _variants(
    program: Module, floats: tuple[float, ...], integers: tuple[int, ...]
) -> Iterator[Module]:
    for name in list(program.constants)[:MOST_CONSTANTS]:
        kind = program.constants[name].data.dtype.kind
        for value in floats if kind == "f" else integers if kind == "i" else ():
            for data in _with(program.constants[name].data, value):
                variant = program.clone()
                variant.constants[name].data = data
                yield variant
        yield from _reshaped(program, name)


def _with(data: Array, value: float) -> Iterator[Array]:
    """The array with a value everywhere, and in one place."""
    with np.errstate(all="ignore"):
        element = np.array(value).astype(data.dtype)
    yield np.full_like(data, element)
    if data.size > 1:
        once = data.copy()
        once.reshape(-1)[-1] = element
        yield once


def _reshaped(program: Module, name: str) -> Iterator[Module]:
    """A single number with other axes of extent 1, where all that read it take it so."""
    if program.constants[name].type.size != 1:
        return
    for shape in ((), (1,), (1, 1)):
        variant = program.clone()
        old = variant.constants[name]
        new = Constant(name, old.data.reshape(shape))
        if old.type.quantization is None and all(_takes(node, old, new) for node in old.users):
            old.data, old.type = new.data, new.type
            yield variant


def _emptied(program: Module) -> Iterator[Module]:
    """Programs in which an extent of some constant is 0 wherever it occurs, if that is valid."""
    text = re.sub(r"(?m)^(const .*?) = \[.*\]$", r"\1", print_module(program))
    shapes = {name: constant.type.shape for name, constant in program.constants.items()}
    for extent in sorted({e for shape in shapes.values() for e in shape if e > 1}):
        payload = {name: _cut(c.data, extent) for name, c in program.constants.items()}
        try:  # what is left may be no program, or have no meaning
            variant = parse_module(re.sub(rf"(?<=[\[( ]){extent}(?=[\]),])", "0", text), payload)
            verify_module(variant)
            _outputs(variant)
        except (AfterglowError, ValueError, IndexError):
            continue
        yield variant


def _cut(data: Array, extent: int) -> Array:
    """The array without elements along the axes of this extent."""
    return data[tuple(slice(0) if e == extent else slice(None) for e in data.shape)]


def _takes(node: Node, old: Constant, new: Constant) -> bool:
    operands = tuple(new if value is old else value for value in node.operands)
    try:
        return list(infer_types(node.op, operands)) == [result.type for result in node.results]
    except TypeRuleError:
        return False


def _check_same(expected: Module, got: Module, tolerance: float) -> None:
    try:
        wanted = _outputs(expected)
    except (AfterglowError, IndexError):  # indices that are out of range: there is no meaning
        return
    for want, have in zip(wanted, _outputs(got), strict=True):
        assert want.shape == have.shape
        np.testing.assert_allclose(
            have.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance
        )


def _outputs(program: Module) -> list[Array]:
    main = program.main
    states = {s.name: np.zeros(s.type.shape, s.type.dtype.numpy) for s in main.states()}
    return [*run_function(main, random_inputs(main), states), *states.values()]
