"""Each invariant of the graph IR has a program that breaks it."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Builder, Function, Module, Placeholder, PlaceholderKind, verify_module
from afterglow.graph.function import Update
from afterglow.ops.elementwise import Add
from afterglow.ops.functions import Exp
from afterglow.support.errors import VerifyError
from afterglow.types import TensorType
from afterglow.types.dtype import f32, i32
from afterglow.types.extent import Dim, ranged


@pytest.fixture
def f() -> Function:
    function = Function("main")
    b = Builder(function)
    x = function.input("x", TensorType(f32, (2,)))
    function.output("y", b.emit(Add(), b.emit(Exp(), x), x))
    return function


def broken(f: Function) -> str:
    with pytest.raises(VerifyError) as caught:
        verify_module(f.module)
    return caught.value.what


def test_a_good_function_passes(f: Function) -> None:
    verify_module(f.module)


def test_names_are_unique(f: Function) -> None:
    next(f.nodes).results[0].name = "x"
    assert broken(f) == "%x is defined twice"


def test_operands_are_defined_before_their_use(f: Function) -> None:
    f.reorder(list(f.nodes)[::-1])
    assert broken(f) == "operand exp of %add is not defined before its use"


def test_operands_belong_to_the_function(f: Function) -> None:
    stranger = Placeholder("z", TensorType(f32, (2,)), PlaceholderKind.INPUT)
    next(f.nodes).set_operand(0, stranger)
    assert broken(f) == "operand z of %exp is not defined before its use"


def test_use_lists_and_operands_agree(f: Function) -> None:
    f.inputs[0]._uses.clear()
    assert broken(f) == "x does not list its use by %exp"


def test_types_are_inferred_anew(f: Function) -> None:
    next(f.nodes).results[0].type = TensorType(f32, (3,))
    assert broken(f) == "%exp is (f32[3],), its type rule gives (f32[2],)"


def test_type_rules_are_run(f: Function) -> None:
    f.inputs[0].type = TensorType(i32, (2,))
    assert broken(f) == "exp: x must hold floats, got i32[2]"


def test_constants_have_their_type(f: Function) -> None:
    constant = f.module.constant("c", np.zeros(3, np.float32))
    constant.type = TensorType(f32, (4,))
    assert broken(f) == "constant @c is f32[4], its data f32[3]"


def test_predicates_are_boolean_scalars(f: Function) -> None:
    list(f.nodes)[1].predicate = f.inputs[0]
    assert broken(f) == "the predicate of %add must be bool[], got f32[2]"


def test_outputs_have_different_names(f: Function) -> None:
    f.output("y", f.inputs[0])
    assert broken(f) == "two outputs are named 'y'"


def test_outputs_are_defined(f: Function) -> None:
    f.output("z", Placeholder("z", TensorType(f32, ()), PlaceholderKind.INPUT))
    assert broken(f) == "z leaves the function but is not defined in it"


def test_state_is_stored_once_and_with_its_type(f: Function) -> None:
    state = f.module.state("s", TensorType(f32, (2,)))
    f.update(state, f.inputs[0])
    f.update(state, f.inputs[0])
    assert broken(f) == "state @s is stored twice"
    f.updates[:] = [Update(state, f.module.constant("c", np.zeros(3, np.float32)))]
    assert broken(f) == "state @s is f32[2], not f32[3]"


def test_a_dimension_has_the_same_bounds_everywhere(f: Function) -> None:
    f.input("a", TensorType(f32, (ranged(Dim("s", 1, 4)),)))
    verify_module(f.module)
    f.input("b", TensorType(f32, (ranged(Dim("s", 1, 8)),)))
    assert broken(f) == "dimension 's' is 1..4 and 1..8"


def test_carried_functions_belong_to_the_module(f: Function) -> None:
    other = Module()
    inner = Function("inner", other)
    assert inner.module is not f.module
