"""The pass: nodes before and after, as text."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import Builder, Function, Value, print_module, verify_module
from afterglow.lowering import Schedule
from afterglow.lowering.schedule import peak_bytes
from afterglow.memory import remove_copies
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.testing.graphs import functions_of_floats
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from tests.transforms.rewriting import assert_same_meaning, check_declines, check_rewrites

SCHEDULE = Schedule(remove_copies)
SLOW = 60.0


def test_the_branch_that_frees_more_goes_first() -> None:
    """The right branch needs 64 kB on its way to 4 B: the left one's 16 kB can wait until then."""
    check_rewrites(
        SCHEDULE,
        before="""
            func @main(%x: f32[64, 64]) {
              %left = softmax(%x) {axis = 0} : f32[64, 64]
              %wide = concat(%x, %x, %x, %x) {axis = 0} : f32[256, 64]
              %right = reduce_sum(%wide) {axes = (0, 1), keepdims = false} : f32[]
              %y = softmax(%left) {axis = 1} : f32[64, 64]
              %z = add(%y, %right) : f32[64, 64]
              return %z
            }
        """,
        after="""
            func @main(%x: f32[64, 64]) {
              %wide = concat(%x, %x, %x, %x) {axis = 0} : f32[256, 64]
              %right = reduce_sum(%wide) {axes = (0, 1), keepdims = false} : f32[]
              %left = softmax(%x) {axis = 0} : f32[64, 64]
              %y = softmax(%left) {axis = 1} : f32[64, 64]
              %z = add(%y, %right) : f32[64, 64]
              return %z
            }
        """,
    )


def test_what_will_be_one_kernel_comes_together() -> None:
    check_rewrites(
        SCHEDULE,
        before="""
            func @main(%x: f32[8, 8]) {
              %a = softmax(%x) {axis = 0} : f32[8, 8]
              %b = softmax(%x) {axis = 1} : f32[8, 8]
              %c = exp(%a) : f32[8, 8]
              %d = exp(%b) : f32[8, 8]
              %y = matmul(%c, %d) {transpose_lhs = false, transpose_rhs = false} : f32[8, 8]
              return %y
            }
        """,
        after="""
            func @main(%x: f32[8, 8]) {
              %a = softmax(%x) {axis = 0} : f32[8, 8]
              %c = exp(%a) : f32[8, 8]
              %b = softmax(%x) {axis = 1} : f32[8, 8]
              %d = exp(%b) : f32[8, 8]
              %y = matmul(%c, %d) {transpose_lhs = false, transpose_rhs = false} : f32[8, 8]
              return %y
            }
        """,
    )


def test_an_order_that_is_good_stays() -> None:
    check_declines(
        SCHEDULE,
        """
        func @main(%x: f32[8, 8]) {
          %a = softmax(%x) {axis = 0} : f32[8, 8]
          %b = softmax(%x) {axis = 1} : f32[8, 8]
          %y = matmul(%a, %b) {transpose_lhs = false, transpose_rhs = false} : f32[8, 8]
          return %y
        }
        """,
    )


def test_a_function_without_nodes_stays() -> None:
    check_declines(SCHEDULE, "func @main(%x: f32[8]) {\n  return %x\n}")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(functions_of_floats(most_steps=20))
def test_random_functions_mean_the_same_and_need_no_more(function: Function) -> None:
    reference = function.module.clone().main
    before = peak_bytes(function, remove_copies)
    SCHEDULE.run(function)
    verify_module(function.module)
    assert_same_meaning(reference, function)
    assert peak_bytes(function, remove_copies) <= before


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(functions_of_floats(most_steps=20))
def test_equal_functions_get_equal_orders(function: Function) -> None:
    again = function.module.clone()
    SCHEDULE.run(function)
    SCHEDULE.run(again.main)
    assert print_module(function.module) == print_module(again)


def large_function(count: int, reach: int) -> Function:
    """Products, sums and rectifiers of what the last `reach` nodes made."""
    rng = np.random.default_rng(0)
    f = Function("main")
    b = Builder(f)
    weight = b.constant(np.ones((16, 16), np.float32))
    values: list[Value] = [f.input("x", TensorType(f32, (16, 16)))]
    for _ in range(count):
        x, y = (values[-1 - rng.integers(min(reach, len(values)))] for _ in range(2))
        match rng.integers(3):
            case 0:
                values.append(b.emit(Relu(), x))
            case 1:
                values.append(b.emit(MatMul(), x, weight))
            case _:
                values.append(b.emit(Add(), x, y))
    for value in [value for value in values if not value.use_count]:
        f.output("y", value)
    return f


@pytest.mark.parametrize("reach", [1, 20, 10_000])
def test_ten_thousand_nodes_take_seconds(reach: int) -> None:
    function = large_function(10_000, reach)
    before = peak_bytes(function, remove_copies)
    started = perf_counter()
    SCHEDULE.run(function)
    assert perf_counter() - started < SLOW
    assert peak_bytes(function, remove_copies) <= before
