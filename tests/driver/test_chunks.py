"""Iterations of loops that the host drives, compiled many at once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import parser
from onnxruntime import InferenceSession

import afterglow
from afterglow.frontends.definition import host_loops

FRAMES = """
    <ir_version: 10, opset_import: ["": 17]>
    main (float[n, 4] x, float bound) => (float[m, 1] y)
        <int64[1] one = {1}, int64[1] zero = {0}, int64[1] wide = {WIDE}, int64 two = {2},
         int64[2] none = {0, 1}, int64[2] row_shape = {1, 1}> {
        true = Constant <value = bool {1}> ()
        frames = Shape <end = 1> (x)
        empty = ConstantOfShape (none)
        y, last = Loop (, true, empty, zero) <body = b
            (int64 i, bool on, float[a, 1] past, int64[1] t)
            => (bool goes, float[c, 1] next, int64[1] t_next) {
            end = Add (t, wide)
            window = Slice (x, t, end, zero)
            sum = ReduceSum <keepdims = 0> (window)
            row = Reshape (sum, row_shape)
            is_large = Less (bound, sum)
            rest = Mod (i, two)
            is_odd = Cast <to = 9> (rest)
            stays = And (is_large, is_odd)
            next, t_next = If (stays) <
                then_branch = yes () => (float[d, 1] longer, int64[1] same) {
                    longer = Concat <axis = 0> (past, row)
                    same = Identity (t)
                }, else_branch = no () => (float[e, 1] as_before, int64[1] later) {
                    as_before = Identity (past)
                    later = Add (t, one)
                }>
            left = Less (t_next, frames)
            goes = Squeeze (left)
        }>
    }
"""
"""The sums of windows that are large; a window moves in some iterations only."""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a body ran on the host, by the name of its graph."""
    found: Counter[str] = Counter()
    run = host_loops.HostBody.run

    def counted(body: host_loops.HostBody, inputs: list[object]) -> object:
        found[body.graph.graph.name] += 1
        return run(body, inputs)

    monkeypatch.setattr(host_loops.HostBody, "run", counted)
    return found


def check(width: int) -> None:
    """Windows of some frames in each of a few calls, as ONNX Runtime sums them."""
    proto: onnx.ModelProto = parser.parse_model(FRAMES.replace("WIDE", str(width)))
    session = InferenceSession(proto.SerializeToString())
    compiled = afterglow.compile(proto, cache=False)
    random = np.random.default_rng(4)
    for _ in range(4):
        x = random.standard_normal((20, 4)).astype(np.float32)
        feed = {"x": x, "bound": np.array(0.1, np.float32)}
        (wanted,), (got,) = session.run(None, feed), compiled.run(None, feed)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_windows_that_move_by_what_data_tell_are_checked_when_they_run(
    runs: Counter[str],
) -> None:
    check(width=1)
    assert runs["b"] == 6  # those observed in the first call
    assert runs["b.chunk"] == 4


def test_iterations_run_one_by_one_once_a_window_ends_outside(runs: Counter[str]) -> None:
    check(width=3)
    assert runs["b"] > 80
    assert runs["b.chunk"] == 1
