"""Models in which data decide shapes: cut in parts, with the host at work between them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, reference

import afterglow
from afterglow.driver.bound import MOST_VALUES
from afterglow.driver.compile import Recipe
from afterglow.runtime.segmented import CONTINUATIONS, SegmentedVersion
from afterglow.runtime.version import Version
from afterglow.support.errors import UsageError
from afterglow.types import Array
from tests.frontends.models import BOOL, FLOAT, INT64, info, model, node

X = np.linspace(-2, 3, 24, dtype=np.float32).reshape(4, 6)


def positive_rows() -> onnx.ModelProto:
    """What is positive of exp(x) - 1, sorted by where it is, times the sum of all of x."""
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("Sub", ["e", "one"], ["d"]),
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["d", "zero"], ["keep"]),
        node("NonZero", ["keep"], ["places"]),
        node("NonZero", ["keep"], ["again"]),
        node("Transpose", ["places"], ["rows"]),
        node("GatherND", ["d", "rows"], ["found"]),
        node("Mul", ["found", "sum"], ["y"]),
    ]
    constants = {"one": np.float32(1), "zero": np.float32(0)}
    outputs = [info("y", ("n",)), info("again", (2, "n"), INT64)]
    return model(nodes, inputs=[info("x", (4, 6))], outputs=outputs, constants=constants)


def check(proto: onnx.ModelProto, *feeds: Sequence[Array], **options: object) -> object:
    """Run on each feed; what comes out is what the standard's reference gives."""
    compiled = afterglow.compile(proto, **options)
    runner = reference.ReferenceEvaluator(proto)
    names = [i.name for i in proto.graph.input]
    for arrays in feeds:
        feed = dict(zip(names, arrays, strict=True))
        for got, want in zip(compiled.run(None, feed), runner.run(None, feed), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return compiled


def count_builds(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every compilation from now on, by its options."""
    builds: list[object] = []
    original = Recipe.build

    def build(self: Recipe, options: afterglow.driver.options.Options, *rest: object) -> Version:
        version = original(self, options, *rest)  # type: ignore[arg-type]
        builds.append(options)
        return version

    monkeypatch.setattr(Recipe, "build", build)
    return builds


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_the_rest_is_compiled_for_the_shape_that_came_out(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = count_builds(monkeypatch)
    compiled = check(
        positive_rows(), [X], [X + 1], [X[::-1]], [X - 9], [X * 2], backend=backend, cache=False
    )
    first, *rest = builds
    assert sorted(first.partition.wanted) == ["d", "keep", "sum"]
    assert len(rest) == 3  # for as many different counts of positive elements
    (version,) = compiled.versions()
    assert isinstance(version, SegmentedVersion)
    assert len(version.rest) == 3


def test_nodes_that_do_the_same_run_once() -> None:
    compiled = afterglow.compile(positive_rows(), backend="interpreter")
    compiled(X)
    (version,) = compiled.versions()
    found = version.continuation.run_host({"keep": X > 0})
    assert found["places"] is found["again"]


def test_integers_decide_shapes_by_their_values() -> None:
    nodes = [
        node("ReduceSum", ["m"], ["count"], keepdims=1),
        node("TopK", ["x", "count"], ["y", "places"]),
    ]
    proto = model(
        nodes,
        inputs=[info("x", (9,)), info("m", (100,), INT64)],
        outputs=[info("y", ("k",)), info("places", ("k",), INT64)],
    )
    x = np.random.default_rng(0).normal(size=9).astype(np.float32)
    ones = np.zeros(100, np.int64)
    ones[:4] = 1
    compiled = check(proto, [x, ones], [x + 1, ones[::-1].copy()], [x, 2 * ones])
    (version,) = compiled.versions()
    assert len(version.rest) == 2  # for 4 and for 8


def test_few_integers_of_an_input_are_bound_at_once() -> None:
    nodes = [node("Add", ["shape", "one"], ["more"]), node("Expand", ["x", "more"], ["y"])]
    proto = model(
        nodes,
        inputs=[info("x", (1,)), info("shape", (2,), INT64)],
        outputs=[info("y", ("a", "b"))],
        constants={"one": np.int64(1)},
    )
    x = np.ones(1, np.float32)
    compiled = check(proto, [x, np.array([2, 3])], [x, np.array([4, 1])])
    assert all(isinstance(version, Version) for version in compiled.versions())


def test_cuts_follow_each_other() -> None:
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Squeeze", ["places", "zero"], ["flat"]),
        node("Gather", ["x", "flat"], ["kept"]),
        node("Relu", ["kept"], ["positive"]),
        node("Unique", ["positive"], ["u", "first", "inverse", "counts"]),
        node("Cast", ["counts"], ["c"], to=FLOAT),
        node("Mul", ["u", "c"], ["y"]),
    ]
    proto = model(
        nodes,
        inputs=[info("x", (7,))],
        outputs=[info("y", ("n",))],
        constants={"zero": np.array([0])},
    )
    x = np.array([0, 1, 2, -3, 2, 0, 1], np.float32)
    check(proto, [x], [-x], [x + 1], [np.zeros(7, np.float32)])


def test_outputs_of_the_first_part_and_sequences_come_out() -> None:
    nodes = [
        node("Neg", ["x"], ["first"]),
        node("Compress", ["x", "keep"], ["kept"], axis=0),
        node("SplitToSequence", ["kept", "one"], ["rows"], axis=0),
        node("ConcatFromSequence", ["rows"], ["y"], axis=1),
    ]
    proto = model(
        nodes,
        inputs=[info("x", (4, 6)), info("keep", (4,), BOOL)],
        outputs=[info("first", (4, 6)), info("y", (1, "n"))],
        constants={"one": np.int64(1)},
    )
    masks = [[1, 0, 1, 1], [0, 1, 0, 0], [1, 1, 1, 1]]
    compiled = afterglow.compile(proto)
    for mask in np.array(masks, bool):
        first, y = compiled(X, mask)
        np.testing.assert_array_equal(first, -X)
        np.testing.assert_array_equal(y, X[mask].reshape(1, -1))


def test_a_body_whose_shapes_data_decide_runs_on_the_host() -> None:
    found = helper.make_graph(
        [node("NonZero", ["d"], ["there"])], "then", [], [info("there", None, INT64)]
    )
    nothing = helper.make_graph(
        [node("Shape", ["d"], ["size"]), node("Unsqueeze", ["size", "zero"], ["none"])],
        "else",
        [],
        [info("none", None, INT64)],
    )
    nodes = [
        node("Relu", ["x"], ["d"]),
        node("If", ["flag"], ["places"], then_branch=found, else_branch=nothing),
        node("Add", ["places", "places"], ["y"]),
    ]
    proto = model(
        nodes,
        inputs=[info("x", (5,)), info("flag", (), BOOL)],
        outputs=[info("y", None, INT64)],
        constants={"zero": np.array([0])},
    )
    x = np.array([1, -1, 2, 0, 3], np.float32)
    check(proto, [x, np.array(True)], [-x, np.array(True)], [x, np.array(False)])


def thirds_in_parts(narrow: int) -> onnx.ModelProto:
    """x / 3 in a narrow type, without zeros; then without what is 1, and what is left of x / 3."""
    nodes = [
        node("Cast", ["x"], ["small"], to=narrow),
        node("Cast", ["three"], ["divisor"], to=narrow),
        node("Div", ["small", "divisor"], ["third"]),
        node("NonZero", ["third"], ["i"]),
        node("Transpose", ["i"], ["j"]),
        node("GatherND", ["third", "j"], ["some"]),
        node("Floor", ["some"], ["whole"]),
        node("NonZero", ["whole"], ["k"]),
        node("Transpose", ["k"], ["l"]),
        node("GatherND", ["some", "l"], ["fewer"]),
        node("ReduceSum", ["third"], ["sum"], keepdims=0),
        node("Mul", ["fewer", "sum"], ["product"]),
        node("Cast", ["product"], ["y"], to=FLOAT),
    ]
    constants = {"three": np.float32(3)}
    return model(nodes, inputs=[info("x", (6,))], outputs=[info("y", ("n",))], constants=constants)


@pytest.mark.parametrize("narrow", [onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16])
def test_narrow_floats_cross_cuts_without_being_rounded(narrow: int, tmp_path: Path) -> None:
    compiled = afterglow.compile(thirds_in_parts(narrow), cache=False)
    x = np.array([1, 0, 4, 5, 0, 7], np.float32)
    want = np.array([4, 5, 7], np.float32) / 3 * np.float32(17 / 3)
    np.testing.assert_allclose(compiled(x), want, rtol=1e-6)
    compiled.save(tmp_path / "parts.agc")
    loaded = afterglow.load(tmp_path / "parts.agc", cache=False)
    for feed in (x, x[::-1].copy()):
        np.testing.assert_allclose(np.sort(loaded(feed)), want, rtol=1e-6)


def _continuations(counts: range) -> int:
    """How many programs there are for what follows NonZero, after so many counts of results."""
    nodes = [node("NonZero", ["x"], ["p"]), node("Add", ["p", "p"], ["y"])]
    proto = model(nodes, inputs=[info("x", (100,))], outputs=[info("y", (1, "n"), INT64)])
    compiled = afterglow.compile(proto, backend="interpreter")
    for count in counts:
        x = (np.arange(100) < count).astype(np.float32)
        np.testing.assert_array_equal(compiled(x), [2 * np.arange(count)])
    (version,) = compiled.versions()
    return len(version.rest)


@pytest.mark.usefixtures("exact_versions")
def test_continuations_are_bounded() -> None:
    assert _continuations(range(CONTINUATIONS + 5)) == CONTINUATIONS


def test_what_follows_data_dependent_shapes_is_compiled_for_a_handful_of_ranges() -> None:
    assert _continuations(range(101)) <= 4


def test_parts_come_from_the_cache_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(positive_rows(), path)
    want = afterglow.compile(path, cache=tmp_path)(X)
    compiled = afterglow.compile(path, cache=tmp_path)
    monkeypatch.setattr("afterglow.driver.compile.Stages.finish", None)
    for got, expected in zip(compiled(X), want, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_bundle_cannot_be_made_of_what_is_compiled_as_it_runs(tmp_path: Path) -> None:
    compiled = afterglow.compile(positive_rows())
    compiled(X)
    with pytest.raises(UsageError) as caught:
        compiled.export_bundle(tmp_path / "never")
    assert str(caught.value) == (
        "error: the model has data-dependent shapes, which a bundle cannot compile at run time\n"
        "  help: save it as FILE.agc, or export a model that ends before these nodes"
    )


def test_what_comes_before_the_cut_is_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    builds = count_builds(monkeypatch)
    compiled = afterglow.compile(positive_rows(), cache=False)
    assert [sorted(options.partition.wanted) for options in builds] == [["d", "keep", "sum"]]
    compiled(X)
    assert len(builds) == 2


def moving_window() -> onnx.ModelProto:
    """Three of the elements of exp(x), from an input on, doubled."""
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("Add", ["start", "three"], ["end"]),
        node("Slice", ["e", "start", "end"], ["window"]),
        node("Add", ["window", "window"], ["y"]),
    ]
    return model(
        nodes,
        inputs=[info("x", (24,)), info("start", (1,), INT64)],
        outputs=[info("y", ("n",))],
        constants={"three": np.array([3])},
    )


def test_many_values_of_an_integer_cut_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    builds = count_builds(monkeypatch)
    x = X.reshape(-1)
    starts = [*range(20), 23, 24, 40, -3, -1]
    compiled = check(moving_window(), *([x, np.array([start])] for start in starts), cache=False)
    bound = [options for options in builds if "start" in options.values]
    assert len(bound) == MOST_VALUES
    (version,) = compiled.versions()
    assert isinstance(version, SegmentedVersion)
    assert len(version.rest) == 3  # for three elements, one and none


def test_few_values_of_an_integer_have_versions_of_their_own() -> None:
    x = X.reshape(-1)
    starts = [*range(MOST_VALUES)] * 2
    compiled = check(moving_window(), *([x, np.array([start])] for start in starts), cache=False)
    assert all(isinstance(version, Version) for version in compiled.versions())
    assert len(compiled.versions()) == MOST_VALUES


@pytest.mark.parametrize("op_type", ["Expand", "Tile", "Pad", "TopK", "ConstantOfShape", "Range"])
def test_many_values_that_are_shapes_are_right(op_type: str) -> None:
    nodes = {
        "Expand": [
            node("Concat", ["n", "one"], ["shape"], axis=0),
            node("Expand", ["x", "shape"], ["z"]),
        ],
        "Tile": [node("Tile", ["x", "n"], ["z"])],
        "Pad": [node("Concat", ["n", "one"], ["pads"], axis=0), node("Pad", ["x", "pads"], ["z"])],
        "TopK": [node("TopK", ["x", "n"], ["z", ""])],
        "ConstantOfShape": [node("ConstantOfShape", ["n"], ["z"])],
        "Range": [
            node("Squeeze", ["n"], ["count"]),
            node("Range", ["zero", "count", "step"], ["places"]),
            node("Gather", ["x", "places"], ["z"]),
        ],
    }[op_type]
    proto = model(
        [*nodes, node("Add", ["z", "half"], ["y"])],
        inputs=[info("x", (24,)), info("n", (1,), INT64)],
        outputs=[info("y", None)],
        constants={
            "one": np.array([1]),
            "half": np.float32(0.5),
            "zero": np.int64(0),
            "step": np.int64(1),
        },
    )
    x, counts = X.reshape(-1), [*range(1, MOST_VALUES + 13)]
    feeds = ([x + n, np.array([n])] for n in (*counts, *counts))
    check(proto, *feeds, backend="interpreter")
