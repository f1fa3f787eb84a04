"""Subgraphs of a module as modules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import (
    Function,
    Module,
    Node,
    parse_module,
    print_module,
    run_function,
    verify_module,
)
from afterglow.graph.dims import dims_of_functions
from afterglow.partition.extract import PartModule, extract, output_values
from afterglow.runtime.extents import ExtentReader
from afterglow.support.errors import InternalError, UnsupportedError
from afterglow.testing.arrays import random_inputs
from afterglow.testing.graphs import functions_of_floats
from afterglow.types import Array


def groups_of(module: Module, *names: str) -> list[list[Node]]:
    """The nodes of each group, whose names are in one text."""
    by_name = {node.name: node for node in module.main.nodes}
    return [[by_name[name] for name in text.split()] for text in names]


def parts_of(text: str, *names: str) -> list[PartModule]:
    module = parse_module(text)
    parts = extract(module, groups_of(module, *names))
    for part in parts:
        verify_module(part.module)
    return parts


def texts(parts: Sequence[PartModule]) -> str:
    return "".join(print_module(part.module) for part in parts)


def run_parts(parts: Sequence[PartModule], values: dict[str, Array]) -> dict[str, Array]:
    """Run parts in order; each finds what it reads among what the ones before gave."""
    for part in parts:
        given = run_function(part.module.main, [values[name] for name in part.reads])
        values.update(zip(part.gives, given, strict=True))
    return values


CHAIN = """\
const @w : f32[2] = [1.0, 2.0]
func @main(%x: f32[2]) {
  %a = mul(%x, @w) : f32[2]
  %b = relu(%a) : f32[2]
  %c = add(%b, @w) : f32[2]
  return %b as "first", %c as "second"
}
"""


def test_each_part_takes_what_others_give_and_gives_what_others_need() -> None:
    parts = parts_of(CHAIN, "a b", "c")
    assert (
        texts(parts)
        == """\
const @w : f32[2] = [1.0, 2.0]
func @main(%x: f32[2]) {
  %a = mul(%x, @w) : f32[2]
  %b = relu(%a) : f32[2]
  return %b
}
const @w : f32[2] = [1.0, 2.0]
func @main(%b: f32[2]) {
  %c = add(%b, @w) : f32[2]
  return %c
}
"""
    )
    assert [(part.reads, part.gives) for part in parts] == [(("x",), ("b",)), (("b",), ("c",))]


def test_outputs_are_found_by_the_names_of_their_values() -> None:
    assert output_values(parse_module(CHAIN).main) == ["b", "c"]


def test_arrays_of_constants_are_shared() -> None:
    module = parse_module(CHAIN)
    parts = extract(module, groups_of(module, "a b", "c"))
    assert all(part.module.constants["w"].data is module.constants["w"].data for part in parts)


def test_a_state_belongs_to_the_part_that_reads_it() -> None:
    parts = parts_of(
        """\
state @s : f32[2]
func @main(%x: f32[2]) {
  %a = relu(%x) : f32[2]
  %b = add(%a, @s) : f32[2]
  %c = neg(%b) : f32[2]
  store %b to @s
  return %c
}
""",
        "a",
        "b",
        "c",
    )
    assert (
        print_module(parts[1].module)
        == """\
state @s : f32[2]
func @main(%a: f32[2]) {
  %b = add(%a, @s) : f32[2]
  store %b to @s
  return %b
}
"""
    )
    assert not parts[0].module.states
    assert not parts[2].module.states


def test_a_state_in_two_parts_is_refused() -> None:
    text = """\
state @s : f32[2]
func @main(%x: f32[2]) {
  %a = add(%x, @s) : f32[2]
  %b = mul(%a, @s) : f32[2]
  return %b
}
"""
    with pytest.raises(InternalError, match="two parts read the state @s"):
        parts_of(text, "a", "b")


def test_parts_out_of_order_are_refused() -> None:
    with pytest.raises(InternalError, match="a part reads %b of a later one"):
        parts_of(CHAIN, "c", "a b")


def test_bodies_of_control_flow_come_along_with_what_they_read() -> None:
    parts = parts_of(
        """\
