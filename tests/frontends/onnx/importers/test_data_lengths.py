"""Loops in whose bodies data tell how long values are: windows, stacks, masks, parts."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser
from onnxruntime import InferenceSession

import afterglow
from afterglow.driver import bodies
from afterglow.driver import compile as compiling
from afterglow.graph import Module
from afterglow.ops.control import Loop
from afterglow.runtime.compiled import CompiledFunction
from afterglow.types import Array
from afterglow.types.extent import UndecidedExtentError

ROWS = 8

LOOP = """
    <ir_version: 10, opset_import: ["": 17]>
    main (float[8, 3] x, int64[8] numbers, float[k] times) => (float[m, 3] y, float[r, 3] rows)
        <float zero = {0.0}, float one_half = {0.5},
         int64 none = {0}, int64 one = {1}, int64 two = {2}, int64[1] first = {0},
         int64[1] second = {1}, int64[1] last = {-1}, int64[1] three = {-3},
         int64[1] all = {9223372036854775807}> {
        true = Constant <value = bool {1}> ()
        shape = Shape (times)
        often = Gather (shape, none)
        start = Slice (x, first, START, first)
        y, rows = Loop (often, true, start) <body = body
            (int64 i, bool on, float[a, 3] past) => (bool goes_on, float[c, 3] next, float[3] row) {
            part = Gather (x, i)
            new = Unsqueeze (part, first)
            sum = ReduceSum <keepdims = 0> (part)
            wanted = Greater (sum, zero)
            number = Gather (numbers, i)
            BODY
        }>
    }
"""
GOES_ON = "goes_on = Identity (on)"
LENGTH = "lengths = Shape (next) length = Gather (lengths, none)"
SUM = "row = ReduceSum <keepdims = 0> (next, first)"
WINDOW = """
    more = Concat <axis = 0> (past, new)
    more_shape = Shape (more)
    long = Gather (more_shape, none)
    full = Greater (long, two)
    next = If (full) <
        then_branch = t () => (float[e, 3] s) { s = Slice (more, second, all, first) },
        else_branch = f () => (float[g, 3] same) { same = Identity (more) }
    >
"""
LAST = """
    more = Concat <axis = 0> (past, new)
    next = Slice (more, three, all, first)
"""
STACK = """
    past_shape = Shape (past)
    depth = Gather (past_shape, none)
    deep = Greater (depth, one)
    pops = And (wanted, deep)
    next = If (pops) <
        then_branch = t () => (float[e, 3] s) { s = Slice (past, first, last, first) },
        else_branch = f () => (float[g, 3] longer) { longer = Concat <axis = 0> (past, new) }
    >
"""
MERGE = """
    next = If (wanted) <
        then_branch = t () => (float[e, 3] s) {
            head = Slice (past, first, last, first)
            s = Concat <axis = 0> (head, new)
        }, else_branch = f () => (float[g, 3] longer) { longer = Concat <axis = 0> (past, new) }
    >
"""
MASK = """
    difference = Sub (past, new)
    size = ReduceSum <keepdims = 0> (difference, second)
    far = Greater (size, zero)
    next = Compress <axis = 0> (past, far)
"""
PLACES = """
    difference = Sub (past, new)
    size = ReduceSum <keepdims = 0> (difference, second)
    far = Greater (size, zero)
    found = NonZero (far)
    tuples = Transpose (found)
    next = GatherND (past, tuples)
"""
TWICE = (
    PLACES.replace("next =", "some =")
    + """
    sums = ReduceSum <keepdims = 0> (some, second)
    low = Less (sums, one_half)
    low_found = NonZero (low)
    low_tuples = Transpose (low_found)
    fewer = GatherND (some, low_tuples)
    next = Softmax <axis = 1> (fewer)
"""
)
CUT = """
    sums = ReduceSum <keepdims = 0> (past, second)
    place = ArgMin <axis = 0, keepdims = 0> (sums)
    cut = Unsqueeze (place, first)
    behind = Add (cut, second)
    head = Slice (past, first, cut, first)
    tail = Slice (past, behind, all, first)
    next = Concat <axis = 0> (head, tail)
"""
BODIES = {"window": WINDOW, "last": LAST, "stack": STACK, "merge": MERGE, "mask": MASK}
BODIES |= {"places": PLACES, "places twice": TWICE}

PART = """
    end = Unsqueeze (number, first)
    some = Slice (x, first, end, first)
    best = Softmax <axis = 0> (some)
    next = Identity (past)
    row = ReduceSum <keepdims = 0> (best, first)
"""
BETWEEN = """
    start_place = Unsqueeze (i, first)
    end = Unsqueeze (number, first)
    some = Slice (x, start_place, end, first)
    next = Identity (past)
    row = ReduceSum <keepdims = 0> (some, first)
"""


@pytest.fixture
def no_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is driven by the host."""

    def fail(*_: object) -> None:
        raise AssertionError("the host drives a body")

    monkeypatch.setattr(bodies.Bodies, "run", fail)


def _text(*body: str, start: str = "second") -> str:
    return LOOP.replace("BODY", "\n".join(body)).replace("START", start)


