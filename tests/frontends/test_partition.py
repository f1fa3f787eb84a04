"""What is left of a model behind a cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from afterglow.frontends.definition.host_graph import graph_of
from afterglow.frontends.onnx import read_model
from afterglow.frontends.partition import open_remainder, remainder_of
from afterglow.graph import HostOp, Module, verify_module
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


def graph(model_source: onnx.ModelProto | Path) -> Module:
    return graph_of(read_model(model_source).definition)


def ops(module: Module) -> list[str]:
    verify_module(module)
    return [node.op.name for node in module.main.nodes if isinstance(node.op, HostOp)]


def test_only_what_comes_behind_is_left() -> None:
    left = open_remainder(remainder_of(graph(source()), [["b"]], {}))
    assert ops(left) == ["boundary", "MatMul", "Add"]
    assert [i.name for i in left.main.inputs] == ["x", "z"]
    (second,) = left.constants.values()
    np.testing.assert_array_equal(second.data, np.arange(600, dtype=np.float32).reshape(20, 30).T)


def test_what_is_left_is_graph_ir() -> None:
    left = remainder_of(graph(source()), [["b"]], {})
    assert bytes(left.graph).decode() == (
        "const @second : f32[30, 20]\n"
        "func @main(%x: f32[2, 20], %z: f32[2, 20]) {\n"
        '  %b = host() {dialect = "", domain = "", name = "boundary", version = 0, overload = "", '
        "results = (true,), attributes = (), tensors = (), captured = (), bodies = (), "
        "functions = (), named = 0} : ?\n"
        '  %c = host(%b, @second) {dialect = "onnx", domain = "", name = "MatMul", version = 17, '
        'overload = "", results = (true,), attributes = (), tensors = (), captured = (), '
        "bodies = (), functions = (), named = 0} : ?\n"
        '  %y = host(%c, %z) {dialect = "onnx", domain = "", name = "Add", version = 17, '
        'overload = "", results = (true,), attributes = (), tensors = (), captured = (), '
        "bodies = (), functions = (), named = 0} : f32[2, 20]\n"
        "  return %y\n"
        "}\n"
    )


def test_several_boundaries_leave_what_any_of_them_needs() -> None:
    left = open_remainder(remainder_of(graph(source()), [["c"], ["a"]], {}))
    assert ops(left) == ["boundary", "Relu", "MatMul", "Add"]


def test_values_become_constants() -> None:
    z = np.full((2, 20), 7, np.float32)
    left = open_remainder(remainder_of(graph(source()), [["c"]], {"z": z}))
    assert [i.name for i in left.main.inputs] == ["x"]
    (constant,) = left.constants.values()
    np.testing.assert_array_equal(constant.data, z)


def test_data_beside_a_model_are_taken_along(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(source(), path, save_as_external_data=True, location="data.bin", size_threshold=0)
    remainder = remainder_of(graph(path), [["b"]], {})
    (tmp_path / "data.bin").unlink()
    (second,) = open_remainder(remainder).constants.values()
    assert second.data.shape == (30, 20)
    assert len(remainder.weights) < 2400 + 256


def test_what_is_left_of_what_is_left_is_the_same() -> None:
    once = remainder_of(graph(source()), [["b"]], {})
    twice = remainder_of(open_remainder(once), [["b"]], {})
    assert bytes(once.graph) == bytes(twice.graph)
    assert bytes(once.weights) == bytes(twice.weights)