const @w : f32[2] = [1.0, 2.0]
func @yes(%v: f32[2]) {
  %y = mul(%v, @w) : f32[2]
  return %y
}
func @no(%v: f32[2]) {
  %n = neg(%v) : f32[2]
  return %n
}
func @main(%flag: bool[], %x: f32[2]) {
  %a = relu(%x) : f32[2]
  %b = if(%flag, %a) {then_branch = @yes, else_branch = @no} : f32[2]
  return %b
}
""",
        "a",
        "b",
    )
    assert [*parts[0].module.functions] == ["main"]
    assert not parts[0].module.constants
    assert (
        print_module(parts[1].module)
        == """\
const @w : f32[2] = [1.0, 2.0]
func @yes(%v: f32[2]) {
  %y = mul(%v, @w) : f32[2]
  return %y
}
func @no(%v: f32[2]) {
  %n = neg(%v) : f32[2]
  return %n
}
func @main(%flag: bool[], %a: f32[2]) {
  %b = if(%flag, %a) {then_branch = @yes, else_branch = @no} : f32[2]
  return %b
}
"""
    )


def test_what_no_node_computes_is_returned_by_the_last_part() -> None:
    parts = parts_of(
        """\
const @w : f32[2] = [1.0, 2.0]
func @main(%x: f32[2]) {
  %a = relu(%x) : f32[2]
  %b = neg(%a) : f32[2]
  return %x as "same", @w as "fixed", %b
}
""",
        "a",
        "b",
    )
    assert parts[0].gives == ("a",)
    assert (parts[1].reads, parts[1].gives) == (("a", "x"), ("b", "%x", "@w"))


def test_a_dimension_that_inputs_do_not_tell_comes_with_a_value_that_does() -> None:
    parts = parts_of(
        """\
dim n : 1..8
func @main(%x: f32[n]) {
  %a = reduce_sum(%x) {axes = (0,), keepdims = false} : f32[]
  %b = expand(%a) {shape = (n,)} : f32[n]
  return %b
}
""",
        "a",
        "b",
    )
    assert parts[1].reads == ("a", "x")


def test_a_dimension_that_nothing_tells_is_an_error() -> None:
    text = """\
dim n : 1..8
dim m : 1..8
func @main(%x: f32[n * m]) {
  %a = reduce_sum(%x) {axes = (0,), keepdims = false} : f32[]
  %b = expand(%a) {shape = (n,)} : f32[n]
  return %b
}
"""
    with pytest.raises(UnsupportedError) as error:
        parts_of(text, "a", "b")
    assert (
        str(error.value)
        == """\
error: no input tells the extent of dimension 'm' to a part
  in the part from node 'a' on
  help: compile for one device, or give the dimension an extent: dims={NAME: EXTENT}"""
    )


QUICK = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def cut_anywhere(function: Function, data: st.DataObject) -> list[PartModule]:
    """The parts of a function that are cut at some of its nodes."""
    nodes = [*function.nodes]
    ends = sorted(data.draw(st.sets(st.integers(1, max(1, len(nodes) - 1)), max_size=3)))
    bounds = [0, *(end for end in ends if end < len(nodes)), len(nodes)]
    parts = extract(function.module, [nodes[first:last] for first, last in pairwise(bounds)])
    for part in parts:
        verify_module(part.module)
    return parts


def check_parts(function: Function, parts: Sequence[PartModule]) -> None:
    """Parts compute what the whole does."""
    inputs = random_inputs(function)
    given = dict(zip((value.name for value in function.inputs), inputs, strict=True))
    computed = run_parts(parts, given)
    for name, expected in zip(output_values(function), run_function(function, inputs), strict=True):
        np.testing.assert_array_equal(computed[name], expected)


@QUICK
@given(functions_of_floats(), st.data())
def test_parts_in_order_compute_what_the_whole_does(
    function: Function, data: st.DataObject
) -> None:
    check_parts(function, cut_anywhere(function, data))


@QUICK
@given(functions_of_floats(ranged=True), st.data())
def test_the_inputs_of_parts_tell_the_extents_of_a_run(
    function: Function, data: st.DataObject
) -> None:
    parts = cut_anywhere(function, data)
    extents = {dim.name: dim.high - 1 for dim in dims_of_functions([function])}
    for part in parts:
        main = part.module.main
        types = [value.type.shape for value in main.inputs]
        arrays = [np.empty(value.type.bind(extents).shape) for value in main.inputs]
        told = ExtentReader(part.reads, types).read(arrays, {})
        assert told == {dim.name: extents[dim.name] for dim in dims_of_functions([main])}
    bound = [PartModule(part.module.bind(extents)) for part in parts]
    check_parts(function.module.bind(extents).main, bound)
