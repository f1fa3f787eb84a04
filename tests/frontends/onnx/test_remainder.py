"""What is left of a model behind a cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from afterglow.frontends.onnx import read_model, remainder_of
from afterglow.frontends.onnx.remainder import open_remainder
from tests.frontends.models import info, model, node


def source() -> onnx.ModelProto:
    large = np.arange(600, dtype=np.float32).reshape(20, 30)
    nodes = [
        node("MatMul", ["x", "first"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("MatMul", ["b", "second"], ["c"]),
        node("Add", ["c", "z"], ["y"]),
    ]
    return model(
        nodes,
        inputs=[info("x", (2, 20)), info("z", (2, 20))],
        outputs=[info("y", (2, 20))],
        constants={"first": large, "second": large.T.copy()},
    )


def test_only_what_comes_behind_is_left() -> None:
    left = open_remainder(remainder_of(read_model(source()), [["b"]], {}))
    graph = left.proto.graph
    assert [n.op_type for n in graph.node] == ["MatMul", "Add"]
    assert [i.name for i in graph.input] == ["x", "z"]
    (second,) = graph.initializer
    np.testing.assert_array_equal(
        left.array(second), np.arange(600, dtype=np.float32).reshape(20, 30).T
    )
    onnx.checker.check_model(_with_data(left.proto, left))


def _with_data(proto: onnx.ModelProto, left: object) -> onnx.ModelProto:
    """The model with its data inside, and the crossing value as an input."""
    whole = onnx.ModelProto()
    whole.CopyFrom(proto)
    for tensor in whole.graph.initializer:
        array = left.array(tensor)  # type: ignore[attr-defined]
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(array), tensor.name))
    whole.graph.input.append(info("b", (2, 30)))
    return whole


def test_several_cuts_leave_what_any_of_them_needs() -> None:
    left = open_remainder(remainder_of(read_model(source()), [["c"], ["a"]], {}))
    assert [n.op_type for n in left.proto.graph.node] == ["Relu", "MatMul", "Add"]


def test_values_become_constants() -> None:
    z = np.full((2, 20), 7, np.float32)
    left = open_remainder(remainder_of(read_model(source()), [["c"]], {"z": z}))
    assert [i.name for i in left.proto.graph.input] == ["x"]
    (constant,) = left.proto.graph.initializer
    np.testing.assert_array_equal(left.array(constant), z)


def test_data_beside_a_model_are_taken_along(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(source(), path, save_as_external_data=True, location="data.bin", size_threshold=0)
    remainder = remainder_of(read_model(path), [["b"]], {})
    (tmp_path / "data.bin").unlink()
    (second,) = open_remainder(remainder).proto.graph.initializer
    assert open_remainder(remainder).array(second).shape == (30, 20)
    assert len(remainder.weights) == 2400


def test_what_is_left_of_what_is_left_is_the_same() -> None:
    once = remainder_of(read_model(source()), [["b"]], {})
    twice = remainder_of(open_remainder(once), [["b"]], {})
    assert bytes(once.graph) == bytes(twice.graph)
    assert bytes(once.weights) == bytes(twice.weights)
