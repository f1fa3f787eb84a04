"""Indices that point outside of what there is, as users meet them."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.ops.indexing import Gather
from afterglow.support.errors import AfterglowError, IndexRangeError
from afterglow.testing.ranged_checks import module_of
from afterglow.types import TensorType
from afterglow.types.dtype import f32, i64
from afterglow.types.extent import Dim, ranged
from tests.frontends.models import BOOL, INT64, body, info, model, node

TABLE = np.arange(4000, dtype=np.float32).reshape(1000, 4)
TOKENS = np.array([1, 5000, 2])
TEXT = inspect.cleandoc(
    """
    error: gather: indices must be from -1000 to 999, got 5000
      in node 'embed'
      help: compile with unchecked=True to use the nearest valid index instead
    """
)


def embedding() -> onnx.ModelProto:
    return model(
        [node("Gather", ["table", "tokens"], ["y"], name="embed")],
        inputs=[info("tokens", (3,), INT64)],
        outputs=[info("y", (3, 4))],
        constants={"table": TABLE},
    )


def text_of(made: afterglow.CompiledModel, *inputs: object) -> str:
    with pytest.raises(IndexRangeError) as caught:
        made(*inputs)
    return str(caught.value)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_a_token_that_the_table_lacks(backend: str) -> None:
    made = afterglow.compile(embedding(), backend=backend, cache=False)
    assert text_of(made, TOKENS) == TEXT
    assert np.array_equal(made(np.array([0, -1, 999])), TABLE[[0, -1, 999]])


def test_a_place_that_a_ranged_table_lacks_in_this_run() -> None:
    rows = ranged(Dim("rows", 1, 50))
    types = [TensorType(f32, (rows, 4)), TensorType(i64, (2,))]
    source = module_of(types, lambda b, table, places: [b.emit(Gather(0), table, places)])
    made = afterglow.compile(source, cache=False)
    assert "from -7 to 6, got 7\n  in node" in text_of(made, TABLE[:7], np.array([0, 7]))
    assert np.array_equal(made(TABLE[:9], np.array([-9, 7])), TABLE[[0, 7]])


def test_a_saved_model_says_the_same(tmp_path: Path) -> None:
    afterglow.compile(embedding(), cache=False).save(tmp_path / "net.agc")
    assert text_of(afterglow.load(tmp_path / "net.agc"), TOKENS) == TEXT
    unchecked = afterglow.compile(embedding(), cache=False, unchecked=True)
    unchecked.save(tmp_path / "net.agc")
    loaded = afterglow.load(tmp_path / "net.agc")
    assert np.array_equal(loaded(TOKENS), TABLE[[1, 999, 2]])


def test_the_cache_keeps_what_is_unchecked_apart(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(embedding().SerializeToString())
    for _ in range(2):
        folder = tmp_path / "cache"
        unchecked = afterglow.compile(tmp_path / "net.onnx", cache=folder, unchecked=True)
        assert np.array_equal(unchecked(TOKENS), TABLE[[1, 999, 2]])
        assert text_of(afterglow.compile(tmp_path / "net.onnx", cache=folder), TOKENS) == TEXT


def known_index() -> onnx.ModelProto:
    return model(
        [node("Gather", ["x", "i"], ["y"], name="pick")],
        inputs=[info("x", (10,))],
        outputs=[info("y", (2,))],
        constants={"i": np.array([3, 10])},
    )


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_a_constant_is_refused_when_compiling(backend: str, optimize: bool) -> None:
    with pytest.raises(IndexRangeError) as caught:
        afterglow.compile(known_index(), backend=backend, optimize=optimize, cache=False)
    assert str(caught.value) == inspect.cleandoc(
        """
        error: gather: indices must be from -10 to 9, got 10
          in node 'pick'
          help: compile with unchecked=True to use the nearest valid index instead
        """
    )
    made = afterglow.compile(known_index(), backend=backend, unchecked=True, cache=False)
    assert np.array_equal(made(np.arange(10, dtype=np.float32)), [3, 9])


def test_a_shape_that_depends_on_such_an_index() -> None:
    nodes = [
        node("Shape", ["x"], ["extents"]),
        node("Gather", ["extents", "i"], ["extent"], name="pick"),
        node("Reshape", ["x", "extent"], ["y"], name="flat"),
    ]
    source = model(nodes, outputs=[info("y", (6,))], constants={"i": np.array([2])})
    with pytest.raises(IndexRangeError) as caught:
        afterglow.compile(source, cache=False)
    assert "from -2 to 1, got 2\n  in node 'pick'" in str(caught.value)


@pytest.mark.parametrize("unchecked", [False, True])
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_an_axis_without_elements(backend: str, unchecked: bool) -> None:
    source = model(
        [node("Gather", ["x", "i"], ["y"], name="pick")],
        inputs=[info("x", (0, 4)), info("i", (2,), INT64)],
        outputs=[info("y", (2, 4))],
    )
    made = afterglow.compile(source, backend=backend, unchecked=unchecked, cache=False)
    assert text_of(made, np.zeros((0, 4), np.float32), np.array([0, 1])) == inspect.cleandoc(
        """
        error: gather: indices must refer to an existing element, got 0
          in node 'pick'
          help: the axis has no elements
        """
    )


def texts() -> onnx.ModelProto:
    """Only the host picks texts."""
    string = onnx.TensorProto.STRING
    return model(
        [node("Gather", ["x", "i"], ["y"], name="pick")],
        inputs=[info("x", (3,), string), info("i", (2,), INT64)],
        outputs=[info("y", (2,), string)],
    )


def test_what_the_host_runs_says_the_same(tmp_path: Path) -> None:
    x = np.array(["a", "b", "c"], object)
    made = afterglow.compile(texts(), cache=False)
    assert "from -3 to 2, got 3\n  in node 'pick'" in text_of(made, x, np.array([0, 3]))
    made = afterglow.compile(texts(), cache=False, unchecked=True)
    made.save(tmp_path / "net.agc")
    for each in (made, afterglow.load(tmp_path / "net.agc")):
        assert list(each(x, np.array([0, 3]))) == ["a", "c"]


def growing() -> onnx.ModelProto:
    """A loop whose value grows, so that the host drives it: it picks x[i] in iteration i."""
    inside = body(
        [
            node("Gather", ["x", "n"], ["one"], name="inside"),
            node("Unsqueeze", ["one", "front"], ["part"]),
            node("Concat", ["had", "part"], ["has"], axis=0),
            node("Identity", ["go"], ["goes"]),
        ],
        [info("n", (), INT64), info("go", (), BOOL), info("had", ("k",))],
        ["goes", "has"],
    )
    return model(
        [node("Loop", ["limit", "", "none"], ["y"], body=inside)],
        inputs=[info("x", (4,)), info("limit", (), INT64)],
        outputs=[info("y", ("k",))],
        constants={"none": np.zeros(0, np.float32), "front": np.array([0])},
    )


def test_a_loop_that_the_host_drives_says_the_same() -> None:
    made = afterglow.compile(growing(), cache=False)
    x = np.arange(4, dtype=np.float32)
    assert np.array_equal(made(x, np.array(4)), x)
    assert "from -4 to 3, got 4\n  in node 'inside'" in text_of(made, x, np.array(6))
    unchecked = afterglow.compile(growing(), cache=False, unchecked=True)
    assert np.array_equal(unchecked(x, np.array(6)), [0, 1, 2, 3, 3, 3])


def test_it_is_an_error_like_others() -> None:
    assert issubclass(IndexRangeError, AfterglowError)
    assert afterglow.IndexRangeError is IndexRangeError
