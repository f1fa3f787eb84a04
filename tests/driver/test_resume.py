"""Saved models in which data decide shapes: they go on where the code in the file ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, reference

import afterglow
from afterglow.driver.bound import MOST_VALUES
from afterglow.driver.compile import Recipe
from afterglow.driver.sources import open_source
from afterglow.frontends.partition import remainder_of
from afterglow.graph.payload import unpack_constants
from afterglow.support.container import read_container
from afterglow.support.errors import UnsupportedError, UsageError
from afterglow.types import Array
from tests.driver.test_specialise import X, count_builds, positive_rows
from tests.frontends.models import BOOL, INT64, info, model, node


def check(loaded: afterglow.CompiledModel, proto: onnx.ModelProto, *arrays: Array) -> None:
    """What comes out is what the standard's reference gives."""
    feed = dict(zip((i.name for i in proto.graph.input), arrays, strict=True))
    wanted = reference.ReferenceEvaluator(proto).run(None, feed)
    for got, want in zip(loaded.run(None, feed), wanted, strict=True):
        assert got.dtype == want.dtype
        largest = np.abs(want).max(initial=1)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6 * largest)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.agc"


def test_shapes_that_were_seen_are_in_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = afterglow.compile(positive_rows(), cache=False)
    for x in (X, X + 1):
        compiled(x)
    compiled.save(path)
    builds = count_builds(monkeypatch)
    loaded = afterglow.load(path, cache=False)
    for x in (X, X + 1, X[::-1].copy()):
        check(loaded, positive_rows(), x)
    assert builds == []


def test_other_shapes_are_compiled_from_the_file_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    afterglow.compile(positive_rows(), cache=False).save(path)
    builds = count_builds(monkeypatch)
    loaded = afterglow.load(path, cache=False)
    for x in (X, X + 1, X - 9, X):
        check(loaded, positive_rows(), x)
    assert len(builds) == 3


def test_what_a_loaded_model_compiled_is_saved_with_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    afterglow.compile(positive_rows(), cache=False).save(path)
    loaded = afterglow.load(path, cache=False)
    check(loaded, positive_rows(), X)
    loaded.save(path)
    builds = count_builds(monkeypatch)
    again = afterglow.load(path, cache=False)
    check(again, positive_rows(), X)
    assert builds == []
    check(again, positive_rows(), X + 1)
    assert len(builds) == 1


PROGRAM = """
import sys
import numpy as np
import afterglow
model = afterglow.load(sys.argv[1], cache=sys.argv[2])
sys.stdout.buffer.write(model(np.load(sys.argv[3]))[0].tobytes())
assert "onnx" not in sys.modules
"""


