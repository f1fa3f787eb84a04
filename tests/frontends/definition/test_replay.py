"""What the host interprets is imported once, and replayed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser
from onnxruntime import InferenceSession

import afterglow
from afterglow.frontends.definition import replay
from afterglow.frontends.definition.graph import GraphImporter
from afterglow.runtime import tier_up
from afterglow.support.errors import AfterglowError

X = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)

GROWING = """
    <ir_version: 10, opset_import: ["": 17]>
    main (float[3, 4] x, int64 most) => (float[n, 4] y, float[m] sums)
        <int64[1] zero = {0}, int64[1] one = {1}, float bound = {1000}> {
        y, sums = Loop (most, , x) <body = b (int64 i, bool c, float[k, 4] grown)
            => (bool on, float[k, 4] more, float sum) {
            i1 = Unsqueeze (i, zero)
            j1 = Add (i1, one)
            row = Slice (grown, i1, j1, zero)
            positive = Relu (row)
            places = Unique (positive)
            count = Shape (places)
            sum = ReduceSum <keepdims = 0> (grown)
            is_small = Less (sum, bound)
            next = If (is_small) <
                then_branch = t () => (float[1, 4] u) { u = Sin (row) },
                else_branch = e () => (float[1, 4] v) { v = Neg (row) }
            >
            more = Concat <axis = 0> (grown, next)
            on = Identity (is_small)
        }>
    }
"""


@pytest.fixture(autouse=True)
def never_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier_up, "EARLY_THRESHOLD", 10**9)
    monkeypatch.setattr(tier_up, "LATER_THRESHOLD", 10**9)


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ops of the nodes that are imported from now on."""
    seen: list[str] = []
    original = GraphImporter._add_node

    def add_node(self: GraphImporter, proto: onnx.NodeProto) -> None:
        seen.append(proto.op_type)
        original(self, proto)

    monkeypatch.setattr(GraphImporter, "_add_node", add_node)
    return seen


def test_nodes_of_a_body_are_not_imported_again(imported: list[str]) -> None:
    proto = parser.parse_model(GROWING)
    compiled = afterglow.compile(proto, cache=False)
    session = InferenceSession(proto.SerializeToString())
    feed = {"x": X, "most": np.array(9)}
    want = session.run(None, feed)
    for times in range(3):
        imported.clear()
        for got, expected in zip(compiled.run(None, feed), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)
        if times:
            assert not imported


def test_operands_that_decide_shapes_are_told_apart_by_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay, "MOST_TAPES", 2)
    proto = parser.parse_model(GROWING)
    compiled = afterglow.compile(proto, cache=False)
    session = InferenceSession(proto.SerializeToString())
    for most in (5, 0, 7, 5):
        feed = {"x": X + most, "most": np.array(most)}
        for got, want in zip(compiled.run(None, feed), session.run(None, feed), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_fails_while_it_is_replayed_is_an_error_of_ours() -> None:
    text = GROWING.replace("row = Slice (grown, i1, j1, zero)", "row = Gather (grown, where)")
    text = text.replace("int64 most)", "int64 most, int64[1] where)")
    compiled = afterglow.compile(parser.parse_model(text), cache=False)
    feed = {"x": X, "most": np.array(3), "where": np.array([1])}
    compiled.run(None, feed)
    with pytest.raises(AfterglowError):
        compiled.run(None, {**feed, "where": np.array([99])})
