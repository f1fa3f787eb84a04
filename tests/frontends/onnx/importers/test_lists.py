"""Sequences that loops append to are rows of tensors, and the loops are ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import parser
from onnxruntime import InferenceSession

import afterglow
from afterglow.driver import bodies
from afterglow.types import Array

HEADER = '<ir_version: 8, opset_import: ["": 17]>\n'

LOOP = """
    main (float[n, 4] x, float bound) => (RESULT) <int64 zero = {0}, int64[1] axes = {0}> {
        true = Constant <value = bool {1}> ()
        BEFORE
        shape = Shape (x)
        n = Gather (shape, zero)
        all = Loop (n, true, none) <body = body
            (int64 i, bool on, seq(float[k, 4]) s) => (bool goes_on, seq(float[k, 4]) s_out) {
            row = Gather <axis = 0> (x, i)
            part = Unsqueeze (row, axes)
            t = Tanh (part)
            sum = ReduceSum <keepdims = 0> (row)
            CONDITION
            APPEND
        }>
        BEHIND
    }
"""

ONWARD = "goes_on = Identity (on)"
UNTIL = "goes_on = Less (sum, bound)"
EMPTY = "none = SequenceEmpty <dtype = 1> ()"
SIMPLE = "s_out = SequenceInsert (s, t)"
BRANCH = """
    is_kept = Less (sum, bound)
    s_out = If (is_kept) <
        then_branch = yes () => (seq(float[k, 4]) a) { THEN },
        else_branch = no () => (seq(float[k, 4]) b) { ELSE }>
"""
ONE = "a = SequenceInsert (s, t)"
TWO = "u = Exp (t) s1 = SequenceInsert (s, u) a = SequenceInsert (s1, t)"
NONE = "b = Identity (s)"
OTHER = "v = Neg (t) b = SequenceInsert (s, v)"
INNER = """
    two = Constant <value = int64 {2}> ()
    three = Constant <value = int64 {3}> ()
    s_out = Loop (three, true, s) <body = inner
        (int64 j, bool c, seq(float[k, 4]) r) => (bool d, seq(float[k, 4]) r_out) {
        f = Cast <to = 1> (j)
        w = Add (t, f)
        most = ReduceMax <keepdims = 0> (w)
        d = Less (most, bound)
        r_out = SequenceInsert (r, w)
    }>
"""
BEFORE = "s_out = SequenceInsert (s, t, zero)"
BEFORE_TWO = "u = Exp (t) s1 = SequenceInsert (s, u, zero) a = SequenceInsert (s1, t, zero)"
BEFORE_ONE = "v = Neg (t) b = SequenceInsert (s, v, zero)"
JOIN = "y = ConcatFromSequence <axis = 0> (all)"


def branch(then: str, other: str) -> str:
    return BRANCH.replace("THEN", then).replace("ELSE", other)


def model(
    append: str = SIMPLE,
    *,
    condition: str = ONWARD,
    before: str = EMPTY,
    behind: str = JOIN,
    result: str = "float[m, 4] y",
) -> bytes:
    parts = {"BEFORE": before, "CONDITION": condition, "APPEND": append, "BEHIND": behind}
    text = LOOP.replace("RESULT", result)
    for name, part in parts.items():
        text = text.replace(name, part)
    return bytes(parser.parse_model(HEADER + text).SerializeToString())


def feeds(lengths: Sequence[int] = (12, 12, 5)) -> list[dict[str, Array]]:
    random = np.random.default_rng(0)
    bounds = (-0.5, 0.6, 100.0)
    return [
        {
            "x": random.standard_normal((length, 4)).astype(np.float32),
            "bound": np.array(bound, np.float32),
        }
        for length, bound in zip(lengths, bounds, strict=False)
    ]


def check(proto: bytes, given: Sequence[Mapping[str, Array]], **options: object) -> None:
    session = InferenceSession(proto)
    compiled = afterglow.compile(proto, cache=False, **options)  # type: ignore[arg-type]
    for feed in given:
        for got, wanted in zip(compiled.run(None, feed), session.run(None, feed), strict=True):
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.fixture
def no_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is driven by the host."""

    def fail(*_: object) -> None:
        raise AssertionError("the host drives a body")

    monkeypatch.setattr(bodies.Bodies, "run", fail)