def test_what_is_compiled_after_loading_is_kept_on_disk(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    afterglow.compile(positive_rows(), cache=False).save(path)
    for _ in range(2):
        check(afterglow.load(path, cache=tmp_path), positive_rows(), X)
        monkeypatch.setattr("afterglow.driver.compile.Stages.finish", None)


def test_another_process_needs_only_the_file_and_no_onnx(path: Path, tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    onnx.save(positive_rows(), source)
    compiled = afterglow.compile(source, cache=False)
    compiled.save(path)
    source.unlink()
    np.save(tmp_path / "x.npy", X)
    command = [sys.executable, "-c", PROGRAM, path, tmp_path / "cache", tmp_path / "x.npy"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == compiled(X)[0].tobytes()
    assert [*(tmp_path / "cache" / "models").glob("*.agc")]


def test_several_cuts_follow_each_other(path: Path) -> None:
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Squeeze", ["places", "zero"], ["flat"]),
        node("Gather", ["x", "flat"], ["kept"]),
        node("Relu", ["kept"], ["positive"]),
        node("Unique", ["positive"], ["u", "first", "inverse", "counts"]),
        node("Cast", ["counts"], ["c"], to=1),
        node("Mul", ["u", "c"], ["y"]),
    ]
    constants = {"zero": np.array([0])}
    proto = model(nodes, inputs=[info("x", (7,))], outputs=[info("y", ("n",))], constants=constants)
    x = np.array([0, 1, 2, -3, 2, 0, 1], np.float32)
    compiled = afterglow.compile(proto, cache=False)
    compiled(x)
    compiled.save(path)
    loaded = afterglow.load(path, cache=False)
    for each in (x, -x, x + 1, np.zeros(7, np.float32)):
        check(loaded, proto, each)


def test_weights_behind_the_cut_are_in_the_file_and_no_others(path: Path) -> None:
    random = np.random.default_rng(0)
    before, behind = (random.normal(size=s).astype(np.float32) for s in ((64, 64), (64, 32)))
    nodes = [
        node("MatMul", ["x", "before"], ["h"]),
        node("Compress", ["h", "keep"], ["kept"], axis=0),
        node("MatMul", ["kept", "behind"], ["y"]),
    ]
    proto = model(
        nodes,
        inputs=[info("x", (100, 64)), info("keep", (100,), BOOL)],
        outputs=[info("y", ("n", 32))],
        constants={"before": before, "behind": behind},
    )
    compiled = afterglow.compile(proto, cache=False)
    compiled.save(path)
    container = read_container(path)
    arrays = unpack_constants(container.section("source.weights"))
    assert [*arrays] == ["behind"]
    np.testing.assert_array_equal(arrays["behind"], behind)
    x, keep = random.normal(size=(100, 64)).astype(np.float32), np.arange(100) % 3 > 0
    check(afterglow.load(path, cache=False), proto, x, keep)


def test_bodies_on_the_host_and_values_that_are_always_the_same(path: Path) -> None:
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
        node("Add", ["places", "offset"], ["y"]),
    ]
    proto = model(
        nodes,
        inputs=[info("x", (5,)), info("flag", (), BOOL), info("offset", (1,), INT64)],
        outputs=[info("y", None, INT64)],
        constants={"zero": np.array([0])},
    )
    compiled = afterglow.compile(proto, values={"offset": np.array([10])}, cache=False)
    x = np.array([1, -1, 2, 0, 3], np.float32)
    want = [compiled(each, np.array(flag)) for each in (x, -x) for flag in (True, False)]
    compiled.save(path)
    loaded = afterglow.load(path, cache=False)
    assert [info.name for info in loaded.inputs] == ["x", "flag"]
    got = [loaded(each, np.array(flag)) for each in (x, -x) for flag in (True, False)]
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_options_are_kept(path: Path) -> None:
    compiled = afterglow.compile(
        positive_rows(), target="x86-64-v3", exact=True, max_arena="1MiB", cache=False
    )
    compiled.save(path)
    (version,) = afterglow.load(path, threads=1).versions()
    options = version.continuation.specialiser.options
    assert (options.target, options.max_arena, options.policy.exact) == ("x86-64-v3", 1 << 20, True)
    assert options.threads == 1


def free_places() -> onnx.ModelProto:
    """Where rows of x are positive, for any number of rows."""
    nodes = [
        node("Relu", ["x"], ["positive"]),
        node("NonZero", ["positive"], ["index"]),
        node("Add", ["index", "index"], ["y"]),
    ]
    return model(nodes, inputs=[info("x", ("n", 3))], outputs=[info("y", (2, "m"), INT64)])


def test_free_dimensions_are_those_that_were_listed(path: Path) -> None:
    afterglow.compile(free_places(), dims={"n": [1, 2]}, cache=False).save(path)
    loaded = afterglow.load(path, cache=False)
    for rows in (1, 2):
        check(loaded, free_places(), np.eye(rows, 3, dtype=np.float32))
    with pytest.raises(UsageError) as caught:
        loaded(np.ones((3, 3), np.float32))
    assert str(caught.value) == (
        f"error: {path}: the model was not saved for x: f32[3, 3]\n"
        "  help: it takes x: f32[1, 3]; x: f32[2, 3]; "
        "run the source model with others and save it again"
    )


def test_nothing_is_there_to_save_yet(path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        afterglow.compile(shaped()).save(path)
    assert str(caught.value) == (
        "error: nothing of the model is compiled yet: it has data-dependent shapes\n"
        "  help: run it once"
    )


def shaped() -> onnx.ModelProto:
    """X in a shape that is an input."""
    return model(
        [node("Reshape", ["x", "shape"], ["y"])],
        inputs=[info("x", (2, 3)), info("shape", (2,), INT64)],
        outputs=[info("y", ("a", "b"))],
    )


def test_versions_for_values_are_saved(path: Path) -> None:
    compiled = afterglow.compile(shaped(), cache=False)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for shape in ((3, 2), (6, 1)):
        compiled(x, np.array(shape))
    compiled.save(path)
    loaded = afterglow.load(path)
    for shape in ((3, 2), (6, 1)):
        np.testing.assert_array_equal(loaded(x, np.array(shape)), x.reshape(shape))
    with pytest.raises(UsageError) as caught:
        loaded(x, np.array((1, 6)))
    assert str(caught.value) == (
        f"error: {path}: the model was not saved for x: f32[2, 3], shape: i64[2] = [1, 6]\n"
        "  help: it takes x: f32[2, 3], shape: i64[2] = [3, 2]; "
        "x: f32[2, 3], shape: i64[2] = [6, 1]; run the source model with others and save it again"
    )


def test_models_of_the_interpreter_go_on_too(path: Path) -> None:
    compiled = afterglow.compile(positive_rows(), backend="interpreter")
    want = compiled(X)
    compiled.save(path)
    for have, expected in zip(afterglow.load(path)(X), want, strict=True):
        np.testing.assert_array_equal(have, expected)


def test_values_that_are_no_tensors_cannot_be_kept() -> None:
    graph = open_source(positive_rows()).graph
    with pytest.raises(UnsupportedError) as caught:
        remainder_of(graph, [["sum"]], {"x": [X]})
    assert str(caught.value) == (
        "error: input 'x' is bound to a list: such a model cannot be saved\n"
        "  help: bind tensors only, and give the others with each call"
    )


def test_a_module_is_never_cut() -> None:
    module = afterglow.import_model(model([node("Relu", ["x"], ["y"])]))
    recipe = afterglow.compile(module)._specialiser
    assert isinstance(recipe, Recipe)
    with pytest.raises(
        UsageError, match="a module has static shapes: there is nothing to partition"
    ):
        recipe.source_left([["x"]])


def test_values_of_which_there_were_too_many_are_not_told_apart(path: Path) -> None:
    proto = model(
        [node("Expand", ["x", "shape"], ["wide"]), node("Relu", ["wide"], ["y"])],
        inputs=[info("x", (1, 1)), info("shape", (2,), INT64)],
        outputs=[info("y", ("a", "b"))],
    )
    x = np.ones((1, 1), np.float32)
    compiled = afterglow.compile(proto, cache=False)
    for rows in range(1, MOST_VALUES + 3):
        compiled(x, np.array([rows, 2]))
    (version,) = compiled.versions()
    assert version.unbound == {"shape"}
    compiled.save(path)
    loaded = afterglow.load(path, cache=False)
    (version,) = loaded.versions()
    assert version.unbound == {"shape"}
    for rows in (1, MOST_VALUES + 2, MOST_VALUES + 9):
        check(loaded, proto, x, np.array([rows, 2]))
    assert loaded.versions() == [version]