def _check(text: str, counts: range = range(ROWS + 1)) -> None:
    """Compare with ONNX Runtime, for loops that run so often, with other data each time."""
    proto = parser.parse_model(text)
    model = afterglow.compile(proto, cache=False, dims={"k": (0, ROWS)})
    session, draw = InferenceSession(proto.SerializeToString()), np.random.default_rng(0)
    for count in (*counts, *counts):
        feed = _feed(draw, count)
        for got, want in zip(model.run(None, feed), session.run(None, feed), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def _feed(draw: np.random.Generator, count: int) -> dict[str, Array]:
    x = draw.standard_normal((ROWS, 3)).astype(np.float32)
    return {"x": x, "numbers": draw.integers(-9, 10, ROWS), "times": np.zeros(count, np.float32)}


@pytest.mark.usefixtures("no_bodies")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_value_is_as_long_as_data_tell(body: str) -> None:
    _check(_text(body, GOES_ON, SUM, start="all" if body in (MASK, PLACES, TWICE) else "second"))


@pytest.mark.usefixtures("no_bodies")
@pytest.mark.parametrize("part", [PART, BETWEEN], ids=["from the first", "from anywhere"])
def test_a_part_is_as_long_as_data_tell(part: str) -> None:
    _check(_text(part, GOES_ON))


@pytest.mark.usefixtures("no_bodies")
def test_a_loop_goes_on_while_there_are_elements() -> None:
    head = "head = Gather (past, none) row = Identity (head)"
    rest = "past_again = Slice (past, second, all, first)"
    mask = MASK.replace("(past,", "(past_again,")
    _check(_text(head, rest, mask, LENGTH, "goes_on = Greater (length, none)", start="all"))


@pytest.mark.usefixtures("no_bodies")
def test_a_loop_without_a_limit_is_bounded_by_what_it_takes_away() -> None:
    head = "row = Gather (past, none)"
    rest = "past_again = Slice (past, second, all, first)"
    mask = MASK.replace("(past,", "(past_again,")
    text = _text(head, rest, mask, LENGTH, "goes_on = Greater (length, none)", start="all")
    _check(text.replace("Loop (often,", "Loop (,"), range(3))


@pytest.mark.usefixtures("no_bodies")
def test_a_row_is_cut_out_of_the_middle_while_there_are_some() -> None:
    ends = "goes_on = Greater (length, none)"
    text = _text(CUT, "row = ReduceSum <keepdims = 0> (past, first)", LENGTH, ends, start="all")
    _check(text)
    _check(text.replace("Loop (often,", "Loop (,"), range(2))


@pytest.mark.usefixtures("no_bodies")
def test_a_condition_of_two_parts_says_that_there_are_elements() -> None:
    """As `while x.size(0) > 1 and x.sum() < 0` is exported: the second part is a branch."""
    both = """
        several = Greater (length, one)
        goes_on = If (several) <
            then_branch = t () => (bool small) {
                total = ReduceSum <keepdims = 0> (next)
                small = Less (total, zero)
            }, else_branch = f () => (bool no) { no = Identity (false) }
        >
    """
    text = _text(CUT, "row = ReduceSum <keepdims = 0> (past, first)", LENGTH, both, start="all")
    text = text.replace("Loop (often,", "Loop (,").replace(
        "<float zero", "<bool false = {0}, float zero"
    )
    _check(text, range(4))


@pytest.mark.usefixtures("no_bodies")
@pytest.mark.parametrize("gap", ["first", "second", "pair"])
def test_rows_are_cut_at_a_place_that_may_lie_behind_the_last_one(gap: str) -> None:
    """It is one of x, whichever rows are left."""
    cut = CUT.replace("(past, second)", "(turned, second)").replace(
        "(cut, second)", f"(cut, {gap})"
    )
    text = _text("turned = Mul (x, part)", cut, GOES_ON, SUM, start="all")
    _check(text.replace("<float zero", "<int64[1] pair = {2}, float zero"))


@pytest.mark.usefixtures("no_bodies")
def test_a_loop_breaks_early_once_there_are_no_elements() -> None:
    """In the first iteration the condition is known, and only one branch is part of the body."""
    early = f"""
        sizes = Shape (past)
        depth = Gather (sizes, none)
        empty = Equal (depth, none)
        next, goes_on = If (empty) <
            then_branch = t () => (float[e, 3] same, bool no) {{
                same = Identity (past)
                no = Identity (false)
            }}, else_branch = f () => (float[g, 3] left, bool yes) {{
                {PLACES.replace("next =", "left =")}
                yes = Identity (on)
            }}
        >
    """
    text = _text(early, "row = Identity (part)", start="all")
    _check(text.replace("<float zero", "<bool false = {0}, float zero"))


def test_rows_that_data_cut_from_either_end_are_right() -> None:
    anywhere = CUT.replace("ArgMin <axis = 0, keepdims = 0> (sums)", "Identity (number)")
    _check(_text(anywhere, GOES_ON, SUM, start="all"), range(3))


def test_a_read_of_what_is_empty_is_an_error() -> None:
    head = "row = Gather (past, none)"
    drop = "next = Slice (past, second, all, first)"
    model = afterglow.compile(
        parser.parse_model(_text(head, drop, GOES_ON)), cache=False, dims={"k": (0, ROWS)}
    )
    feed = _feed(np.random.default_rng(0), 1)
    assert model.run(None, feed)[0].shape == (0, 3)
    with pytest.raises(afterglow.AfterglowError, match="existing element"):
        model.run(None, {**feed, "times": np.zeros(2, np.float32)})


def test_code_that_cannot_have_such_lengths_is_compiled_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried, compile_module = [], compiling.compile_module

    def refuse(module: Module, options: compiling.Options) -> CompiledFunction:
        tried.append(options.data_lengths)
        if any(isinstance(n.op, Loop) for f in module.functions.values() for n in f.nodes):
            raise UndecidedExtentError("whether it is 0")
        return compile_module(module, options)

    monkeypatch.setattr(compiling, "compile_module", refuse)
    _check(_text(STACK, GOES_ON, SUM), range(3))
    assert tried
