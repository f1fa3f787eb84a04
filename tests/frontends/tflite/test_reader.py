"""Files that are not what they should be."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from afterglow.frontends.definition.binding import Binding
from afterglow.frontends.definition.importer import ModelImporter
from afterglow.frontends.tflite import importers  # noqa: F401  fills the table
from afterglow.frontends.tflite.flatbuffer import Flatbuffer
from afterglow.frontends.tflite.reader import read_file
from afterglow.frontends.tflite.translate import translate_file
from afterglow.support.errors import AfterglowError, InternalError
from tests.frontends.tflite.build import Graph, Operator, Tensor, constant, one_op, write
from tests.frontends.tflite.cases import all_cases
from tests.frontends.tflite.files import odd_file, small_files


def _import(data: bytes) -> None:
    model = translate_file(read_file(memoryview(data)))
    ModelImporter(model, Binding()).run()


def _refusal(data: bytes) -> str:
    with pytest.raises(AfterglowError) as caught:
        _import(data)
    assert not isinstance(caught.value, InternalError)
    return caught.value.what


def _product(**changes: object) -> bytes:
    weight = constant("w", np.ones((2, 3), np.float32))
    for name, value in changes.items():
        setattr(weight, name, value)
    return one_op("MUL", [Tensor("x", (2, 3)), weight], [Tensor("y", (2, 3))], "MulOptions")


def test_a_tensor_has_as_many_bytes_as_its_shape_needs() -> None:
    assert _refusal(_product(shape=(2, 4))) == (
        "tensor 1 of subgraph 0 ('w') has 24 bytes, its shape (2, 4) of FLOAT32 needs 32"
    )


def test_a_shape_may_not_be_absurd() -> None:
    assert _refusal(_product(shape=(2**30, 2**30))) == (
        "tensor 1 of subgraph 0 ('w') is too large: its shape is (1073741824, 1073741824)"
    )
    assert _refusal(_product(shape=(-2, 3))) == (
        "tensor 1 of subgraph 0 ('w') has a negative extent: (-2, 3)"
    )


def test_strings_are_refused() -> None:
    assert _refusal(_product(dtype="string")) == (
        "tensor 1 of subgraph 0 ('w') holds strings, which are not supported"
    )


def test_a_truncated_file_says_what_is_missing() -> None:
    data = _product()
    assert _refusal(data[:16]) == (
        "the file is malformed or truncated: the file's root would be at byte "
        f"{struct.unpack_from('<I', data)[0]}, the file has 16 bytes"
    )
    for end in range(8, len(data), 4):
        assert _refusal(data[:end])


def test_a_number_of_a_tensor_is_checked() -> None:
    data = write(Graph([Tensor("x", (2,))], [Operator("ABS", ["x"], ["x"])], ["x"], ["x"]))
    place = data.rindex(struct.pack("<II", 1, 0))
    broken = data[:place] + struct.pack("<II", 1, 9) + data[place + 8 :]
    assert "there is no tensor 9, there are 1" in _refusal(broken)


def test_tables_that_refer_to_the_same_over_and_over_are_refused() -> None:
    large = Graph([Tensor(f"t{index}", (1,)) for index in range(60)], [], ["t0"], ["t0"])
    small = Graph([Tensor("x", (1,))], [], ["x"], ["x"])
    data = bytearray(write(large, *[small] * 120))
    file = Flatbuffer(memoryview(bytes(data)))
    start, count = file.vector(file.root().field(2), 4, "subgraphs")
    target = file.offset(start, "a subgraph")
    for place in range(start, start + 4 * count, 4):
        struct.pack_into("<I", data, place, target - place)
    assert _refusal(bytes(data)) == (
        "the file is malformed: its tables refer to the same bytes over and over"
    )


def test_buffers_may_lie_behind_the_flatbuffer() -> None:
    weight = constant("w", np.arange(6, dtype=np.float32).reshape(2, 3))
    graph = Graph(
        [Tensor("x", (2, 3)), weight, Tensor("y", (2, 3))],
        [Operator("MUL", ["x", "w"], ["y"], "MulOptions")],
        ["x"],
        ["y"],
    )
    data = write(graph, outside=True)
    _import(data)
    assert bytes(read_file(memoryview(data)).buffers[1]) == weight.data.tobytes()
    size = len(data)
    assert _refusal(data[:-4]) == (
        f"the file is malformed or truncated: buffer 1 would be bytes {size - 24:,} to {size:,}, "
        f"the file has {size - 4:,} bytes"
    )


def test_changed_files_are_read_or_refused() -> None:
    rng = random.Random(0)
    files, cases = small_files(), all_cases()
    for _ in range(150):
        data = bytearray(rng.choice(files))
        place = 4 * rng.randrange(2, len(data) // 4)
        number = rng.choice([0, 1, 3, 255, 2**16, 2**31, 2**32 - 1, rng.randrange(len(data))])
        struct.pack_into("<I", data, place, number)
        _try(bytes(data))
        _try(odd_file(rng.choice(cases), rng))


def _try(data: bytes) -> None:
    try:
        _import(data)
    except InternalError:
        raise
    except AfterglowError:
        return
