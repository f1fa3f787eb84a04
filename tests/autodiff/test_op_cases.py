"""Every case of every op that has a gradient, against differences."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import fields, replace

import numpy as np
import pytest

from afterglow.autodiff import gradients
from afterglow.graph import Builder, Function, Op
from afterglow.support.errors import CompileError, UnsupportedError
from afterglow.testing.cases import CASES
from afterglow.testing.cases.case import Case
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import f64
from tests.autodiff.differences import assert_gradients

WITHOUT_GRADIENT = {
    "pairwise_coupling": "it is where an iteration ends, whose number of steps depends on data",
}
STRAIGHT_THROUGH = {"fake_quantize"}
"""Ops whose gradients are on purpose those of something smoother: `test_straight_through`."""
LARGE = 1e4
FEW_ELEMENTS = 24
"""So few that second derivatives are quick to check."""


def is_smooth(case: Case) -> bool:
    """Whether floats go in and out, none of them so large that a small step is lost."""
    if case.op.mnemonic in STRAIGHT_THROUGH:
        return False
    has_floats = any(t is not None and t.dtype.is_float for t in case.types)
    gives_floats = any(t.dtype.is_float for t in case.results())
    return has_floats and gives_floats and is_moderate(case) and takes_doubles(case)


def is_moderate(case: Case) -> bool:
    given = zip(case.inputs(), case.types, strict=True)
    floats = [x.astype(np.float64) for x, t in given if t is not None and t.dtype.is_float]
    return all((np.abs(x) < LARGE).all() for x in floats)


def takes_doubles(case: Case) -> bool:
    try:
        in_doubles(case)
    except CompileError:
        return False
    return True


def in_doubles(case: Case) -> tuple[Function, list[Array]]:
    """The case as a function of doubles, and inputs that lie on no edge."""
    f = Function("main")
    rng = np.random.default_rng(5)
    operands, inputs = [], []
    for index, (type, array) in enumerate(zip(case.types, case.inputs(), strict=True)):
        if type is None or array is None:
            operands.append(None)
            continue
        if type.dtype.is_float:
            array = array.astype(np.float64) + rng.uniform(1e-3, 3e-3, array.shape)
            type = TensorType(f64, type.shape)
        operands.append(f.input(f"x{index}", type))
        inputs.append(array)
    for index, value in enumerate(Builder(f).emit_all(doubled(case.op), *operands)):
        f.output(f"y{index}", value)
    return f, inputs


def doubled(op: Op) -> Op:
    """The op with doubles where an attribute names floats."""
    values = {field.name: getattr(op, field.name) for field in fields(op)}
    floats = {
        name: f64 for name, value in values.items() if isinstance(value, DType) and value.is_float
    }
    return replace(op, **floats) if floats else op


SMOOTH = [case for case in CASES if is_smooth(case)]


def elements(case: Case) -> int:
    return sum(type.size for type in case.types if type is not None)


LEAST = {
    name: min(elements(c) for c in SMOOTH if c.op.mnemonic == name)
    for name in {c.op.mnemonic for c in SMOOTH}
}
"""The elements of the smallest case of each op: no op is left out for its size."""
SMALL = [c for c in SMOOTH if elements(c) <= max(FEW_ELEMENTS, LEAST[c.op.mnemonic])]


def assert_right_or_refused(case: Case, order: int) -> None:
    f, inputs = in_doubles(case)
    may_be_refused = case.op.mnemonic in WITHOUT_GRADIENT
    with suppress(UnsupportedError) if may_be_refused else nullcontext():
        assert_gradients(f, inputs, order=order)


@pytest.mark.parametrize("case", SMOOTH, ids=str)
def test_gradient_is_what_differences_say(case: Case) -> None:
    assert_right_or_refused(case, order=1)


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_gradients_of_gradients_are_what_differences_say(case: Case) -> None:
    assert_right_or_refused(case, order=2)


def test_the_ops_listed_have_no_gradient() -> None:
    """Those not listed have one, as the tests above say: they would fail without."""
    refused = set()
    for case in SMOOTH:
        if case.op.mnemonic not in WITHOUT_GRADIENT:
            continue
        f, _ = in_doubles(case)
        ys = [output.value for output in f.outputs if output.value.type.dtype.is_float]
        try:
            gradients(Builder(f), ys, f.inputs)
        except UnsupportedError:
            refused.add(case.op.mnemonic)
    assert refused == WITHOUT_GRADIENT.keys()
