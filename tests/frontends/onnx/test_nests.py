"""Loops, branches and scans in each other: how often bodies are imported, and what they compute."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import parser
from onnxruntime import InferenceSession, SessionOptions

import afterglow
from afterglow.frontends.definition.graph import GraphImporter
from afterglow.frontends.definition.model import GraphDef

HEAD = """
    <ir_version: 10, opset_import: ["": 17]>
    main (float[2] x0, float bound, int64 often) => (float[m] y)
        <int64 two = {2}, bool true = {1}, float[2] rows = {1.0, 2.0}, int64[1] axis = {0}> {
"""
UNROLLED = "in each iteration"
CONDITION = "s@1 = ReduceSum <keepdims = 0> (y@1) on@1 = Less (s@1, bound)"
LEVELS = {
    "loop": """
        y@0 = Loop (two, true, x@0) <body = body@0 (int64 i@0, bool c@0, float[a@0] x@1)
            => (bool on@1, float[b@0] y@1) { INNER CONDITION }>
    """,
    "growing": """
        y@0 = Loop (two, true, x@0) <body = body@0 (int64 i@0, bool c@0, float[a@0] x@1)
            => (bool on@1, float[b@0] z@1) { INNER CONDITION z@1 = Concat <axis = 0> (y@1, x0) }>
    """,
    UNROLLED: """
        y@0 = Loop (two, true, x@0) <body = body@0 (int64 i@0, bool c@0, float[a@0] x@1)
            => (bool on@1, float[b@0] z@1) {
            on@1 = Identity (c@0) INNER z@1 = Concat <axis = 0> (y@1, x0) }>
    """,
    "without a bound": """
        y@0 = Loop (often, true, x@0) <body = body@0 (int64 i@0, bool c@0, float[a@0] x@1)
            => (bool on@1, float[b@0] z@1) { INNER CONDITION z@1 = Concat <axis = 0> (y@1, x0) }>
    """,
    "stacking": """
        last@0, rows@0 = Loop (two, true, x@0) <body = body@0
            (int64 i@0, bool c@0, float[a@0] x@1)
            => (bool on@1, float[b@0] z@1, float[1] row@1) { INNER CONDITION
            z@1 = Identity (x@1) row@1 = ReduceSum <keepdims = 1> (y@1) }>
        flat@0 = Constant <value = int64[1] {-1}> ()
        y@0 = Reshape (rows@0, flat@0)
    """,
    "branch": """
        so@0 = ReduceSum <keepdims = 0> (x@0)
        is@0 = Less (so@0, bound)
        y@0 = If (is@0) <then_branch = body@0 () => (float[a@0] y@1) { x@1 = Identity (x@0)
            INNER }, else_branch = other@0 () => (float[b@0] e@0) { e@0 = Identity (x@0) }>
    """,
    "scan": """
        y@0 = Scan <num_scan_inputs = 1, body = body@0 (float[a@0] x@1, float row@0)
            => (float[b@0] z@1) { INNER t@1 = ReduceSum <keepdims = 0> (y@1)
            z@1 = Add (x@1, t@1) }> (x@0, rows)
    """,
}


def nest(kinds: tuple[str, ...], depth: int) -> onnx.ModelProto:
    """Bodies in bodies, of these kinds in turns."""
    text = f"y{depth} = Concat <axis = 0> (x{depth}, x0)"
    for level in reversed(range(depth)):
        around = LEVELS[kinds[level % len(kinds)]].replace("CONDITION", CONDITION)
        around = around.replace("@0", str(level)).replace("@1", str(level + 1))
        text = around.replace("INNER", text)
    return parser.parse_model(f"{HEAD} {text} y = Neg (y0) }}")


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each body was imported, by its name."""
    found: Counter[str] = Counter()
    add_graph = GraphImporter.add_graph

    def counted(self: GraphImporter, graph: GraphDef) -> None:
        found[graph.name] += 1
        add_graph(self, graph)

    monkeypatch.setattr(GraphImporter, "add_graph", counted)
    return found


NESTS = [
    ("loop",),
    ("growing",),
    (UNROLLED,),
    ("without a bound",),
    ("stacking",),
    ("branch",),
    ("scan",),
    ("growing", "branch"),
    ("growing", "scan"),
    ("branch", "growing", "scan"),
    ("loop", "branch", "stacking"),
    ("without a bound", "branch"),
    (UNROLLED, "without a bound", "scan"),
    ("growing", "growing", "branch", "stacking"),
]


@pytest.mark.parametrize("kinds", NESTS, ids=", ".join)
def test_nests_agree_with_onnxruntime(kinds: tuple[str, ...]) -> None:
    model = nest(kinds, 4)
    compiled = afterglow.compile(model, cache=False)
    quiet = SessionOptions()
    quiet.log_severity_level = 4
    session = InferenceSession(model.SerializeToString(), quiet)
    for bound in (-1, 5, 1000):
        feed = {
            "x0": np.array([1, 0.5], np.float32),
            "bound": np.array(bound, np.float32),
            "often": np.array(2),
        }
        (wanted,) = session.run(None, feed)
        (got,) = compiled.run(None, feed)
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize("kinds", [k for k in NESTS if UNROLLED not in k], ids=", ".join)
def test_bodies_are_imported_a_few_times_a_level(
    kinds: tuple[str, ...], imports: Counter[str]
) -> None:
    """A body is imported anew when one around it is: not twice as often with each level."""
    depth = 10
    afterglow.compile(nest(kinds, depth), cache=False)
    for level in range(depth):
        assert imports[f"body{level}"] <= 5 * (level + 2)


def test_unrolled_loops_in_each_other_end(imports: Counter[str]) -> None:
    """They double with each level until that is too much, and then the host drives them."""
    afterglow.compile(nest((UNROLLED,), 30), cache=False)
    assert imports.total() < 5000
