"""Reading model files: weights stay where they are, whatever their element type and place."""

from __future__ import annotations

import mmap
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from afterglow.frontends.onnx import import_onnx, read_model
from afterglow.frontends.onnx.wire import LARGE_BYTES, OWN_FILE, without_weights
from afterglow.types import Array
from afterglow.types.dtype import DTYPES
from tests.frontends.models import FLOAT, body, graph, info, model, node

LARGE = np.arange(3000, dtype=np.float32).reshape(1000, 3)


def holding(*tensors: TensorProto) -> onnx.ModelProto:
    """A model that has these tensors, and does nothing with them."""
    main = graph([node("Relu", ["x"], ["y"])])
    main.initializer.extend(tensors)
    return model(main)


def first_tensor(source: object) -> Array:
    file = read_model(source)  # type: ignore[arg-type]
    return file.array(file.proto.graph.initializer[0])


def owner(array: Array) -> object:
    """What owns the memory of an array."""
    base: object = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return base.obj if isinstance(base, memoryview) else base


def test_large_weights_are_views_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(holding(numpy_helper.from_array(LARGE, "w")).SerializeToString())
    array = first_tensor(path)
    np.testing.assert_array_equal(array, LARGE)
    assert isinstance(owner(array), mmap.mmap)
    assert not array.flags.writeable


def test_a_tensor_may_say_that_its_data_are_its_own() -> None:
    """Some writers spell out the default of a field, and after the data."""
    spelled = numpy_helper.from_array(LARGE, "w")
    spelled.data_location = TensorProto.DEFAULT
    np.testing.assert_array_equal(first_tensor(holding(spelled).SerializeToString()), LARGE)


def test_large_weights_are_views_of_the_bytes() -> None:
    data = holding(numpy_helper.from_array(LARGE, "w")).SerializeToString()
    array = first_tensor(data)
    np.testing.assert_array_equal(array, LARGE)
    assert owner(array) is data


def test_the_constants_of_a_module_are_the_weights_of_the_file() -> None:
    sum_up = node("Add", ["x", "w"], ["y"])
    shape = info("x", LARGE.shape)
    data = model([sum_up], inputs=[shape], outputs=[info("y", None)], constants={"w": LARGE})
    serialized = data.SerializeToString()
    assert owner(import_onnx(serialized).constants["w"].data) is serialized


def test_what_is_parsed_is_small_and_notes_the_place() -> None:
    data = holding(numpy_helper.from_array(LARGE, "w")).SerializeToString()
    slim = without_weights(memoryview(data))
    assert len(slim) < LARGE_BYTES
    (tensor,) = onnx.ModelProto.FromString(slim).graph.initializer
    entries = {entry.key: entry.value for entry in tensor.external_data}
    offset = data.index(LARGE.tobytes())
    assert entries == {"location": OWN_FILE, "offset": str(offset), "length": str(LARGE.nbytes)}
    assert tensor.name == "w"


def test_a_model_of_small_tensors_is_left_as_it_is() -> None:
    data = holding(numpy_helper.from_array(LARGE[:10], "w")).SerializeToString()
    assert without_weights(memoryview(data)) == data


def test_weights_in_nodes_branches_and_functions_stay_in_the_file() -> None:
    weights = numpy_helper.from_array(LARGE)
    constant = node("Constant", [], ["w"], value=weights)
    branch = body([constant], (), ("w",))
    inner = body([], (), ("v",), {"v": LARGE + 1})
    choice = node("If", ["c"], ["y"], then_branch=branch, else_branch=inner)
    local = helper.make_function("local", "F", [], ["w"], [constant], [helper.make_opsetid("", 17)])
    main = graph([constant, choice], ["x"], [])
    data = model(main, functions=[local]).SerializeToString()
    slim = without_weights(memoryview(data))
    assert len(slim) < LARGE_BYTES
    file = read_model(data)
    else_branch, then_branch = (a.g for a in file.proto.graph.node[1].attribute)
    for tensor in (
        file.proto.graph.node[0].attribute[0].t,
        then_branch.node[0].attribute[0].t,
        file.proto.functions[0].node[0].attribute[0].t,
    ):
        np.testing.assert_array_equal(file.array(tensor), LARGE)
    np.testing.assert_array_equal(file.array(else_branch.initializer[0]), LARGE + 1)


def test_a_graph_in_two_pieces_is_one() -> None:
    """Protobuf merges a message that comes twice."""
    whole = holding(numpy_helper.from_array(LARGE, "a"), numpy_helper.from_array(LARGE + 1, "b"))
    first, second = onnx.ModelProto(), onnx.ModelProto()
    first.CopyFrom(whole)
    del first.graph.initializer[1:]
    second.graph.initializer.append(whole.graph.initializer[1])
    file = read_model(first.SerializeToString() + second.SerializePartialToString())
    a, b = map(file.array, file.proto.graph.initializer)
    np.testing.assert_array_equal(a + 1, b)


def varint(value: int) -> bytes:
    encoded = b""
    while value >= 0x80:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])


