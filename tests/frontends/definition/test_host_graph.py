"""Definitions as graph IR of host nodes: nothing is lost either way."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import afterglow
from afterglow.driver.sources import open_source
from afterglow.frontends.definition.host_graph import graph_of, model_of
from afterglow.frontends.definition.model import GraphDef
from afterglow.frontends.onnx import read_model
from afterglow.frontends.onnx.registry import ONNX
from afterglow.graph import Builder, Module, parse_module, print_module, verify_module
from afterglow.graph.payload import pack_constants, unpack_constants
from afterglow.ops.activation import Relu
from afterglow.support.errors import UsageError
from tests.frontends.models import INT64, info, model, node

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def parsed(text: str, more: str = "") -> onnx.ModelProto:
    opsets = '"" : 17, "own" : 1'
    return parser.parse_model(f"<ir_version: 8, opset_import: [{opsets}]>\n{text}\n{more}")


LOOP = parsed(
    """
    main (float[3, 4] x, float bound) => (float[n, 4] y) {
        most = Constant <value = int64 {5}> ()
        y = Loop (most, , x) <body = b (int64 i, bool c, float[k, 4] a)
            => (bool on, float[m, 4] b) {
            half = Constant <value = float {0.5}> ()
            s = Mul (a, half)
            both = Concat <axis = 0> (s, x)
            t = ReduceSum <keepdims = 0> (both)
            on = Less (t, bound)
            b = If (on) <then_branch = p () => (float[m, 4] q) { q = Neg (both) },
                         else_branch = r () => (float[m, 4] u) { u = Identity (s) }>
        }>
    }
    """
)
FUNCTION = parsed(
    "main (float[3, 4] x) => (float[n] y) { z = own.twice <k = 3.0> (x)\n y = own.positive (z) }",
    """
    <opset_import: ["" : 17], domain: "own">
    twice <k> (a) => (b) { c = Constant <value_float: float = @k> ()\n b = Mul (a, c) }
    <opset_import: ["" : 17], domain: "own">
    positive (a) => (b) {
        zero = Constant <value = float {0}> ()
        c = Greater (a, zero)
        b = Compress (a, d)
        shape = Constant <value_ints = [-1]> ()
        d = Reshape (c, shape)
    }
    """,
)
PARTS = model(
    [node("TopK", ["x", "k"], ["", "places"], axis=1), node("Clip", ["x", "", "top"], ["y"])],
    inputs=[info("x", (3, 4)), info("k", (1,), INT64)],
    outputs=[info("places", (3, "k"), INT64), info("y", (3, 4))],
    constants={"top": np.array(0.5, np.float32)},
)
CASES = pytest.mark.parametrize("proto", [LOOP, FUNCTION, PARTS], ids=["loop", "function", "parts"])


def restored(proto: onnx.ModelProto) -> Module:
    """The graph of a model, from text and bytes."""
    graph = open_source(proto).graph
    verify_module(graph)
    weights = pack_constants(graph.constants.values())
    return parse_module(print_module(graph, origins=True), unpack_constants(weights))


def outline(graph: GraphDef) -> list[object]:
    return [
        (n.op_type, n.domain, n.name, n.input, n.output, sorted(n.attributes)) for n in graph.node
    ] + [outline(inner) for n in graph.node for inner in n.graphs()]


@CASES
def test_the_definition_comes_back(proto: onnx.ModelProto) -> None:
    before, after = read_model(proto).definition, model_of(restored(proto), ONNX)
    if not before.functions:  # whose nodes may stand in any order
        assert outline(after.graph) == outline(before.graph)
    assert [each.name for each in after.graph.input] == [e.name for e in before.graph.input]
    assert [each.name for each in after.graph.output] == [e.name for e in before.graph.output]
    again = print_module(graph_of(after), origins=True)
    assert again == print_module(graph_of(model_of(parse_module(again), ONNX)), origins=True)


@CASES
def test_what_is_restored_computes_the_same(proto: onnx.ModelProto) -> None:
    feeds = {"x": X, "bound": np.array(9, np.float32), "k": np.array([2])}
    feed = {each.name: feeds[each.name] for each in proto.graph.input}
    wanted = afterglow.compile(proto, cache=False).run(None, feed)
    again = afterglow.compile(restored(proto), cache=False)
    for got, want in zip(again.run(None, feed), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_values_have_the_types_that_the_standard_infers() -> None:
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        node("SequenceConstruct", ["rows"], ["all"]),
        node("SequenceAt", ["all", "first"], ["y"]),
    ]
    proto = model(
        nodes,
        inputs=[info("x", ("batch", 4))],
        outputs=[info("y", ("n", 2), INT64)],
        constants={"first": np.array(0)},
    )
    main = open_source(proto).graph.main
    types = {value.name: str(value.type) for n in main.nodes for value in n.results}
    assert str(main.inputs[0].type) == "f32[batch, 4]"
    assert types == {
        "places": "i64[2, ?]",
        "rows": "i64[?, 2]",
        "all": "sequence",
        "y": "i64[n, 2]",
    }


def test_a_branch_that_reads_what_nothing_defines_keeps_its_name() -> None:
    branch = helper.make_graph([node("Neg", ["lost"], ["z"])], "b", [], [info("z", (3, 4))])
    other = helper.make_graph([node("Abs", ["x"], ["z"])], "c", [], [info("z", (3, 4))])
    choice = node("If", ["yes"], ["y"], then_branch=other, else_branch=branch)
    proto = model([choice], inputs=[info("x", (3, 4))], outputs=[info("y", (3, 4))])
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "yes"))
    graph = graph_of(read_model(proto).definition)
    branches = model_of(graph, ONNX).graph.node[0].graphs()
    assert sorted(n.input for branch in branches for n in branch.node) == [("lost",), ("x",)]


def test_other_nodes_cannot_stand_among_host_nodes() -> None:
    graph = open_source(model([node("Neg", ["x"], ["y"])])).graph.clone()
    Builder(graph.main).emit(Relu(), graph.main.inputs[0], name="z")
    with pytest.raises(UsageError) as caught:
        open_source(graph)
    assert str(caught.value) == (
        "error: %z (relu) stands among host nodes\n"
        "  help: give a module of host nodes alone, or one without any"
    )
