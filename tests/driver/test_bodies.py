"""Bodies of If, Loop and Scan that the host drives, compiled for the shapes that come in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser
from onnxruntime import InferenceSession

import afterglow
from afterglow.driver.compile import Recipe
from afterglow.frontends.common import control
from afterglow.frontends.definition import chunks
from afterglow.frontends.definition.defined import BodySource
from afterglow.runtime import tier_up
from afterglow.runtime.model import CompiledModel
from afterglow.runtime.segmented import CONTINUATIONS
from afterglow.runtime.version import Version
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.types import Array

X = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)


def parsed(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["": 17, "local": 1]>\n{text}')


def check(proto: onnx.ModelProto, *feeds: Mapping[str, Array]) -> CompiledModel:
    """Each feed, twice, gives what ONNX Runtime gives."""
    compiled = afterglow.compile(proto, cache=False)
    session = InferenceSession(proto.SerializeToString())
    for feed in (*feeds, *feeds):
        for got, want in zip(compiled.run(None, feed), session.run(None, feed), strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return compiled


@pytest.fixture
def compile_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier_up, "EARLY_THRESHOLD", 2)


@pytest.fixture
def body_builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The outputs of each body that is compiled from now on."""
    builds: list[str] = []
    original = Recipe.build

    def build(self: Recipe, *arguments: object) -> Version:
        version = original(self, *arguments)  # type: ignore[arg-type]
        if isinstance(self.source, BodySource):
            builds.append(" ".join(self.source.output_names))
        return version

    monkeypatch.setattr(Recipe, "build", build)
    return builds


GROWING = """
    main (float[3, 4] x, float limit) => (float[n, 4] y, float[m, 4] sums) {
        most = Constant <value = int64 {40}> ()
        y, sums = Loop (most, , x) <body = b (int64 i, bool c, float[k, 4] grown)
            => (bool on, float[k, 4] more, float[4] sum) {
            sum = ReduceSum <keepdims = 0> (grown, zero)
            row = Unsqueeze (sum, zero)
            half = Mul (row, scale)
            more = Concat <axis = 0> (grown, half)
            size = ReduceMax <keepdims = 0> (more)
            on = Less (size, limit)
        }>
    }
"""
CONSTANTS = "\n<int64[1] zero = {0}, float[4] scale = {0.5, 0.6, 0.7, 0.8}>"


def growing() -> onnx.ModelProto:
    """Rows are added until one of them is large: nothing else bounds their number."""
    text = GROWING.replace("sums) {", f"sums){CONSTANTS} {{", 1)
    return parsed(text.replace("Loop (most,", "Loop (,"))


@pytest.mark.parametrize("most", [None, 40])
def test_values_that_grow_until_a_condition_fails(most: int | None) -> None:
    limits = (-9, 0, 5, 50, 1e9)
    proto = growing()
    proto.graph.node[-1].input[0] = "" if most is None else "most"
    check(proto, *({"x": X, "limit": np.array(n, np.float32)} for n in limits))


CHUNK_OF_GROWING = "\0on \0count \0room0 \0rows0 \0length0"


@pytest.fixture
def no_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """All iterations run one by one."""
    monkeypatch.setattr(chunks, "OBSERVED", 10**9)


def test_iterations_without_a_bound_are_compiled_many_at_once(body_builds: list[str]) -> None:
    check(growing(), *({"x": X + k / 100, "limit": np.array(900, np.float32)} for k in range(3)))
    assert body_builds == [CHUNK_OF_GROWING] * 2  # behind those observed, and from the first one


@pytest.mark.parametrize("iterations", [1, 2, 3, 128])
def test_a_loop_takes_as_many_chunks_as_it_needs(
    monkeypatch: pytest.MonkeyPatch, iterations: int
) -> None:
    monkeypatch.setattr(chunks, "OBSERVED", 2)
    monkeypatch.setattr(chunks, "ITERATIONS", iterations)
    check(growing(), *({"x": X, "limit": np.array(k, np.float32)} for k in (1, 30, 900)))