def test_a_file_of_more_than_two_gigabytes(tmp_path: Path) -> None:
    """As one piece, which protobuf itself cannot read; the hole in the file takes no space."""
    rows = 2**20 + 5
    header = TensorProto(name="w", data_type=FLOAT, dims=[rows, 600]).SerializeToString()
    header += b"\x4a" + varint(rows * 600 * 4)
    main = graph([node("Gather", ["w", "i"], ["y"])], [info("i", (2,), 7)], [info("y", (2, 600))])
    rest = model(main)
    length = len(header) + rows * 600 * 4
    start = b"\x3a" + varint(1 + len(varint(length)) + length) + b"\x2a" + varint(length) + header
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.write(rest.SerializeToString() + start)
        file.truncate(file.tell() + rows * 600 * 4)
        file.seek(-4, 2)
        file.write(np.float32(7).tobytes())
    assert path.stat().st_size > 2**31
    constant = import_onnx(path).constants["w"]
    assert constant.type.shape == (rows, 600)
    assert constant.data[-1, -1] == 7
    assert constant.data[0, 0] == 0


def test_external_data_are_views_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(b"1234" + LARGE.tobytes())
    tensor = TensorProto(name="w", data_type=FLOAT, dims=LARGE.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "data/w.bin", "offset": "4", "length": "12000"}.items():
        tensor.external_data.add(key=key, value=value)
    path = tmp_path / "model.onnx"
    path.write_bytes(holding(tensor).SerializeToString())
    array = first_tensor(path)
    np.testing.assert_array_equal(array, LARGE)
    assert isinstance(owner(array), mmap.mmap)


def test_external_data_as_onnx_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    made = holding(numpy_helper.from_array(LARGE, "w"), numpy_helper.from_array(LARGE + 1, "v"))
    onnx.save(made, path, save_as_external_data=True, location="weights.bin")
    file = read_model(path)
    w, v = map(file.array, file.proto.graph.initializer)
    np.testing.assert_array_equal(w, LARGE)
    np.testing.assert_array_equal(v, LARGE + 1)


NUMBERS = np.array([[0, 1, 1], [1, 0, 1]])
TYPES = [dtype for dtype in DTYPES.values() if dtype.name != "str"]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("is_raw", [True, False], ids=["raw", "typed"])
def test_every_element_type(dtype: object, is_raw: bool) -> None:
    wanted = NUMBERS.astype(dtype.numpy)  # type: ignore[attr-defined]
    number = helper.np_dtype_to_tensor_dtype(wanted.dtype)
    raw = numpy_helper.from_array(wanted, "w")
    typed = helper.make_tensor("w", number, wanted.shape, wanted.reshape(-1).tolist())
    array = first_tensor(holding(raw if is_raw else typed).SerializeToString())
    assert array.dtype == wanted.dtype
    np.testing.assert_array_equal(array.astype(np.complex64), wanted.astype(np.complex64))


def test_packed_elements_that_do_not_fill_a_byte() -> None:
    wanted = np.array([1, -2, 3], ml_dtypes.int4)
    array = first_tensor(holding(numpy_helper.from_array(wanted, "w")))
    assert array.tolist() == wanted.tolist()


def test_large_packed_elements() -> None:
    wanted = (np.arange(5001) % 16).astype(ml_dtypes.uint4)
    data = holding(numpy_helper.from_array(wanted, "w")).SerializeToString()
    np.testing.assert_array_equal(first_tensor(data), wanted)


def test_strings() -> None:
    tensor = helper.make_tensor("w", TensorProto.STRING, [2], ["a", "é"])
    assert first_tensor(holding(tensor)).tolist() == ["a", "é"]


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), ()])
def test_empty_tensors_and_scalars(shape: tuple[int, ...]) -> None:
    array = first_tensor(holding(numpy_helper.from_array(np.ones(shape, np.float32), "w")))
    assert array.shape == shape


@pytest.mark.parametrize(
    "indices", [np.array([1, 5]), np.array([[0, 1], [1, 2]])], ids=["flat", "by axis"]
)
def test_sparse_tensors_are_made_dense(indices: Array) -> None:
    main = graph([node("Add", ["x", "w"], ["y"])])
    values = numpy_helper.from_array(np.array([3, 4], np.float32), "w")
    main.sparse_initializer.append(
        helper.make_sparse_tensor(values, numpy_helper.from_array(indices), [2, 3])
    )
    assert import_onnx(model(main)).constants["w"].data.tolist() == [[0, 3, 0], [0, 0, 4]]


def test_sparse_tensors_of_nodes_are_made_dense() -> None:
    positions = np.arange(0, 2000, 2)
    values = numpy_helper.from_array(np.ones(1000, np.float32))
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(positions), [2000])
    made = model([node("Constant", [], ["y"], sparse_value=sparse)], outputs=[info("y", (2000,))])
    (output,) = import_onnx(made.SerializeToString()).main.outputs
    assert output.value.data.tolist() == [1, 0] * 1000  # type: ignore[attr-defined]
