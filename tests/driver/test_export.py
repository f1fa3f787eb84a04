"""Models written for other engines: in floats, and in integers that a profile chooses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import afterglow
from afterglow.backends.cpu import Target
from afterglow.support.errors import UsageError
from afterglow.types import Array
from tests.exporters.onnx.running import op_types, run

onnxruntime.set_default_logger_severity(4)
RNG = np.random.default_rng(3)


def small_net() -> onnx.ModelProto:
    """Two convolutions with a branch around the second, a pool, and a product."""

    def weight(name: str, *shape: int) -> TensorProto:
        data = np.random.default_rng(shape).standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return numpy_helper.from_array(data.astype(np.float32), name)

    padded = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], name="first", **padded),
        helper.make_node("Relu", ["c1"], ["r1"], name="rectify"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], name="second", **padded),
        helper.make_node("Add", ["r1", "c2"], ["s"], name="sum"),
        helper.make_node("GlobalAveragePool", ["s"], ["g"], name="pool"),
        helper.make_node("Flatten", ["g"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], name="last"),
    ]
    weights = [weight("w1", 8, 3, 3, 3), weight("w2", 8, 8, 3, 3), weight("w3", 8, 5)]
    biases = [weight(f"b{i}", n) for i, n in ((1, 8), (2, 8), (3, 5))]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [*weights, *biases],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def samples(count: int) -> list[Array]:
    return [RNG.standard_normal((1, 3, 12, 12)).astype(np.float32) for _ in range(count)]


def test_a_float_model_is_written_optimised(tmp_path: Path) -> None:
    net, (x,), path = small_net(), samples(1), tmp_path / "out.onnx"
    afterglow.export_onnx(net, path)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert "Transpose" not in op_types(model)
    np.testing.assert_allclose(run(model, {"x": x})[0], run(net, {"x": x})[0], atol=1e-4)


def test_a_quantized_model_gives_what_ours_gives_within_a_step(tmp_path: Path) -> None:
    net, given, path = small_net(), samples(8), tmp_path / "out.onnx"
    profile = afterglow.profile(net, given)
    afterglow.export_onnx(net, path, precision="int8", profile=profile)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    ours = afterglow.compile(net, precision="int8", profile=profile, cache=False)
    step = (
        max(  # of what the last layer reads, which all its columns have in common
            float(np.abs(np.asarray(ours.run(None, {"x": x})[0])).max()) for x in given
        )
        / 255
    )
    for x in given:
        want = np.asarray(ours.run(None, {"x": x})[0])
        # Where a processor has no dot products of bytes, ONNX Runtime's own saturate.
        for optimise in (False, True) if Target.host().dot_mixed_signs else (False,):
            assert np.abs(run(model, {"x": x}, optimise=optimise)[0] - want).max() <= step


def test_an_exported_quantized_model_compiles_to_the_same_bits(tmp_path: Path) -> None:
    net, given, path = small_net(), samples(3), tmp_path / "out.onnx"
    profile = afterglow.profile(net, given)
    afterglow.export_onnx(net, path, precision="int8", profile=profile)
    ours = afterglow.compile(net, precision="int8", profile=profile, cache=False)
    again = afterglow.compile(path, cache=False)
    for x in given:
        first, second = (np.asarray(model.run(None, {"x": x})[0]) for model in (ours, again))
        np.testing.assert_array_equal(first, second)


def test_quantized_weights_are_bytes_with_a_scale_for_each_column(tmp_path: Path) -> None:
    net, path = small_net(), tmp_path / "out.onnx"
    profile = afterglow.profile(net, samples(2))
    afterglow.export_onnx(net, path, precision="int8", profile=profile)
    model = onnx.load(path)
    stored = {t.name: t for t in model.graph.initializer}
    shapes = {
        (t.data_type, tuple(t.dims)) for t in stored.values() if t.data_type != TensorProto.FLOAT
    }
    assert {(TensorProto.INT8, (8, 3, 3, 3)), (TensorProto.INT8, (8, 8, 3, 3))} <= shapes
    assert {(TensorProto.INT32, (8,)), (TensorProto.UINT8, ())} <= shapes
    per_axis = [
        node
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and list(stored[node.input[1]].dims) == [8]
    ]
    assert per_axis
    assert all(node.attribute[0].i == 0 for node in per_axis)


def test_the_model_itself_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(small_net(), path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is the model itself, which is never overwritten"):
        afterglow.export_onnx(path, path)
    assert path.read_bytes() == before


def test_a_failed_export_changes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "out.onnx"
    path.write_bytes(b"before")
    with pytest.raises(UsageError, match="needs a profile"):
        afterglow.export_onnx(small_net(), path, precision="int8")
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_bytes() == b"before"