@pytest.mark.parametrize("count", [0, 1, 5, 9, 20, 300])
def test_a_limit_with_many_values_is_no_reason_to_compile_again(count: int) -> None:
    text = """
        main (float[1, 4] x, int64 most) => (float[n, 4] y, float[n2, 4] rows) {
            y, rows = Loop (most, , x) <body = b (int64 i, bool c, float[k, 4] a)
                => (bool on, float[l, 4] b, float[4] row) {
                on = Identity (c)
                number = Cast <to = 1> (i)
                axis = Constant <value = int64[1] {0}> ()
                sum = ReduceMax <axes = [0], keepdims = 1> (a)
                third = Constant <value = float {0.3}> ()
                small = Mul (sum, third)
                wave = Sin (small)
                shifted = Add (wave, number)
                row = Squeeze (shifted, axis)
                b = Concat <axis = 0> (a, shifted)
            }>
        }
    """
    others = [*range(2, 14), count]
    check(parsed(text), *({"x": X[:1], "most": np.array(number)} for number in others))


def test_shapes_that_vary_are_compiled_as_a_range(
    no_chunks: None, compile_soon: None, body_builds: list[str]
) -> None:
    check(growing(), *({"x": X + k / 100, "limit": np.array(900, np.float32)} for k in range(3)))
    assert body_builds == ["on more sum"] * 2


def test_a_body_of_one_shape_is_compiled_once(body_builds: list[str]) -> None:
    text = """
        main (float[3, 4] x) => (float[3, 4] y, float[n] changes) {
            y, changes = Loop (, , x) <body = b (int64 i, bool c, float[3, 4] a)
                => (bool on, float[3, 4] b, float change) {
                s = Sin (a)
                b = Identity (s)
                d = Sub (b, a)
                e = Abs (d)
                change = ReduceMax <keepdims = 0> (e)
                small = Constant <value = float {0.01}> ()
                on = Greater (change, small)
            }>
        }
    """
    check(parsed(text), {"x": X}, {"x": X / 3})
    assert body_builds == ["\0on \0count \0room0 \0rows0"]


def test_bodies_in_bodies(compile_soon: None, body_builds: list[str]) -> None:
    text = """
        main (float[3, 4] x, float bound) => (float[n, 4] y) {
            most = Constant <value = int64 {5}> ()
            y = Loop (most, , x) <body = outer (int64 i, bool c, float[k, 4] a)
                => (bool on, float[k, 4] b) {
                one = Constant <value = int64 {1}> ()
                times = Add (i, one)
                last = Loop (times, , a) <body = inner (int64 j, bool d, float[k, 4] p)
                    => (bool go, float[k, 4] q) {
                    h = Mul (p, bound)
                    q = Tanh (h)
                    t = ReduceSum <keepdims = 0> (q)
                    go = Less (t, bound)
                }>
                b = Concat <axis = 0> (a, last)
                s = ReduceSum <keepdims = 0> (b)
                on = Less (s, bound)
            }>
        }
    """
    check(parsed(text), *({"x": X, "bound": np.array(k, np.float32)} for k in (0.5, 3, 100)))
    assert body_builds


def test_branches_of_different_shapes(compile_soon: None) -> None:
    text = """
        main (float[3, 4] x) => (float[n, 4] y) {
            most = Constant <value = int64 {6}> ()
            y = Loop (most, , x) <body = b (int64 i, bool c, float[k, 4] a)
                => (bool on, float[k, 4] b) {
                s = ReduceSum <keepdims = 0> (a)
                least = Constant <value = float {0.5}> ()
                enough = Greater (s, least)
                b = If (enough) <
                    then_branch = t () => (float[p, 4] u) { u = Concat <axis = 0> (a, x) },
                    else_branch = e () => (float[q, 4] v) { v = Neg (a) }
                >
                on = Identity (c)
            }>
        }
    """
    check(parsed(text), {"x": X}, {"x": -X})


