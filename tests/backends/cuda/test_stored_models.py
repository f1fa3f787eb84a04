"""Models whose weights are stored in few bits: as options ask for, or as they arrive."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import afterglow as ag
from afterglow.backends.launched.memories import CONSTANTS

RANDOM = np.random.default_rng(5)
DEPTH, COLUMNS = 256, 96
WEIGHT = (RANDOM.standard_normal((DEPTH, COLUMNS)) / 16).astype("f4")
TYPES = {
    "i8": (TensorProto.INT8, np.int8),
    "i4": (TensorProto.INT4, ml_dtypes.int4),
    "u4": (TensorProto.UINT4, ml_dtypes.uint4),
    "e4m3": (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    "e5m2": (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
}


def _rows(count: int) -> np.ndarray:
    return RANDOM.standard_normal((count, DEPTH)).astype("f4")


def _model(nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], rows: int) -> bytes:
    """A model from x to y."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, DEPTH])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def _product(rows: int) -> bytes:
    """A product with a residual behind it."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    bias = RANDOM.standard_normal(COLUMNS).astype("f4")
    parts = numpy_helper.from_array(WEIGHT, "w"), numpy_helper.from_array(bias, "b")
    return _model(nodes, [*parts], rows)


@pytest.mark.parametrize("rows", [1, 17])
@pytest.mark.parametrize("precision", ["weights_int8", "weights_int4", "weights_f8"])
def test_options_give_what_the_definition_gives(precision: str, rows: int) -> None:
    model, x = _product(rows), _rows(rows)
    found = ag.compile(model, backend="cuda", target="emulated", precision=precision)
    wanted = ag.compile(model, backend="interpreter", precision=precision)
    np.testing.assert_allclose(found(x), wanted(x), rtol=1e-4, atol=1e-4)
    assert found.memory.weight_bytes < 0.31 * WEIGHT.nbytes


def _dequantized(kind: str, axis: int | None, block: int) -> tuple[onnx.NodeProto, list]:
    """The weight as numbers of a type with scales: one, by axis, or by blocks along it."""
    element, dtype = TYPES[kind]
    most = 448.0 if kind == "e4m3" else 100.0 if kind in ("e5m2", "i8") else 7.0
    shape: tuple[int, ...] = ()
    if block:
        shape = tuple(-(-n // block) if a == axis else n for a, n in enumerate(WEIGHT.shape))
    elif axis is not None:
        shape = (WEIGHT.shape[axis],)
    scale = RANDOM.uniform(0.5, 1.0, shape).astype("f4") / most
    numbers = np.clip(RANDOM.standard_normal(WEIGHT.shape) * most / 4, -most, most)
    stored = (np.abs(numbers) if kind == "u4" else numbers).astype(dtype)
    constants = [
        helper.make_tensor("q", element, WEIGHT.shape, stored.astype("f4").reshape(-1)),
        numpy_helper.from_array(scale, "s"),
    ]
    extra = {"axis": axis} if axis is not None else {}
    extra |= {"block_size": block} if block else {}
    return helper.make_node("DequantizeLinear", ["q", "s"], ["w"], **extra), constants


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("axis", "block"), [(None, 0), (1, 0), (0, 64)])
def test_dequantized_constants_are_multiplied_as_they_are_stored(
    kind: str, axis: int | None, block: int
) -> None:
    node, constants = _dequantized(kind, axis, block)
    model = _model([node, helper.make_node("MatMul", ["x", "w"], ["y"])], constants, 3)
    found, x = ag.compile(model, backend="cuda", target="emulated"), _rows(3)
    (wanted,) = ReferenceEvaluator(onnx.load_model_from_string(model)).run(None, {"x": x})
    np.testing.assert_allclose(found(x), wanted, rtol=1e-4, atol=1e-4)
    assert "stored_matmul" in found.ir("triton")
    assert found.memory.weight_bytes < 0.3 * WEIGHT.nbytes


def test_floats_that_are_not_finite_are_what_they_are() -> None:
    node, constants = _dequantized("e4m3", 1, 0)
    raw = bytearray(constants[0].raw_data or constants[0].int32_data)
    raw[5] = 0x7F
    constants[0] = helper.make_tensor("q", TYPES["e4m3"][0], WEIGHT.shape, bytes(raw), raw=True)
    model = _model([node, helper.make_node("MatMul", ["x", "w"], ["y"])], constants, 3)
    found = ag.compile(model, backend="cuda", target="emulated")(_rows(3))
    assert np.isnan(found[:, 5]).all()
    assert np.isfinite(np.delete(found, 5, 1)).all()


def _bits_product(rows: int, bits: int, block: int, zeros: bool, element: int) -> bytes:
    """A product as language models have it: of f32 or f16, with weights of some bits."""
    kind = helper.tensor_dtype_to_np_dtype(element)
    blocks = DEPTH // block
    packed = RANDOM.integers(0, 256, (COLUMNS, blocks, block * bits // 8)).astype("u1")
    constants = [
        numpy_helper.from_array(packed, "q"),
        numpy_helper.from_array(RANDOM.uniform(0.001, 0.01, COLUMNS * blocks).astype(kind), "s"),
    ]
    names = ["h", "q", "s"]
    if zeros:
        points = RANDOM.integers(0, 256, COLUMNS * blocks * bits // 8).astype("u1")
        constants.append(numpy_helper.from_array(points, "z"))
        names.append("z")
    sizes = {"K": DEPTH, "N": COLUMNS, "bits": bits, "block_size": block}
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=element),
        helper.make_node("MatMulNBits", names, ["m"], domain="com.microsoft", **sizes),
        helper.make_node("Cast", ["m"], ["y"], to=TensorProto.FLOAT),
    ]
    return _model(nodes, constants, rows)


@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.FLOAT16])
@pytest.mark.parametrize(
    ("bits", "block", "zeros"), [(4, 32, True), (4, 128, False), (8, 64, True)]
)
@pytest.mark.parametrize("rows", [1, 33])
def test_products_of_language_models(
    rows: int, bits: int, block: int, zeros: bool, element: int
) -> None:
    model, x = _bits_product(rows, bits, block, zeros, element), _rows(rows)
    found = ag.compile(model, backend="cuda", target="emulated")
    wanted = ag.compile(model, backend="interpreter", optimize=False)(x)
    tolerance = 1e-4 if element == TensorProto.FLOAT else 1e-2
    np.testing.assert_allclose(found(x), wanted, rtol=tolerance, atol=tolerance)
    assert found.memory.weight_bytes < DEPTH * COLUMNS * bits / 8 * 1.35


def test_products_of_half_precision_read_stored_weights() -> None:
    model, x = _bits_product(20, 4, 32, True, TensorProto.FLOAT), _rows(20)
    found = ag.compile(model, backend="cuda", target="emulated", precision="float16")
    np.testing.assert_allclose(found(x), ag.compile(model)(x), rtol=1e-2, atol=1e-2)
    assert "float16" in found.ir("triton")


def test_rows_that_are_rounded_to_eight_bits_are_multiplied_so() -> None:
    model, x = _bits_product(3, 4, 32, False, TensorProto.FLOAT), _rows(3)
    found = ag.compile(model, backend="cuda", target="emulated", activations="int8")
    np.testing.assert_allclose(
        found(x), ag.compile(model, activations="int8")(x), rtol=1e-4, atol=1e-4
    )
    assert found.memory.weight_bytes < 0.2 * WEIGHT.nbytes


@pytest.mark.parametrize("precision", ["weights_int8", "weights_int4", "weights_f8"])
def test_a_table_that_is_looked_up_and_multiplied_is_stored_once(precision: str) -> None:
    table = RANDOM.standard_normal((100, DEPTH)).astype("f4")
    nodes = [
        helper.make_node("Gather", ["w", "i"], ["e"]),
        helper.make_node("Add", ["e", "x"], ["a"]),
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["a", "t"], ["y"]),
    ]
    places = numpy_helper.from_array(np.array([3, -1]), "i")
    model, x = _model(nodes, [numpy_helper.from_array(table, "w"), places], 2), _rows(2)
    found = ag.compile(model, backend="cuda", target="emulated", precision=precision)
    wanted = ag.compile(model, backend="interpreter", precision=precision)
    np.testing.assert_allclose(found(x), wanted(x), rtol=1e-3, atol=1e-3)
    assert found.memory.weight_bytes < 0.3 * table.nbytes


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_product_is_one_launch_with_what_follows(target: str) -> None:
    made = ag.compile(
        _product(1), backend="cuda", target=target, precision="weights_int4", cache=False
    )
    (version,) = made.versions()
    artifact = version.compiled.artifact
    assert len(artifact.manifest["parts"]) == 1
    scales = COLUMNS * DEPTH // 32 * 3
    assert len(artifact.sections[CONSTANTS]) <= WEIGHT.size // 2 + scales + 4 * COLUMNS + 64
