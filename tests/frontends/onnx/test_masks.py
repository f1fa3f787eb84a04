"""Elements that a mask chooses to be overwritten: `x[mask] = new[mask]`, as exporters write it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser
from onnxruntime import InferenceSession

import afterglow
from afterglow.driver import bodies
from afterglow.frontends.base import NeedsValuesError
from afterglow.frontends.onnx.reader import read_model
from afterglow.frontends.onnx.source import import_onnx
from afterglow.types import Array

HEADER = """
    <ir_version: 10, opset_import: ["": 18]>
    main (float[ROWS, 3] x, float[5, 3] new, bool[5] mask, float[3] scale) => (float[a, b] y OUTPUT)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] minus = {-1}, float half = {0.5}> {
"""
PLACES = """
    found = NonZero (mask)
    places = Transpose <perm = [1, 0]> (found)
"""
PICKED = PLACES + "rows = GatherND (new, places)\n"
SPREAD = """
    column = Unsqueeze (mask, one)
    shape = Shape (x)
    full = Expand (column, shape)
    found_full = NonZero (full)
    places_full = Transpose <perm = [1, 0]> (found_full)
    flat = Reshape (rows, minus)
    shape_full = Shape (places_full)
    count = Gather <axis = 0> (shape_full, zero)
    cut = Slice (flat, zero, count, zero)
    y = ScatterND (x, places_full, cut)
"""
DIRECT = "y = ScatterND (x, places, rows)\n"
CHANGED = """
    old = GatherND (x, places)
    picked = GatherND (new, places)
    by = Mul (scale, half)
    scaled = Mul (picked, by)
    sum = Add (old, scaled)
    rows = Tanh (sum)
"""
FORMS = {
    "by the same places": (PICKED + DIRECT, ["Masked"]),
    "by places of elements": (PICKED + SPREAD, ["Unsqueeze", "Shape", "Expand", "Masked"]),
    "what was there, changed": (PLACES + CHANGED + DIRECT, ["Mul", "Masked"]),
    "the same by elements": (
        PLACES + CHANGED + SPREAD,
        ["Mul", "Unsqueeze", "Shape", "Expand", "Masked"],
    ),
}
MASKS = [np.array(mask, bool) for mask in ([0] * 5, [1] * 5, [0, 1, 1, 0, 1], [1, 0, 0, 0, 0])]


def _proto(nodes: str, output: str = "", rows: int = 5) -> onnx.ModelProto:
    header = HEADER.replace("OUTPUT", output).replace("ROWS", str(rows))
    return parser.parse_model(f"{header}{nodes}}}")


def _ops(proto: onnx.ModelProto) -> list[str]:
    """The ops of a model as it is imported."""
    return [node.op_type for node in read_model(proto).definition.graph.node]


def _feeds(proto: onnx.ModelProto) -> list[dict[str, Array]]:
    draw = np.random.default_rng(0)
    types = {each.name: each.type.tensor_type.shape.dim for each in proto.graph.input}
    given = [name for name in types if name != "mask"]
    return [
        {"mask": mask}
        | {
            name: draw.standard_normal([d.dim_value for d in types[name]]).astype(np.float32)
            for name in given
        }
        for mask in MASKS
    ]


def _check(proto: onnx.ModelProto) -> None:
    """Compare with ONNX Runtime, for masks that choose nothing, everything and something."""
    model = afterglow.compile(proto, cache=False)
    session = InferenceSession(proto.SerializeToString())
    for feed in _feeds(proto):
        for got, want in zip(model.run(None, feed), session.run(None, feed), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("nodes", "after"), FORMS.values(), ids=FORMS)
def test_it_is_a_choice_by_the_mask(nodes: str, after: list[str]) -> None:
    proto = _proto(nodes)
    assert _ops(proto) == after
    ops = [node.op.mnemonic for node in import_onnx(proto).main.nodes]
    assert ops[-1] == "where"
    assert not {"scatter_nd", "gather_nd"}.intersection(ops)
    _check(proto)


def test_places_that_something_else_reads_are_found_as_well() -> None:
    proto = _proto(PICKED + DIRECT, ", int64[c, d] places")
    assert _ops(proto) == ["NonZero", "Transpose", "Masked"]
    _check(proto)


def test_rows_are_put_where_rows_were_taken() -> None:
    changed = PICKED + "soft = Softmax <axis = 1> (rows)" + SPREAD.replace("(rows,", "(soft,")
    proto = _proto(changed)
    before = ["NonZero", "Transpose", "GatherND", "Softmax", "Unsqueeze", "Shape", "Expand"]
    assert _ops(proto) == [*before, "MaskedRows"]
    _check(proto)


OTHERS = {
    "sums": PICKED + 'y = ScatterND <reduction = "add"> (x, places, rows)',
    "other rows": PLACES + "rows = Reshape (new, minus)" + SPREAD,
    "a sum of them": PICKED
    + "total = ReduceSum <keepdims = 1> (rows, zero) few = Shape (rows)"
    + "same = Expand (total, few) y = ScatterND (x, places, same)",
    "places of another mask": "other = Not (mask) " + PICKED + SPREAD.replace("(mask,", "(other,"),
}


@pytest.mark.parametrize("nodes", OTHERS.values(), ids=OTHERS)
def test_what_is_something_else_stays_as_it_is(nodes: str) -> None:
    assert "Masked" not in _ops(_proto(nodes))


def test_a_mask_that_is_shorter_is_a_matter_of_places() -> None:
    proto = _proto(PICKED + DIRECT, rows=6)
    with pytest.raises(NeedsValuesError):
        import_onnx(proto)
    _check(proto)


LOOP = """
    <ir_version: 10, opset_import: ["": 18]>
    main (float[4, 5, 3] steps, int64 often, float[5, 3] x) => (float[5, 3] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] minus = {-1}, float half = {0.5}> {
        on = Constant <value = bool {1}> ()
        y = Loop (often, on, x) <body = body
            (int64 i, bool goes, float[5, 3] x0) => (bool goes_on, float[5, 3] y0) {
            goes_on = Identity (goes)
            step = Gather (steps, i)
            sum = Add (step, x0)
            new = Tanh (sum)
            size = ReduceSum <keepdims = 0> (new, one)
            mask = Greater (size, half)
            NODES
        }>
    }
"""


SOFT = "soft = Softmax <axis = 0> (rows)" + SPREAD.replace("(rows,", "(soft,")
"""Where no element is computed alone."""


@pytest.mark.parametrize(
    "rows", [DIRECT, SPREAD, SOFT], ids=["by rows", "by elements", "of all rows together"]
)
def test_the_body_of_a_loop_is_code(rows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("the host drives a body")

    monkeypatch.setattr(bodies.Bodies, "run", fail)
    nodes = (PICKED + rows).replace("x,", "x0,").replace("(x)", "(x0)").replace("y =", "y0 =")
    proto = parser.parse_model(LOOP.replace("NODES", nodes))
    model = afterglow.compile(proto, cache=False)
    session = InferenceSession(proto.SerializeToString())
    draw = np.random.default_rng(0)
    for often in (0, 1, 4):
        feed = {
            "steps": draw.standard_normal((4, 5, 3)).astype(np.float32),
            "often": np.array(often),
            "x": draw.standard_normal((5, 3)).astype(np.float32),
        }
        np.testing.assert_allclose(
            model.run(None, feed)[0], session.run(None, feed)[0], rtol=1e-5, atol=1e-6
        )
