"""Which nodes of the model the nodes that rewrites emit compute."""

from __future__ import annotations

from afterglow.graph import Function, parse_function, print_function
from afterglow.passes import Pass, RewritePass
from afterglow.transforms.arithmetic import ARITHMETIC
from afterglow.transforms.merge_equal import MergeEqualNodes
from afterglow.transforms.recognise_softmax import RECOGNISE_SOFTMAX
from afterglow.transforms.transposes import compose_transposes


def origins(text: str, owner: Pass) -> dict[str, tuple[str, ...]]:
    """The origins of each node after a pass, by its name."""
    function = parse_function(text)
    owner.run(function)
    return {node.name: node.origins for node in function.nodes}


def test_a_node_that_replaces_several_has_all_their_origins() -> None:
    text = """
        func @main(%x: f32[2, 3, 4]) {
          %a = transpose(%x) {perm = (1, 2, 0)} : f32[3, 4, 2] from "first"
          %b = transpose(%a) {perm = (0, 2, 1)} : f32[3, 2, 4] from "second"
          return %b
        }
    """
    pass_ = RewritePass("compose", [compose_transposes])
    assert origins(text, pass_) == {"b": ("first", "second")}


def test_a_node_that_is_still_computed_is_not_part_of_another() -> None:
    text = """
        func @main(%x: f32[2, 3, 4]) {
          %a = transpose(%x) {perm = (1, 2, 0)} : f32[3, 4, 2] from "first"
          %b = transpose(%a) {perm = (0, 2, 1)} : f32[3, 2, 4] from "second"
          return %a, %b
        }
    """
    pass_ = RewritePass("compose", [compose_transposes])
    assert origins(text, pass_) == {"a": ("first",), "b": ("second",)}


def test_a_recognised_op_has_the_origins_of_the_whole_pattern() -> None:
    text = """
        func @main(%x: f32[2, 3]) {
          %e = exp(%x) : f32[2, 3] from "exp"
          %s = reduce_sum(%e) {axes = (1,), keepdims = true} : f32[2, 1] from "sum"
          %y = div(%e, %s) : f32[2, 3] from "div"
          return %y
        }
    """
    assert {*origins(text, RECOGNISE_SOFTMAX)["y"]} == {"exp", "sum", "div"}


def test_merged_nodes_have_the_origins_of_both() -> None:
    text = """
        func @main(%x: f32[2]) {
          %a = exp(%x) : f32[2] from "one"
          %b = exp(%x) : f32[2] from "two"
          %y = add(%a, %b) : f32[2] from "sum"
          return %y
        }
    """
    assert origins(text, MergeEqualNodes()) == {"a": ("one", "two"), "y": ("sum",)}


def test_a_removed_node_leaves_the_origins_of_others_alone() -> None:
    text = """
        func @main(%x: f32[2]) {
          %a = exp(%x) : f32[2] from "one"
          %b = neg(%a) : f32[2] from "two"
          %y = neg(%b) : f32[2] from "three"
          return %y
        }
    """
    assert origins(text, ARITHMETIC)["a"] == ("one",)


def test_several_origins_are_printed_and_parsed() -> None:
    text = 'func @main(%x: f32[2]) {\n  %y = exp(%x) : f32[2] from "a, b", "c"\n  return %y\n}'
    function: Function = parse_function(text)
    assert next(function.nodes).origins == ("a, b", "c")
    assert print_function(function, origins=True) == text
