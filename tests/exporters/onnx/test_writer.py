"""Whole graphs as ONNX: layouts, names, dimensions, bodies, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.exporters.onnx import to_onnx
from afterglow.graph import Builder, Constant, Function, run_function
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add, BitCast, Mul
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, Reshape, Transpose
from afterglow.ops.pooling import MaxPool
from afterglow.ops.quantization import DequantizeLinear
from afterglow.ops.reduction import ReduceMean
from afterglow.support.errors import UnsupportedError
from afterglow.testing.arrays import assert_close
from afterglow.types import TensorType
from afterglow.types.dtype import f32, i32
from afterglow.types.extent import Dim, ranged
from tests.exporters.onnx.running import export, op_types, run

RNG = np.random.default_rng(7)
TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
SAME = Conv((1, 1), (1, 1, 1, 1), (1, 1))


def weight(b: Builder, *shape: int) -> Constant:
    return b.constant(
        np.random.default_rng(shape).standard_normal(shape).astype(np.float32), "weight"
    )


def image_function() -> Function:
    """Channels first outside, last inside, with a branch, a vector and a pool."""
    f = Function("main")
    b = Builder(f)
    x = b.emit(Transpose(TO_LAST), f.input("x", TensorType(f32, (2, 3, 8, 8))))
    y = b.emit(Relu(), b.emit(SAME, x, weight(b, 4, 3, 3, 3), weight(b, 4)))
    z = b.emit(Mul(), b.emit(SAME, y, weight(b, 4, 3, 3, 4)), weight(b, 4))
    joined = b.emit(Concat(3), b.emit(Add(), y, z), y)
    pooled = b.emit(MaxPool((2, 2), (2, 2), (0, 0, 0, 0), (1, 1)), joined)
    f.output("image", b.emit(Transpose(TO_FIRST), pooled))
    mean = b.emit(ReduceMean((1, 2)), pooled)
    f.output("mean", b.emit(Reshape((2, 8)), mean))
    return f


def test_a_graph_that_is_channels_last_inside_has_no_transposes_as_onnx() -> None:
    f, x = image_function(), RNG.standard_normal((2, 3, 8, 8)).astype(np.float32)
    wanted = run_function(f, [x])
    model = export(f.module)
    assert op_types(model) == [
        *("Conv", "Relu", "Conv", "Mul", "Add", "Concat", "MaxPool", "GlobalAveragePool"),
        "Reshape",
    ]
    assert_close(run(model, {"x": x}), wanted, 1e-4)
    assert [output.name for output in model.graph.output] == ["image", "mean"]


def test_weights_that_are_stored_as_integers_are_transposed_as_they_are_stored() -> None:
    f = Function("main")
    b = Builder(f)
    stored = b.constant(RNG.integers(-9, 9, (5, 3)).astype(np.int8), "w")
    scales = b.constant(np.arange(1, 6).astype(np.float32), "scales")
    w = b.emit(DequantizeLinear(0), stored, scales)
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    f.output("y", b.emit(MatMul(transpose_rhs=True), f.input("x", TensorType(f32, (2, 3))), w))
    wanted = run_function(f, [x])
    model = export(f.module)
    assert op_types(model) == ["DequantizeLinear", "MatMul"]
    assert model.graph.node[0].attribute[0].i == 1  # the axis of the columns
    assert_close(run(model, {"x": x}, optimise=False), wanted, 1e-5)


def test_ranged_dimensions_keep_their_names_and_shapes_follow_them() -> None:
    n, s = ranged(Dim("n", 1, 4)), ranged(Dim("s", 1, 16))
    f = Function("main")
    b = Builder(f)
    x = f.input("x", TensorType(f32, (n, s, 6)))
    split = b.emit(Reshape((n, s, 2, 3)), x)
    f.output("y", b.emit(Reshape((n, 2, s * 3)), b.emit(Transpose((0, 2, 1, 3)), split)))
    model = export(f.module)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in dims] == ["n", "s", 6]
    for extents in ((1, 1), (3, 5), (4, 16)):
        data = RNG.standard_normal((*extents, 6)).astype(np.float32)
        wanted = data.reshape(*extents, 2, 3).transpose(0, 2, 1, 3).reshape(extents[0], 2, -1)
        assert_close(run(model, {"x": data}), [wanted], 0)


def test_outputs_may_be_inputs_constants_or_the_same_value() -> None:
    f = Function("main")
    b = Builder(f)
    x = f.input("x", TensorType(f32, (3,)))
    y = b.emit(Relu(), x)
    for name, value in (("a", x), ("b", y), ("c", y), ("d", b.constant(np.ones(2, np.float32)))):
        f.output(name, value)
    data = np.array([-1, 0, 2], np.float32)
    wanted = [data, np.maximum(data, 0), np.maximum(data, 0), np.ones(2, np.float32)]
    assert_close(run(export(f.module), {"x": data}), wanted, 0)


def test_an_op_that_onnx_has_not_is_refused_by_name() -> None:
    f = Function("main")
    x = f.input("x", TensorType(f32, (3,)))
    f.output("y", Builder(f, origins=("/layer/Bits",)).emit(BitCast(i32), x, name="bits"))
    with pytest.raises(UnsupportedError) as caught:
        to_onnx(f.module)
    assert str(caught.value) == (
        "error: ONNX has no op for 1 node\n    bit_cast (%bits, /layer/Bits)"
    )


def test_state_is_refused() -> None:
    f = Function("main")
    state = f.module.state("s", TensorType(f32, (3,)))
    y = Builder(f).emit(Add(), state, f.input("x", TensorType(f32, (3,))))
    f.output("y", y)
    f.update(state, y)
    with pytest.raises(UnsupportedError, match="keeps state"):
        to_onnx(f.module)


def test_equal_modules_give_equal_bytes() -> None:
    first, second = (to_onnx(image_function().module) for _ in range(2))
    assert first.SerializeToString() == second.SerializeToString()