def test_a_branch_is_compiled_with_what_follows_it() -> None:
    text = """
        main (float[3, 4] x) => (float[n, m] y) {
            s = ReduceSum <keepdims = 0> (x)
            zero = Constant <value = float {0}> ()
            positive = Greater (s, zero)
            b = If (positive) <
                then_branch = t () => (float[p, 4] u) { u = Concat <axis = 0> (x, x) },
                else_branch = e () => (float[q, 3] v) { v = Transpose (x) }
            >
            y = Exp (b)
        }
    """
    compiled = check(parsed(text), {"x": X}, {"x": -X})
    (version,) = compiled.versions()
    assert all(isinstance(rest, Version) for rest in version.rest.all())
    assert len(version.rest) == 2


SEQUENCES = """
    main (float[3, 4] x, int64 stop) => (float[n, 4] y, int64 length) {
        most = Constant <value = int64 {9}> ()
        none = SequenceEmpty ()
        total = ReduceSum <keepdims = 0> (x)
        rows = Loop (most, , none) <body = b (int64 i, bool c, seq(float[3, 4]) before)
            => (bool on, seq(float[3, 4]) after) {
            k = SequenceLength (before)
            f = Cast <to = 1> (k)
            part = Add (x, f)
            after = SequenceInsert (before, part)
            t = Mul (f, total)
            bound = Constant <value = float {20}> ()
            on = Less (t, bound)
        }>
        length = SequenceLength (rows)
        joined = ConcatFromSequence <axis = 0> (rows)
        y = Exp (joined)
    }
"""


def test_sequences_that_grow(compile_soon: None, body_builds: list[str]) -> None:
    feeds = [{"x": x, "stop": np.array(1)} for x in (X, X * 2, X - 1)]
    compiled = check(parsed(SEQUENCES), *feeds)
    (version,) = compiled.versions()
    assert not version.value_inputs
    assert "after" in body_builds[0]


def test_scans_with_shapes_that_data_decide(compile_soon: None) -> None:
    text = """
        main (float[3, 4] x) => (float last, float[3] y) {
            first = Constant <value = float {1}> ()
            last, y = Scan <num_scan_inputs = 1, body = b (float a, float[4] row)
                => (float b, float s) {
                r = Relu (row)
                places = NonZero (r)
                found = Gather (row, places)
                t = ReduceSum <keepdims = 0> (found)
                s = Mul (t, a)
                b = Add (t, a)
            }> (first, x)
        }
    """
    check(parsed(text), {"x": X}, {"x": -X}, {"x": X * 0})


def test_loops_that_do_not_run() -> None:
    feed = {"x": X, "limit": np.array(0, np.float32)}
    proto = growing()
    proto.graph.node[0].attribute[0].t.CopyFrom(helper.make_tensor("", TensorProto.INT64, (), [0]))
    proto.graph.node[1].input[0] = "times"
    proto.graph.node.insert(1, helper.make_node("Mul", ["most", "flag"], ["times"]))
    proto.graph.node.insert(1, helper.make_node("Cast", ["limit"], ["flag"], to=TensorProto.INT64))
    y, sums = check(proto, feed).run(None, feed)
    assert (y.shape, sums.shape) == ((3, 4), (0, 4))


def test_texts_in_a_body(compile_soon: None) -> None:
    text = """
        main (float[3, 4] x, string[1] word) => (string[n] y) {
            most = Constant <value = int64 {7}> ()
            y = Loop (most, , word) <body = b (int64 i, bool c, string[k] a)
                => (bool on, string[k] b) {
                b = Concat <axis = 0> (a, word)
                f = Cast <to = 1> (i)
                s = ReduceMax <keepdims = 0> (x)
                on = Less (f, s)
            }>
        }
    """
    compiled = afterglow.compile(parsed(text), cache=False)
    for _ in range(3):
        assert compiled(X, np.array(["a"], object)).tolist() == ["a"] * 5


