"""Control flow: what the ops compute, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import (
    Subgraph,
    parse_module,
    print_module,
    run_function,
    run_op,
    verify_module,
)
from afterglow.graph.op import Op, result_types
from afterglow.ops.control import If, Loop, Scan
from afterglow.support.errors import TypeRuleError
from afterglow.testing.cases.case import boolean, f32, i64
from afterglow.testing.cases.control import body
from afterglow.types import Array, TensorType


def evaluated(op: Op, *inputs: Array) -> list[list[float]]:
    types = result_types(op.infer(*map(TensorType.of, inputs)))
    return [result.tolist() for result in run_op(op, inputs, types)]


def numbers(*elements: float) -> Array:
    return np.array(elements, np.float32)


def scalar(number: float) -> Array:
    return np.array(number, np.float32)


def test_if_runs_one_branch() -> None:
    op = If(body("double"), body("combine"))
    x, y = np.ones((2, 3), np.float32), numbers(1, 2, 3)
    assert evaluated(op, np.array(True), x, y) == [[[2, 2, 2], [2, 2, 2]]]
    assert evaluated(op, np.array(False), x, y) == [[[2, 3, 4], [2, 3, 4]]]


def test_loop_ends_when_its_condition_fails() -> None:
    op = Loop(body("grow"), carried=1)
    assert evaluated(op, np.array(99), np.array(True), scalar(1), scalar(4)) == [256]


def test_loop_ends_at_its_limit() -> None:
    op = Loop(body("grow"), carried=1)
    assert evaluated(op, np.array(2), np.array(True), scalar(1), scalar(4)) == [16]


def test_loop_may_not_run_at_all() -> None:
    op = Loop(body("grow"), carried=1)
    assert evaluated(op, np.array(9), np.array(False), scalar(1), scalar(4)) == [1]


def test_loop_counts_its_iterations() -> None:
    op = Loop(body("count"), carried=1)
    assert evaluated(op, np.array(5), np.array(True), np.array(0)) == [0 + 1 + 2 + 3 + 4]


def test_scan_stacks_what_each_iteration_returns() -> None:
    op = Scan(body("accumulate"), 3, carried=1, scanned=1)
    parts = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    total, moved, sums = evaluated(op, numbers(10, 20), parts, numbers(1, 1))
    assert moved == [[2, 3], [4, 5], [6, 7]]
    assert sums == [[12, 23], [16, 28], [22, 35]]
    assert total == [22, 35]


FLOAT, INTEGER, FLAG = f32(), i64(), boolean()
REFUSED = [
    (
        If(body("double"), body("combine")),
        [f32(), f32(2, 3), f32(3)],
        "condition must hold bool, got f32[]",
    ),
    (
        If(body("double"), body("combine")),
        [FLAG, f32(2, 3)],
        "then_branch @double takes (f32[2, 3], f32[3]), it is given (f32[2, 3])",
    ),
    (
        If(body("alone"), body("same")),
        [FLAG],
        "else_branch @same takes (f16[4]), it is given ()",
    ),
    (
        Loop(body("count"), carried=0),
        [INTEGER, FLAG, INTEGER],
        "body must return (bool[]), @count returns (bool[], i64[])",
    ),
    (
        Loop(body("count"), carried=1),
        [FLOAT, FLAG, INTEGER],
        "limit must hold i64, got f32[]",
    ),
    (
        Scan(body("accumulate"), 4, carried=1, scanned=1),
        [f32(2), f32(5, 2), f32(2)],
        "scanned values must have 4 parts, got f32[5, 2]",
    ),
    (
        Scan(body("count"), 4, carried=2, scanned=0),
        [INTEGER, INTEGER],
        "body must return the carried types (i64[], i64[]) first, @count returns (bool[], i64[])",
    ),
]


@pytest.mark.parametrize(("op", "types", "message"), REFUSED, ids=[r[2] for r in REFUSED])
def test_types_that_do_not_fit(op: Op, types: list[TensorType], message: str) -> None:
    with pytest.raises(TypeRuleError) as caught:
        op.infer(*types)
    assert caught.value.what == message


def test_branches_must_return_the_same_types() -> None:
    module = parse_module("""
        func @whole(%x: f32[4]) {
          return %x
        }
        func @part(%x: f32[4]) {
          %y = slice(%x) {starts = (0,), extents = (2,), steps = (1,)} : f32[2]
          return %y
        }
    """)
    whole, part = (Subgraph(function) for function in module.functions.values())
    with pytest.raises(TypeRuleError) as caught:
        If(whole, part).infer(FLAG, f32(4))
    assert caught.value.what == "the branches must return the same types, got (f32[4]) and (f32[2])"


def test_bodies_are_printed_parsed_verified_and_run() -> None:
    module = parse_module("""
        func @step(%total: f32[2], %part: f32[2]) {
          %sum = add(%total, %part) : f32[2]
          return %sum, %sum as "each"
        }
        func @main(%x: f32[2], %parts: f32[3, 2]) {
          %n, %all = scan(%x, %parts) {body = @step, length = 3, carried = 1, scanned = 1}
            : f32[2], f32[3, 2]
          return %n, %all
        }
    """)
    verify_module(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    total, each = run_function(module.main, [numbers(0, 0), np.ones((3, 2), np.float32)])
    assert total.tolist() == [3, 3]
    assert each.tolist() == [[1, 1], [2, 2], [3, 3]]
