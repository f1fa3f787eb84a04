"""Kernels that look up what data point to: no memory of others, and an alarm if they had to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.graph import Module, parse_module
from afterglow.support.errors import IndexRangeError
from afterglow.types import Array
from tests.frontends.models import BOOL, FLOAT, INT64, body, info, model, node

FLOATS = np.arange(1, 1025, dtype=np.float32)
WRONG = (7, -8, 2**31, 2**32 + 1, -(2**32) - 1, 2**63 - 1, -(2**63))
"""Indices that are out of range for 7 elements, and those that 32 bits would make good ones."""


def floats(*shape: int) -> Array:
    return np.resize(FLOATS, shape)


def with_wrong(wrong: int, *shape: int) -> Array:
    indices = np.arange(np.prod(shape), dtype=np.int64).reshape(shape) % 7
    indices.reshape(-1)[-1] = wrong
    return indices


def one_node(op: str, feed: Mapping[str, Array], outputs: int = 1, **attributes: object):
    names = [*(f"y{number}" for number in range(outputs - 1)), "y"]
    types = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64}
    inputs = [
        info(name, array.shape, types.get(array.dtype, onnx.TensorProto.INT32))
        for name, array in feed.items()
    ]
    return model(
        [node(op, [*feed], names, name="look", **attributes)],
        inputs=inputs,
        outputs=[onnx.ValueInfoProto(name="y")],
        opset=18,
    )


def text_of(made: afterglow.CompiledModel, feed: Mapping[str, Array]) -> str:
    with pytest.raises(IndexRangeError) as caught:
        made.run(None, feed)
    return str(caught.value)


def refused(source: onnx.ModelProto | Module, feed: Mapping[str, Array]) -> str:
    """The error of machine code, which is that of the interpreter."""
    texts = [
        text_of(afterglow.compile(source, backend=backend, cache=False), feed)
        for backend in ("cpu", "interpreter")
    ]
    assert texts[0] == texts[1]
    return texts[0].splitlines()[0].removeprefix("error: ")


def operands(op: str, wrong: int) -> dict[str, Array]:
    match op:
        case "Gather":
            return {"x": floats(7, 5), "i": with_wrong(wrong, 3)}
        case "GatherElements":
            return {"x": floats(7, 40), "i": with_wrong(wrong, 7, 40)}
        case "GatherND":
            pairs = [with_wrong(2, 37) % 3, with_wrong(wrong, 37)]
            return {"x": floats(3, 7), "i": np.stack(pairs, 1)}
        case "ScatterElements":
            return {"x": floats(7, 40), "i": with_wrong(wrong, 7, 40), "u": floats(7, 40)}
        case "ScatterND":
            return {"x": floats(7, 5), "i": with_wrong(wrong, 3, 1), "u": floats(3, 5)}
    raise AssertionError(op)


OPS = ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND")


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("op", OPS)
def test_an_index_out_of_range_is_an_error(op: str, wrong: int) -> None:
    feed = operands(op, wrong)
    what = refused(one_node(op, feed), feed)
    assert what.endswith(f": indices must be from -7 to 6, got {wrong}")


@pytest.mark.parametrize("op", OPS)
def test_unchecked_the_nearest_index_is_taken(op: str) -> None:
    feed = operands(op, 2**40)
    source = one_node(op, feed)
    made = afterglow.compile(source, cache=False, unchecked=True)
    right = afterglow.compile(source, cache=False)
    assert np.array_equal(made.run(None, feed)[0], right.run(None, operands(op, 6))[0])
    hosted = afterglow.compile(source, cache=False, unchecked=True, backend="interpreter")
    assert np.array_equal(made.run(None, feed)[0], hosted.run(None, feed)[0])


@pytest.mark.parametrize("image", [1, -1, 2**40, 2**63 - 1])
def test_regions_are_of_images_that_are_there(image: int) -> None:
    feed = {
        "x": floats(1, 1, 8, 8),
        "r": np.array([[0, 0, 4, 4]], np.float32),
        "b": np.array([image]),
    }
    what = refused(one_node("RoiAlign", feed, output_height=2, output_width=2), feed)
    assert what == f"roi_align: batch_indices must be from 0 to 0, got {image}"


@pytest.mark.parametrize("image", [1.0, -1.0, 1e30, np.nan])
def test_pooled_regions_are_of_images_that_are_there(image: float) -> None:
    feed = {"x": floats(1, 1, 8, 8), "r": np.array([[image, 0, 0, 4, 4]], np.float32)}
    what = refused(one_node("MaxRoiPool", feed, pooled_shape=[2, 2]), feed)
    assert what.startswith("max_roi_pool: rois must be from 0 to 0, got ")


@pytest.mark.parametrize("length", [-1, 6])
@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_sequences_end_where_they_are(op: str, gates: int, length: int) -> None:
    feed = {
        "x": floats(5, 2, 3),
        "w": floats(1, 4 * gates, 3),
        "r": floats(1, 4 * gates, 4),
        "b": floats(1, 8 * gates),
        "l": np.array([5, length], np.int32),
    }
    what = refused(one_node(op, feed, hidden_size=4), feed)
    assert what == f"{op.lower()}: lengths must be from 0 to 5, got {length}"


@pytest.mark.parametrize("length", [-1, 6])
def test_no_more_is_reversed_than_is_there(length: int) -> None:
    feed = {"x": floats(5, 2), "l": np.array([0, length])}
    what = refused(one_node("ReverseSequence", feed, batch_axis=1, time_axis=0), feed)
    assert what == f"check_lengths: lengths must be from 0 to 5, got {length}"


def test_a_deformed_convolution_looks_nowhere_for_what_is_no_number() -> None:
    offsets = np.zeros((1, 18, 4, 4), np.float32)
    offsets[0, 3, 1, 1:] = np.nan, np.inf, -np.inf
    feed = {"x": floats(1, 2, 6, 6), "w": floats(3, 2, 3, 3), "o": offsets}
    made = afterglow.compile(one_node("DeformConv", feed), cache=False)
    assert np.isfinite(made.run(None, feed)[0][..., 0]).all()


def two_look_ups() -> onnx.ModelProto:
    """Many elements, so that threads share both; the second looks at what the first found."""
    nodes = [
        node("GatherElements", ["x", "i"], ["first"], name="one", axis=1),
        node("GatherElements", ["first", "j"], ["y"], name="two", axis=1),
    ]
    indices = [info(name, (64, 4096), INT64) for name in "ij"]
    return model(nodes, inputs=[info("x", (64, 4096)), *indices], outputs=[info("y", (64, 4096))])


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_first_step_that_is_wrong_is_named(threads: int) -> None:
    made = afterglow.compile(two_look_ups(), cache=False, threads=threads)
    good = np.zeros((64, 4096), np.int64)
    bad = good.copy()
    bad[:, 9] = 4096
    x = floats(64, 4096)
    for i, j, culprit in ((bad, bad, "one"), (good, bad, "two"), (bad, good, "one")):
        text = text_of(made, {"x": x, "i": i, "j": j})
        assert f"got 4096\n  in node '{culprit}'" in text
        assert np.array_equal(made.run(None, {"x": x, "i": good, "j": good})[0][:, 5], x[:, 0])


def branches() -> onnx.ModelProto:
    """x[i] if told so, else x."""
    there = body([node("Gather", ["x", "i"], ["a"], name="inside")], [], ["a"])
    here = body([node("Identity", ["x"], ["b"])], [], ["b"])
    return model(
        [node("If", ["c"], ["y"], then_branch=there, else_branch=here)],
        inputs=[info("x", (3,)), info("i", (3,), INT64), info("c", (), BOOL)],
        outputs=[info("y", (3,))],
    )


def test_a_branch_that_is_not_taken_raises_nothing() -> None:
    feed = {"x": floats(3), "i": np.array([0, 1, 3]), "c": np.array(True)}
    assert refused(branches(), feed) == "gather: indices must be from -3 to 2, got 3"
    made = afterglow.compile(branches(), cache=False)
    assert np.array_equal(made.run(None, {**feed, "c": np.array(False)})[0], floats(3))


LOOP = """
    const @true : bool[] = [true]
    func @body(%n: i64[], %total: f32[], %x: f32[4]) {
      %one = gather(%x, %n) {axis = 0} : f32[]
      %next = add(%total, %one) : f32[]
      return @true, %next
    }
    func @main(%limit: i64[], %total: f32[], %x: f32[4]) {
      %r = loop(%limit, @true, %total, %x) {body = @body, carried = 1} : f32[]
      return %r
    }
"""


def test_a_loop_tells_what_is_wrong_inside() -> None:
    module = parse_module(LOOP)
    feed = {"limit": np.array(6), "total": np.float32(0).reshape(()), "x": floats(4)}
    assert refused(module, feed) == "gather: indices must be from -4 to 3, got 4"
    made = afterglow.compile(module, cache=False)
    assert made.run(None, {**feed, "limit": np.array(4)})[0] == 10


def test_what_may_be_left_out_raises_nothing() -> None:
    module = parse_module(
        """
        func @main(%x: f32[4], %i: i64[2], %p: bool[]) {
          %y = gather(%x, %i) {axis = 0} if %p : f32[2]
          return %y
        }
        """
    )
    feed = {"x": floats(4), "i": np.array([0, 9]), "p": np.array(False)}
    for backend in ("cpu", "interpreter"):
        afterglow.compile(module, backend=backend, cache=False).run(None, feed)


def test_verifying_code_says_the_same() -> None:
    feed = operands("Gather", 9)
    made = afterglow.compile(one_node("Gather", feed), cache=False, verify=True)
    assert "got 9" in text_of(made, feed)
