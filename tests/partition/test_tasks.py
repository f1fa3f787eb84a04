"""Groups of nodes that stay together."""

from __future__ import annotations

from functools import partial

import numpy as np
from hypothesis import HealthCheck, given, settings

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import Builder, Function, parse_module
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.partition.extract import extract
from afterglow.partition.tasks import tasks_of
from afterglow.testing.graphs import functions_of_floats
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from tests.effort import is_linear


def tasks(text: str) -> list[str]:
    """The nodes of each task, by name."""
    main = parse_module(text).main
    return [" ".join(node.name for node in task.nodes) for task in tasks_of(main)]


def test_an_anchor_keeps_arithmetic_that_follows_it() -> None:
    assert tasks("""\
const @w : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
func @main(%x: f32[2, 2]) {
  %a = matmul(%x, @w) : f32[2, 2]
  %gate = sigmoid(%a) : f32[2, 2]
  %swish = mul(%a, %gate) : f32[2, 2]
  %b = matmul(%swish, @w) : f32[2, 2]
  %y = relu(%b) : f32[2, 2]
  return %y
}
""") == ["a gate swish", "b y"]


def test_a_sum_stays_with_the_later_of_two_anchors() -> None:
    assert tasks("""\
const @w : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
func @main(%x: f32[2, 2]) {
  %a = matmul(%x, @w) : f32[2, 2]
  %b = matmul(%x, @w) : f32[2, 2]
  %sum = add(%a, %b) : f32[2, 2]
  return %sum
}
""") == ["a", "b sum"]


def test_what_is_read_in_several_places_is_not_joined_to_one_of_them() -> None:
    assert tasks("""\
const @w : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
func @main(%x: f32[2, 2]) {
  %a = matmul(%x, @w) : f32[2, 2]
  %b = matmul(%a, @w) : f32[2, 2]
  %sum = add(%a, %b) : f32[2, 2]
  return %sum
}
""") == ["a", "b sum"]


def test_movements_join_the_only_reader() -> None:
    assert tasks("""\
const @w : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
func @main(%x: f32[4]) {
  %square = reshape(%x) {shape = (2, 2)} : f32[2, 2]
  %a = matmul(%square, @w) : f32[2, 2]
  return %a
}
""") == ["square a"]


def test_what_touches_a_state_is_one_task_with_all_between() -> None:
    assert tasks("""\
const @w : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
state @s : f32[2, 2]
func @main(%x: f32[2, 2]) {
  %a = matmul(%x, @w) : f32[2, 2]
  %b = matmul(@s, @w) : f32[2, 2]
  %c = matmul(%b, @w) : f32[2, 2]
  %d = matmul(%c, %a) : f32[2, 2]
  %e = matmul(%d, @w) : f32[2, 2]
  store %d to @s
  return %e
}
""") == ["a", "b c d", "e"]


def test_what_depends_on_the_fill_level_of_a_state_comes_with_it() -> None:
    parts = [
        f"""
  %over{i} = overwrite(@past{i}, %x) {{starts = (past, 0)}} : f32[16, 4]
  %rows{i} = slice(%over{i}) {{starts = (0, 0), extents = (past + 1, 4), steps = (1, 1)}} \
: f32[past + 1, 4]
  %sum{i} = matmul(%count, %rows{i}) : f32[1, 4]""".replace("\\\n", "")
        for i in range(2)
    ]
    main = parse_module(f"""\
dim past : 0..15
state @past0 : f32[16, 4] filled 0 from past to past + 1
state @past1 : f32[16, 4] filled 0 from past to past + 1
func @main(%x: f32[1, 4]) {{
  %count = iota() {{shape = (1, past + 1), axis = 1, dtype = f32}} : f32[1, past + 1]
{"".join(parts)}
  store %over0 to @past0
  store %over1 to @past1
  return %sum0, %sum1
}}
""").main
    found = tasks_of(main)
    assert [" ".join(node.name for node in task.nodes) for task in found] == [
        "count over0 rows0",
        "sum0",
        "over1 rows1 sum1",
    ]
    extract(main.module, [task.nodes for task in found])


def test_nodes_of_different_kinds_are_different_tasks() -> None:
    main = parse_module("""\
func @main(%x: f32[2]) {
  %a = relu(%x) : f32[2]
  %b = neg(%a) : f32[2]
  %c = abs(%b) : f32[2]
  return %c
}
""").main
    found = tasks_of(main, kind=lambda node: node.name == "c")
    assert [[node.name for node in task.nodes] for task in found] == [["a", "b"], ["c"]]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(functions_of_floats(most_steps=16))
def test_tasks_can_be_computed_one_after_the_other(function: Function) -> None:
    groups = [task.nodes for task in tasks_of(function)]
    extract(function.module, groups)  # which checks their order


def blocks(number: int) -> Function:
    """Two products, a rectifier and a sum for each block."""
    main = Function("main")
    b = Builder(main)
    value = main.input("x", TensorType(f32, (2, 2)))
    weight = b.constant(np.ones((2, 2), np.float32))
    for _ in range(number):
        hidden = b.emit(Relu(), b.emit(MatMul(), value, weight))
        value = b.emit(Add(), value, b.emit(MatMul(), hidden, weight))
    main.output("y", value)
    return main


def test_the_time_for_thousands_of_nodes_is_linear() -> None:
    assert len(tasks_of(blocks(500))) == 1000
    assert is_linear(lambda number: partial(tasks_of, blocks(number)), 500)
