"""Loops whose values become longer in one branch only, or by as much as an inner loop tells."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser
from onnxruntime import InferenceSession

import afterglow
from afterglow.driver import bodies
from afterglow.frontends.base import NeedsValuesError
from afterglow.ops.control import Loop
from afterglow.types import TensorType
from afterglow.types.extent import largest, smallest


@pytest.fixture(autouse=True)
def no_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is driven by the host."""

    def fail(*_: object) -> None:
        raise AssertionError("the host drives a body")

    monkeypatch.setattr(bodies.Bodies, "run", fail)


LOOP = """
    <ir_version: 10, opset_import: ["": 17]>
    main (float[n, 3] x) => (float[m, 3] y, float[k, 3] z)
        <float zero = {0.0}, int64 first = {0}, int64[2] none = {0, 3}, int64[1] axes = {0}> {
        true = Constant <value = bool {1}> ()
        empty = ConstantOfShape (none)
        shape = Shape (x)
        often = Gather (shape, first)
        y, z = Loop (often, true, empty, empty) <body = body
            (int64 i, bool on, float[a, 3] past, float[b, 3] other)
            => (bool on_out, float[c, 3] next, float[d, 3] other_next) {
            on_out = Identity (on)
            part = Gather (x, i)
            row = Unsqueeze (part, axes)
            sum = ReduceSum <keepdims = 0> (row)
            wanted = Greater (sum, zero)
            BODY
        }>
    }
"""
ONE = """
    next = If (wanted) <
        then_branch = t () => (float[e, 3] longer) { longer = Concat <axis = 0> (past, row) },
        else_branch = f () => (float[g, 3] same) { same = Identity (past) }
    >
    other_next = Identity (other)
"""
BOTH_AND_MORE = """
    next, other_next = If (wanted) <
        then_branch = t () => (float[e, 3] p, float[e, 3] q) {
            p = Concat <axis = 0> (past, row, row)
            q = Identity (other)
        }, else_branch = f () => (float[g, 3] r, float[g, 3] s) {
            r = Concat <axis = 0> (past, row)
            s = Concat <axis = 0> (other, row)
        }
    >
"""
EMPTY_PIECE = """
    piece = If (wanted) <
        then_branch = t () => (float[e, 3] a_row) { a_row = Neg (row) },
        else_branch = f () => (float[g, 3] no_row) { no_row = Identity (empty) }
    >
    next = Concat <axis = 0> (past, piece, row, piece)
    other_next = Concat <axis = 0> (other, row)
"""
READ_BEHIND = """
    grown = If (wanted) <
        then_branch = t () => (float[e, 3] longer) { longer = Concat <axis = 0> (past, row) },
        else_branch = f () => (float[g, 3] same) { same = Identity (past) }
    >
    next = Concat <axis = 0> (grown, row)
    total = ReduceSum <keepdims = 1> (grown, axes)
    number = Shape (grown)
    length = Gather (number, axes)
    count = Cast <to = 1> (length)
    mixed = Add (total, count)
    other_next = Concat <axis = 0> (other, mixed)
"""
READ_BY_A_FUNCTION_OF_THE_STANDARD = """
    grown = If (wanted) <
        then_branch = t () => (float[e, 3] longer) { longer = Concat <axis = 0> (past, row) },
        else_branch = f () => (float[g, 3] same) { same = Identity (past) }
    >
    next = Concat <axis = 0> (grown, row)
    rows = SequenceConstruct (row)
    sums = SequenceMap (rows, grown) <body = plus (float[1, 3] one, float[h, 3] all)
        => (float[1, 3] sum_of_all) {
        rows_axis = Constant <value_ints = [0]> ()
        total = ReduceSum <keepdims = 1> (all, rows_axis)
        sum_of_all = Add (one, total)
    }>
    mixed = SequenceAt (sums, first)
    other_next = Concat <axis = 0> (other, mixed)
"""
INNER_LOOP = """
    next = Loop (often, wanted, past) <body = inner
        (int64 j, bool going, float[e, 3] so_far) => (bool goes, float[g, 3] more) {
        size = ReduceMax <axes = [0], keepdims = 1> (row)
        more = Concat <axis = 0> (so_far, size)
        number = Cast <to = 1> (j)
        goes = Less (number, sum)
    }>
    other_next = Concat <axis = 0> (other, row)
"""
IN_TWO_BRANCHES = """
    grown = If (wanted) <
        then_branch = t () => (float[e, 3] longer) { longer = Concat <axis = 0> (past, row) },
        else_branch = f () => (float[g, 3] same) { same = Identity (past) }
    >
    next = If (wanted) <
        then_branch = t2 () => (float[h, 3] as_before) { as_before = Identity (grown) },
        else_branch = f2 () => (float[j, 3] twice) { twice = Concat <axis = 0> (grown, row) }
    >
    other_next = Identity (other)
"""
BODIES = {
    "one branch": ONE,
    "both branches, by different rows": BOTH_AND_MORE,
    "a piece that may be empty": EMPTY_PIECE,
    "read behind the branch": READ_BEHIND,
    "read by a function of the standard": READ_BY_A_FUNCTION_OF_THE_STANDARD,
    "an inner loop": INNER_LOOP,
    "in two branches": IN_TWO_BRANCHES,
}


def model(body: str) -> onnx.ModelProto:
    return parser.parse_model(LOOP.replace("BODY", body))


@pytest.mark.parametrize("options", [{}, {"backend": "interpreter"}, {"optimize": False}], ids=str)
@pytest.mark.parametrize("name", BODIES)
def test_the_loop_is_compiled(name: str, options: dict[str, object]) -> None:
    proto = model(BODIES[name])
    session = InferenceSession(proto.SerializeToString())
    compiled = afterglow.compile(proto, cache=False, **options)
    random = np.random.default_rng(3)
    for rows in (2, 5, 9, 16, 5):
        for sign in (None, 1, -1):  # some, all and none of the rows are wanted
            x = random.standard_normal((rows, 3)).astype(np.float32)
            feed = {"x": x if sign is None else sign * abs(x)}
            for got, wanted in zip(compiled.run(None, feed), session.run(None, feed), strict=True):
                assert got.shape == wanted.shape
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def lengths(body: str) -> list[list[int]]:
    """The dimensions for lengths, of each loop that the import makes for 8 rows."""
    made: list[list[int]] = []
    with pytest.MonkeyPatch.context() as patch:
        infer = Loop.infer

        def noted(op: Loop, *operands: TensorType) -> tuple[TensorType, ...]:
            made.append([*op.lengths])
            return infer(op, *operands)

        patch.setattr(Loop, "infer", noted)
        with pytest.raises(NeedsValuesError):  # of the cut behind it
            afterglow.import_model(model(body), dims={"n": 8})
    return made


ALIKE = """
    next, other_next = If (wanted) <
        then_branch = t () => (float[e, 3] p, float[e, 3] q) {
            p = Concat <axis = 0> (past, row)
            q = Concat <axis = 0> (other, row)
        }, else_branch = f () => (float[g, 3] r, float[g, 3] s) {
            r = Identity (past)
            s = Identity (other)
        }
    >
"""


def test_values_that_grow_alike_share_a_length() -> None:
    assert [len(each) for each in lengths(ALIKE)] == [1]
    assert [len(each) for each in lengths(BOTH_AND_MORE)] == [2]


def test_the_iterations_bound_a_length() -> None:
    assert [[(smallest(n), largest(n)) for n in each] for each in lengths(ONE)] == [[(0, 7)]]
