"""Loops that end when they like, and stack what each iteration returns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser
from onnxruntime import InferenceSession

import afterglow
from afterglow.driver import bodies
from afterglow.frontends.common import control
from afterglow.frontends.onnx.rows import with_rows
from afterglow.runtime.model import CompiledModel
from afterglow.support.errors import ModelError
from afterglow.types import Array

X = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
HEADER = '<ir_version: 10, opset_import: ["": 17, "local": 1]>\n'

DECODER = """
    main (float[4, 4] w, int64 first, int64 stop) => (int64[n] tokens, float[n, 4] states, OUT)
        <int64[1] zero = {0}, int64 two = {2}, float[4] h0 = {0.1, 0.2, 0.3, 0.4},
         float[4, 4] table = {1, -1, 2, 0, 3, 1, -2, 2, 0, 1, 1, -3, 2, 2, -1, 1}> {
        most = Constant <value = int64 {LIMIT}> ()
        last, h, tokens, states = Loop (most, , first, h0) <body = b
            (int64 i, bool c, int64 token, float[4] before)
            => (bool on, int64 next, float[4] after, int64 out, float[4] state) {
            e = Gather <axis = 0> (table, token)
            m = MatMul (before, w)
            s = Add (e, m)
            after = Tanh (s)
            odd = Mod (i, two)
            is_odd = Cast <to = 9> (odd)
            scores = If (is_odd) <
                then_branch = t () => (float[4] u) { u = Neg (after) },
                else_branch = f () => (float[4] v) { v = MatMul (table, after) }
            >
            next = ArgMax <axis = 0, keepdims = 0> (scores)
            out = Identity (next)
            state = Identity (scores)
            ended = Equal (next, stop)
            on = Not (ended)
        }>
        REST
    }
"""


def decoder(limit: int = 9, *, rest: str = "y = Identity (h)", out: str = "float[4] y") -> str:
    text = DECODER.replace("LIMIT", str(limit)).replace("REST", rest)
    return HEADER + text.replace("OUT", out)


def feed(first: int, stop: int) -> dict[str, Array]:
    w = np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32)
    return {"w": w, "first": np.array(first), "stop": np.array(stop)}


FEEDS = [feed(first, stop) for first in range(4) for stop in range(5)]


def check(text: str, *feeds: Mapping[str, Array]) -> CompiledModel:
    proto = parser.parse_model(text)
    compiled = afterglow.compile(proto, cache=False)
    session = InferenceSession(proto.SerializeToString())
    for given in feeds:
        for got, want in zip(compiled.run(None, given), session.run(None, given), strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return compiled


@pytest.fixture
def no_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """No body may be driven by the host."""
    monkeypatch.setattr(bodies.Bodies, "run", None)


def test_the_whole_loop_is_compiled(no_bodies: None) -> None:
    assert len(check(decoder(), *FEEDS).versions()) == 1


@pytest.mark.parametrize("limit", [0, 1])
def test_loops_that_hardly_run(no_bodies: None, limit: int) -> None:
    check(decoder(limit), *FEEDS[:3])


def test_what_follows_is_compiled_for_the_number_of_rows(no_bodies: None) -> None:
    rest = "r = Exp (states)  y = ReduceMax <axes = [0], keepdims = 0> (r)"
    check(decoder(rest=rest), *FEEDS)


def test_what_reads_one_output_alone(no_bodies: None) -> None:
    text = decoder().replace("int64[n] tokens, float[n, 4] states, ", "")
    check(text, *FEEDS[:4])
    fewer = parser.parse_model(text.replace("h, tokens, states = Loop", "h, tokens = Loop"))
    got, want = (afterglow.compile(m, cache=False) for m in (fewer, parser.parse_model(text)))
    np.testing.assert_array_equal(got.run(None, FEEDS[0])[0], want.run(None, FEEDS[0])[0])


def test_a_loop_without_a_limit_is_driven() -> None:
    text = (
        decoder()
        .replace("Loop (most,", "Loop (,")
        .replace(
            "on = Not (ended)",
            "six = Constant <value = int64 {6}> ()  go = Less (i, six)"
            "  not = Not (ended)  on = And (go, not)",
        )
    )
    check(text, *FEEDS[:3])


def test_more_rows_than_there_is_memory_for_are_driven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MOST_ROW_BYTES", 16)
    check(decoder(), *FEEDS[:6])


def test_a_loop_in_a_body_that_is_driven() -> None:
    text = f"""{HEADER}
        main (float[3, 4] x) => (float[n, 4] y) {{
            most = Constant <value = int64 {{3}}> ()
            y = Loop (most, , x) <body = outer (int64 i, bool c, float[k, 4] a)
                => (bool on, float[p, 4] b) {{
                five = Constant <value = int64 {{5}}> ()
                row = ReduceMax <keepdims = 0, axes = [0]> (a)
                end, rows = Loop (five, , row) <body = inner (int64 j, bool d, float[4] u)
                    => (bool go, float[4] v, float[4] w) {{
                    v = Sin (u)
                    w = Identity (v)
                    most_of = ReduceMax <keepdims = 0> (v)
                    bound = Constant <value = float {{0.83}}> ()
                    go = Less (most_of, bound)
                }}>
                b = Concat <axis = 0> (a, rows)
                s = ReduceSum <keepdims = 0> (b)
                large = Constant <value = float {{1000}}> ()
                on = Less (s, large)
            }}>
        }}
    """
    check(text, {"x": X}, {"x": X * 3}, {"x": -X})


def test_saved_models_have_the_whole_loop(tmp_path: Path, no_bodies: None) -> None:
    text = decoder(rest="y = Exp (states)", out="float[n, 4] y")
    compiled = check(text, *FEEDS[:3])
    compiled.save(tmp_path / "model.agc")
    loaded = afterglow.load(tmp_path / "model.agc")
    for given in FEEDS[:6]:
        for got, want in zip(loaded.run(None, given), compiled.run(None, given), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_the_model_of_a_caller_stays_as_it_is() -> None:
    proto = parser.parse_model(decoder())
    before = proto.SerializeToString(deterministic=True)
    changed = with_rows(proto)
    assert proto.SerializeToString(deterministic=True) == before
    assert len(changed.graph.node) == len(proto.graph.node) + 3
    assert with_rows(changed) is changed


def test_loops_that_only_their_limit_ends_stay_as_they_are() -> None:
    text = decoder().replace("on = Not (ended)", "on = Identity (c)")
    proto: onnx.ModelProto = parser.parse_model(text)
    assert with_rows(proto) is proto


def test_conditions_that_form_a_cycle_are_looked_at_once() -> None:
    text = decoder().replace("on = Not (ended)", "on = Identity (on2)  on2 = Identity (on)")
    with pytest.raises(ModelError, match="nodes form a cycle: 'on2' -> 'on' -> 'on2'"):
        afterglow.compile(parser.parse_model(text), cache=False)