def test_random_numbers_differ_from_iteration_to_iteration(compile_soon: None) -> None:
    text = """
        main (float[3, 4] x) => (float[n, 4] y) {
            most = Constant <value = int64 {6}> ()
            a, y = Loop (most, , x) <body = b (int64 i, bool c, float[3, 4] a)
                => (bool on, float[3, 4] b, float[4] row) {
                row = RandomUniform <shape = [4]> ()
                b = Identity (a)
                s = ReduceSum <keepdims = 0> (a)
                big = Constant <value = float {1000}> ()
                on = Less (s, big)
            }>
        }
    """
    compiled = afterglow.compile(parsed(text), cache=False)
    rows = np.concatenate([compiled(X), compiled(X)])
    assert len(np.unique(rows[:, 0])) == len(rows) == 12


def test_bodies_in_functions_have_the_attributes_of_the_call(compile_soon: None) -> None:
    text = """
        main (float[3, 4] x) => (float[n, 4] y, float[m, 4] z) {
            y = local.grow <by = 2.0> (x)
            z = local.grow <by = 3.0> (x)
        }
        <domain: "local", opset_import: ["": 17]>
        grow <by> (x) => (y) {
            most = Constant <value = int64 {5}> ()
            y = Loop (most, , x) <body = b (int64 i, bool c, float[k, 4] a)
                => (bool on, float[k, 4] d) {
                f = Constant <value_float: float = @by> ()
                e = Mul (x, f)
                d = Concat <axis = 0> (a, e)
                s = ReduceSum <keepdims = 0> (d)
                bound = Constant <value = float {50}> ()
                on = Less (s, bound)
            }>
        }
    """
    check(parsed(text), {"x": X}, {"x": X / 2})


def test_long_loops_are_not_unrolled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MOST_UNROLLED", 12)
    text = """
        main (float[3, 4] x) => (float[n, 4] y) {
            most = Constant <value = int64 {20}> ()
            y = Loop (most, , x) <body = b (int64 i, bool c, float[k, 4] a)
                => (bool on, float[k, 4] b) {
                d = Sin (x)
                b = Concat <axis = 0> (a, d)
                on = Identity (c)
            }>
        }
    """
    check(parsed(text), {"x": X})
    with pytest.raises(UnsupportedError, match="depend on what its loops compute"):
        afterglow.import_model(parsed(text))


def test_the_cache_on_disk_has_bodies_too(tmp_path: Path, body_builds: list[str]) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(growing(), path)
    feed = {"x": X, "limit": np.array(900, np.float32)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tier_up, "EARLY_THRESHOLD", 1)
        want = afterglow.compile(path, cache=tmp_path).run(None, feed)
        patch.setattr("afterglow.driver.compile.Stages.finish", None)
        got = afterglow.compile(path, cache=tmp_path).run(None, feed)
    assert body_builds == 2 * ["on more sum", "on more sum", CHUNK_OF_GROWING]
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_versions_are_bounded() -> None:
    versions: tier_up.TieredVersions[Version] = tier_up.TieredVersions(CONTINUATIONS)
    made: list[object] = []

    def make(feed: Mapping[str, Array]) -> Version:
        made.append(feed)
        return Version(None, ())  # type: ignore[arg-type]  # nobody runs it

    for extent in range(3 * CONTINUATIONS):
        feed = {"x": np.empty(extent)}
        found = [versions.find_if_hot(feed, feed, make) for _ in range(tier_up.LATER_THRESHOLD)]
        assert found[-1] is not None
    assert len(versions) == CONTINUATIONS
    assert len(made) == 3 * CONTINUATIONS


def test_what_cannot_be_stacked_is_an_error() -> None:
    text = GROWING.replace("sum = Red", "sum = Identity (grown)  other = Red").replace(
        "Unsqueeze (sum", "Unsqueeze (other"
    )
    proto = parsed(text.replace("sums) {", f"sums){CONSTANTS} {{", 1))
    with pytest.raises(ModelError, match="'sum' has different shapes in iterations"):
        afterglow.compile(proto, cache=False)(X, np.array(99, np.float32))


def test_a_saved_model_drives_its_loops(tmp_path: Path) -> None:
    feed = {"x": X, "limit": np.array(9, np.float32)}
    compiled = afterglow.compile(growing(), cache=False)
    want = compiled.run(None, feed)
    compiled.save(tmp_path / "model.agc")
    got = afterglow.load(tmp_path / "model.agc").run(None, feed)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
