"""Convolutions of bytes whose zero point is known only at run time, from ONNX to machine code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import afterglow as ag
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.driver.stages import Stages
from afterglow.types import Array

Shape = tuple[int, ...]
CONVS: dict[str, tuple[Shape, Shape, dict[str, object]]] = {
    "1x1": ((1, 12, 7, 6), (21, 12, 1, 1), {}),
    "3x3": ((2, 3, 9, 8), (20, 3, 3, 3), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    "depthwise": ((1, 20, 7, 9), (20, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 20}),
    "in groups": ((1, 8, 7, 9), (6, 4, 3, 3), {"pads": [1, 1, 1, 1], "group": 2}),
    "dilated, one axis": ((1, 16, 40), (16, 16, 5), {"pads": [6, 6], "dilations": [3]}),
}


def model(x: Shape, weight: Array, attributes: dict[str, object]) -> onnx.ModelProto:
    """DynamicQuantizeLinear, ConvInteger, Cast and Mul, as quantizers write them."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["bytes", "scale", "zero"]),
        helper.make_node("ConvInteger", ["bytes", "w", "zero", "w_zero"], ["sums"], **attributes),
        helper.make_node("Cast", ["sums"], ["floats"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["scale", "w_scale"], ["product"]),
        helper.make_node("Mul", ["floats", "product"], ["y"]),
    ]
    constants = {"w": weight, "w_zero": weight.dtype.type(3), "w_scale": np.float32(0.01)}
    graph = helper.make_graph(
        nodes,
        "dynamic",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x)],
        [helper.make_value_info("y", onnx.TypeProto())],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(params=CONVS)
def chain(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    x, weight, attributes = CONVS[request.param]
    rng = np.random.default_rng(0)
    path = tmp_path / "dynamic.onnx"
    onnx.save(model(x, rng.integers(-100, 100, weight).astype(np.int8), attributes), path)
    return path


def test_the_convolution_stays_one_of_bytes(chain: Path) -> None:
    stages = Stages(Options())
    module, _ = open_source(chain).load(stages.options)
    kinds = [node.op.mnemonic for node in stages.optimise(module).main.nodes]
    assert "quantized_conv" in kinds
    assert "conv" not in kinds


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("shift", [-4.0, 0.0, 4.0])
def test_results_are_those_of_onnx_runtime(chain: Path, backend: str, shift: float) -> None:
    session = onnxruntime.InferenceSession(str(chain))
    shape = tuple(session.get_inputs()[0].shape)
    x = (np.random.default_rng(1).standard_normal(shape) + shift).astype(np.float32)
    (wanted,) = session.run(None, {"x": x})
    found = ag.compile(chain, backend=backend)(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
