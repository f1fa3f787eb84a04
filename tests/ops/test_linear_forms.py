"""Integers as sums of unknowns, and their bounds."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Function, Op, Value
from afterglow.ops.activation import Clip
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Max, Min, Mod, Mul, Sub
from afterglow.ops.linear_forms import Condition, Interval, LinearForm, LinearForms
from afterglow.ops.movement import Concat, Reshape
from afterglow.types import TensorType
from afterglow.types.dtype import f32, i32, i64


class Program:
    """A function of an integer `i`, and the forms of its values."""

    def __init__(self) -> None:
        self.function = Function("main")
        self.builder = Builder(self.function)
        self.i = self.function.input("i", TensorType(i64, ()))
        self.forms = LinearForms(lambda value: value)

    def emit(self, op: Op, *operands: Value | int) -> Value:
        values = [
            self.builder.constant(np.array(x), "k") if isinstance(x, int) else x for x in operands
        ]
        return self.builder.emit(op, *values)

    def form(self, value: Value) -> LinearForm:
        found = self.forms.of(value)
        assert found is not None
        return found[0]

    def bounds(self, value: Value) -> tuple[float, float]:
        found = self.forms.interval(self.form(value))
        return found.low, found.high


def test_sums_and_multiples_are_followed_through_movement() -> None:
    p = Program()
    twice = p.emit(Mul(), p.emit(Add(), p.i, 3), 2)
    one, other = (p.emit(Reshape((1,)), x) for x in (twice, p.i))
    both = p.forms.of(p.emit(Concat(0), one, other))
    assert both == [LinearForm(6, {(p.i, 0): 2}), LinearForm(0, {(p.i, 0): 1})]
    assert p.form(p.emit(Sub(), twice, twice)) == LinearForm(0)


def test_a_product_of_unknowns_is_an_unknown() -> None:
    p = Program()
    square = p.emit(Mul(), p.i, p.i)
    assert p.form(square) == LinearForm(0, {(square, 0): 1})


def test_floats_have_no_forms() -> None:
    p = Program()
    assert p.forms.of(p.emit(Cast(f32), p.i)) is None


def test_what_ops_say_about_bounds() -> None:
    p = Program()
    inf = float("inf")
    assert p.bounds(p.i) == (-inf, inf)
    assert p.bounds(p.emit(Mod(), p.i, 5)) == (0, 4)
    assert p.bounds(p.emit(Mod(truncated=True), p.i, 5)) == (-4, 4)
    assert p.bounds(p.emit(Min(), p.i, 7)) == (-inf, 7)
    assert p.bounds(p.emit(Max(), p.emit(Min(), p.i, 7), 2)) == (2, 7)
    assert p.bounds(p.emit(Clip(5, 3), p.i)) == (3, 3)
    p.forms.ranges[p.i, 0] = Interval(0, 9)
    assert p.bounds(p.emit(Sub(), 20, p.emit(Mul(), p.i, 2))) == (2, 20)


def test_arithmetic_in_32_bits_must_stay_in_them() -> None:
    p = Program()
    narrow = p.emit(Cast(i32), p.i)
    assert p.forms.of(narrow) == p.forms.of(p.i)
    (condition,) = p.forms.conditions_of(narrow)
    assert condition == Condition(LinearForm(0, {(p.i, 0): 1}), Interval(-(2**31), 2**31 - 1))
    assert not p.forms.holds(condition)
    p.forms.ranges[p.i, 0] = Interval(0, 2**31 - 1)
    assert p.forms.holds(condition)


def test_many_unknowns_conditions_and_bounds_cost_little() -> None:
    p = Program()
    narrow = p.emit(Cast(i32), p.i)
    for _ in range(40):
        narrow = p.emit(Add(), narrow, narrow)
    assert len(p.forms.of(narrow) or ()) == 1
    assert len(p.forms.conditions_of(narrow)) <= 16
    total = p.i
    for number in range(60):
        total = p.emit(Add(), total, p.function.input(f"x{number}", p.i.type))
    assert len(p.form(total).terms) <= 16
    least = p.i
    for _ in range(2000):
        least = p.emit(Min(), least, least)
    assert p.bounds(least) == (-float("inf"), float("inf"))
    doubled = p.i
    for _ in range(100):
        doubled = p.emit(Add(), doubled, doubled)
    assert all(abs(factor) < 2**62 for factor in p.form(doubled).terms.values())