@pytest.mark.parametrize("condition", [ONWARD, UNTIL], ids=["all", "until"])
@pytest.mark.parametrize(
    "append",
    [
        *(SIMPLE, branch(ONE, OTHER), branch(TWO, OTHER), branch(TWO, NONE), INNER),
        *(BEFORE, branch(BEFORE_TWO, BEFORE_ONE), INNER.replace("(r, w)", "(r, w, zero)")),
    ],
    ids=[
        *("simple", "both", "uneven", "some", "nested"),
        *("before", "before uneven", "before nested"),
    ],
)
def test_loops_append_to_lists_in_machine_code(
    append: str, condition: str, no_bodies: None
) -> None:
    given = feeds() if append != branch(TWO, NONE) else feeds()[2:]  # ONNX joins no empty sequence
    check(model(append, condition=condition), given)


@pytest.mark.parametrize(
    ("behind", "result"),
    [
        ("y = ConcatFromSequence <axis = 1> (all)", "float[1, m] y"),
        ("y = ConcatFromSequence <axis = 0, new_axis = 1> (all)", "float[m, 1, 4] y"),
        ("y = ConcatFromSequence <axis = 2, new_axis = 1> (all)", "float[1, 4, m] y"),
        ("y = ConcatFromSequence <axis = -2, new_axis = 1> (all)", "float[1, m, 4] y"),
        ("y = SequenceLength (all)", "int64 y"),
        ("three = Constant <value = int64 {3}> () y = SequenceAt (all, three)", "float[1, 4] y"),
        ("less = SequenceErase (all) y = ConcatFromSequence <axis = 0> (less)", "float[m, 4] y"),
        ("more = SequenceInsert (all, x) y = SequenceLength (more)", "int64 y"),
    ],
)
@pytest.mark.parametrize("append", [SIMPLE, branch(TWO, OTHER)], ids=["simple", "uneven"])
def test_what_reads_a_list(append: str, behind: str, result: str) -> None:
    check(model(append, behind=behind, result=result), feeds())


@pytest.mark.parametrize("condition", [ONWARD, UNTIL], ids=["all", "until"])
def test_lists_of_any_length_are_measured(condition: str, no_bodies: None) -> None:
    behind, append = "y = SequenceLength (all)", branch(TWO, NONE)
    check(model(append, condition=condition, behind=behind, result="int64 y"), feeds())


def test_a_list_may_begin_with_elements(no_bodies: None) -> None:
    before = """
        one = Constant <value = int64[1] {1}> ()
        e1 = Slice (x, axes, one)
        e2 = Neg (e1)
        none = SequenceConstruct (e1, e2)
    """
    check(model(before=before), feeds())
    check(model(branch(ONE, NONE), before=before), feeds())


@pytest.mark.parametrize(
    "append",
    [
        "s_out = SequenceInsert (s, x)",
        "k = SequenceLength (s) f = Cast <to = 1> (k) g = Add (t, f) s_out = SequenceInsert (s, g)",
        "s1 = SequenceInsert (s, t, zero) s_out = SequenceInsert (s1, t)",
        branch(ONE, BEFORE_ONE),
        branch(ONE, "b = SequenceInsert (s, x)"),
    ],
    ids=["longer", "read", "both ends", "either end", "mixed"],
)
def test_other_lists_are_as_before(append: str) -> None:
    check(model(append), feeds((3, 3, 2)))


def test_one_program_serves_all_lengths(no_bodies: None) -> None:
    given = feeds((300, 200, 7))
    check(model(), given, dims={"n": (1, 300)})
    check(model(branch(TWO, OTHER)), given, dims={"n": (1, 300)})


def test_a_loop_that_does_not_run_appends_nothing(no_bodies: None) -> None:
    proto = model(behind="y = SequenceLength (all)", result="int64 y")
    given = {"x": np.zeros((0, 4), np.float32), "bound": np.array(1, np.float32)}
    check(proto, [given, *feeds()])


def test_a_list_that_a_model_returns_is_a_sequence() -> None:
    proto = model(behind="", result="seq(float[1, 4]) all")
    compiled = afterglow.compile(proto, cache=False)
    for feed in feeds():
        (got,) = compiled.run(None, feed)
        (wanted,) = InferenceSession(proto).run(None, feed)
        np.testing.assert_allclose(np.array(got), np.array(wanted), atol=1e-5)


def test_saved_models_append_to_lists(tmp_path: Path, no_bodies: None) -> None:
    proto = model(branch(TWO, OTHER))
    compiled = afterglow.compile(proto, cache=False, dims={"n": 12})
    wanted = [compiled.run(None, feed)[0] for feed in feeds((12, 12))]
    compiled.save(tmp_path / "lists.agc")
    loaded = afterglow.load(tmp_path / "lists.agc")
    for feed, want in zip(feeds((12, 12)), wanted, strict=True):
        np.testing.assert_array_equal(loaded.run(None, feed)[0], want)
