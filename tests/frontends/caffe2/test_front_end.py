"""Caffe2 models are opened as folders, files and pairs; damaged ones are refused."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afterglow as ag
from afterglow.driver.options import Options
from afterglow.frontends.base import UnboundDimensionsError
from afterglow.frontends.caffe2.source import Caffe2Source
from afterglow.frontends.registry import find_source
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from tests.frontends.caffe2.files import odd_net, small_nets
from tests.frontends.caffe2.nets import Net, Op, fill, filled, op

X = np.array([[-1, 2, 3]], np.float32)
W = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([1, -20], np.float32)
INIT = filled(w=W, b=B)
PREDICT = Net(
    [op("FC", ["x", "w", "b"], ["h"]), op("Relu", ["h"], ["h"])],
    ["x", "w", "b"],
    ["h"],
)
EXPECTED = (X @ W.T + B).clip(0, None)


def run(source: Any) -> np.ndarray:
    model = ag.compile(source, backend="interpreter", optimize=False, cache=False)
    return model(X)


def write(folder: Path, predict: str = "predict_net.pb", init: str = "init_net.pb") -> Path:
    for name, net in ((predict, PREDICT), (init, INIT)):
        text = name.endswith("txt")
        (folder / name).write_bytes(net.text().encode() if text else net.binary())
    return folder


def test_a_folder_of_two_nets_is_a_model(tmp_path: Path) -> None:
    np.testing.assert_array_equal(run(write(tmp_path)), EXPECTED)


def test_nets_may_be_text(tmp_path: Path) -> None:
    write(tmp_path, "predict_net.pbtxt", "init_net.pbtxt")
    np.testing.assert_array_equal(run(tmp_path), EXPECTED)


def test_a_net_finds_the_one_that_fills_its_blobs_by_its_name(tmp_path: Path) -> None:
    write(tmp_path, "my_predict_net.pb", "my_init_net.pb")
    source = find_source(tmp_path / "my_predict_net.pb")
    assert isinstance(source, Caffe2Source)
    assert [path.name for path in source.files()] == ["my_predict_net.pb", "my_init_net.pb"]
    np.testing.assert_array_equal(run(tmp_path / "my_predict_net.pb"), EXPECTED)


def test_a_pair_may_be_given_in_either_order(tmp_path: Path) -> None:
    write(tmp_path)
    pair = tmp_path / "init_net.pb", str(tmp_path / "predict_net.pb")
    for source in (pair, pair[::-1], (INIT.binary(), PREDICT.binary())):
        np.testing.assert_array_equal(run(source), EXPECTED)


def test_other_weights_are_another_model_in_the_cache(tmp_path: Path) -> None:
    other = filled(w=W + 1, b=B).binary()
    for init in (INIT.binary(), other, INIT.binary()):
        model = ag.compile((init, PREDICT.binary()), backend="interpreter", cache=tmp_path)
        expected = EXPECTED if init != other else (X @ (W + 1).T + B).clip(0, None)
        np.testing.assert_array_equal(model(X), expected)


def test_blobs_that_are_overwritten_are_several_values() -> None:
    net = Net(
        [
            op("Relu", ["x"], ["x"]),
            op("Sqr", ["x"], ["t"]),
            op("Add", ["t", "x"], ["t"]),
            op("Add", ["t", "x"], ["x"]),
        ],
        ["x"],
        ["t", "x"],
    )
    source = find_source(net.binary())
    assert isinstance(source, Caffe2Source)
    assert source.output_names == ["t", "x/2"]
    model = ag.compile(net.binary(), backend="interpreter", optimize=False, cache=False)
    t, x = model.run(None, {"x": X})
    positive = X.clip(0, None)
    np.testing.assert_array_equal(t, positive**2 + positive)
    np.testing.assert_array_equal(x, positive**2 + 2 * positive)


def declared(net: Net, init: Net | None = None) -> list[str]:
    source = find_source(net.binary() if init is None else (init.binary(), net.binary()))
    assert source is not None
    return [str(info) for info in source.signature(Options()).inputs]


def test_images_have_the_channels_of_the_weights() -> None:
    weight = np.zeros((8, 2, 3, 3), np.float32)
    net = Net([op("Conv", ["x", "w"], kernel=3, group=2)], ["x", "w"], ["y"])
    assert declared(net, filled(w=weight)) == ["x: f32[batch, 4, height, width]"]
    net = Net([op("Conv", ["x", "w"], kernel=2, order="NHWC")], ["x", "w"], ["y"])
    assert declared(net, filled(w=weight)) == ["x: f32[batch, height, width, 3]"]
    with pytest.raises(UnboundDimensionsError):
        ag.import_model((filled(w=weight).binary(), net.binary()))


def test_a_blob_that_is_only_made_to_exist_is_an_input() -> None:
    init = Net([fill("x", np.zeros((1, 1), np.float32)), *INIT.ops])
    assert declared(PREDICT, init) == ["x: f32[…]"]


def test_an_example_of_the_input_in_the_init_net_is_no_weight() -> None:
    init = Net([fill("x", np.ones((1, 3), np.float32)), *INIT.ops])
    assert declared(PREDICT, init) == ["x: f32[…]"]


def test_an_init_net_that_is_no_net_is_called_by_its_name(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "init_net.pb").write_text("<!DOCTYPE html><html>")
    with pytest.raises(ModelError) as caught:
        find_source(tmp_path)
    assert caught.value.what == "cannot compile a web page"
    assert caught.value.where == f"in {tmp_path / 'init_net.pb'}"


def test_of_a_pair_the_part_that_is_no_net_is_called_by_its_name() -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\n"
    with pytest.raises(ModelError, match="cannot compile a Git LFS pointer"):
        find_source((pointer, PREDICT.binary()))
    assert find_source((pointer, pointer)) is None


def test_a_file_beside_the_nets_tells_the_types_of_inputs(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "value_info.json").write_text('{"x": [1, [1, 3]]}')
    source = find_source(tmp_path)
    assert source is not None
    assert [str(info) for info in source.signature(Options()).inputs] == ["x: f32[1, 3]"]
    (tmp_path / "value_info.json").write_text('{"x": 3}')
    with pytest.raises(ModelError) as caught:
        find_source(tmp_path)
    assert caught.value.what == "value_info.json does not give an element type and a shape by name"


def refused(*ops: Op, **shapes: tuple[int, ...]) -> AfterglowError:
    net = Net(ops, [*shapes], [ops[-1].output[0]])
    with pytest.raises(AfterglowError) as caught:
        ag.compile(net.binary(), shapes=shapes, cache=False)
    return caught.value


def test_errors_name_the_operator() -> None:
    error = refused(op("BoxWithNMSLimit", ["x"]), x=(2,))
    assert isinstance(error, UnsupportedError)
    assert str(error) == (
        "error: this op is not supported\n  in node 'y' (BoxWithNMSLimit)\n"
        "  help: docs/caffe2.md lists those that are"
    )
    error = refused(op("XavierFill", shape=[2]))
    assert error.what == "its values are random: this net begins a training"
    error = refused(op("SpatialBN", [*"xabcd"]), x=(1, 2), a=(2,), b=(2,), c=(2,), d=(2,))
    assert error.what == "it normalizes by the batch, as in training"
    error = refused(op("MaxPool", ["x"], kernel=2, legacy_pad=7), x=(1, 1, 4, 4))
    assert error.what == "attribute 'legacy_pad' must be from 0 to 3, it is 7"
    error = refused(op("MaxPool", ["x"], order="CHWN", kernel=2), x=(1, 1, 4, 4))
    assert error.what == "attribute 'order' must be one of 'NCHW', 'NHWC', it is 'CHWN'"
    error = refused(op("GivenTensorFill", shape=[2], values=[1.0]), op("Relu", ["y"], ["z"]))
    assert error.what == "blob 'y': it has 1 elements, its shape (2,) needs 2"


def test_operands_of_the_wrong_shape_are_refused() -> None:
    two = fill("y", np.zeros(2, np.float32))
    error = refused(two, op("Concat", ["x", "y"], ["z"], axis=1), x=(1, 2))
    assert error.what.startswith("concat: ")
    lengths = fill("n", np.zeros(2, np.int32))
    error = refused(lengths, op("LengthsSum", ["x", "n"], ["z"]), x=())
    assert error.what == "rows must have 1 or more axes, they are f32[]"
    error = refused(op("TopK", ["x"], k=1, axis=0), x=())
    assert error.what == "attribute 'axis' is 0, x is f32[]"
    lengths = fill("n", np.full(2, 2**31 - 1, np.int32))
    error = refused(lengths, op("LengthsRangeFill", ["n"], ["z"]))
    assert error.what.startswith("a result is too large: i32[4294967294]")


@pytest.mark.parametrize("seed", range(40))
def test_nets_with_odd_numbers_are_imported_or_refused(seed: int) -> None:
    numbers = random.Random(seed)
    load_or_refuse(odd_net(numbers.choice(NETS), numbers).binary())


NETS = small_nets()
WHOLE = Net([*INIT.ops, *PREDICT.ops, op("Transpose", ["h"], axes=[1, 0])], ["x"], ["y"])
BINARY, TEXT = WHOLE.binary(), WHOLE.text().encode()


def test_damaged_files_say_what_is_wrong_and_where(tmp_path: Path) -> None:
    path = tmp_path / "predict_net.pb"
    path.write_bytes(BINARY[:-2])
    with pytest.raises(ModelError) as caught:
        find_source(path)
    where = len(BINARY) - 2
    assert str(caught.value) == (
        f"error: the file is truncated: a number at byte {where} does not end\n  in net of {path}"
    )
    path.write_bytes(TEXT.replace(b'type: "Relu"', b"type: {"))
    with pytest.raises(ModelError) as caught:
        find_source(path)
    line = TEXT[: TEXT.index(b'type: "Relu"')].count(b"\n") + 1
    assert str(caught.value) == (
        "error: the file is not a Caffe2 net: a text is needed, not a message\n"
        f"  in line {line} of {path}"
    )


def test_a_list_in_the_place_of_a_number_is_refused() -> None:
    scale = op("Int8Quantize", ["x"], Y_scale=1.0)
    number, packed = b"\x15\x00\x00\x80\x3f", b"\x12\x03\x00\x00\x80"
    data = Net([scale], ["x"], ["y"]).binary()
    assert number in data
    with pytest.raises(ModelError) as caught:
        find_source(data.replace(number, packed))
    assert caught.value.what == "the file is not a Caffe2 net: a field is of the wrong type"
    assert caught.value.where == "in net.op.arg.f"


def load_or_refuse(data: bytes) -> None:
    with contextlib.suppress(AfterglowError):
        source = find_source(data)
        if source is not None:
            source.load(Options(shapes={"x": (1, 3)}))


@pytest.mark.parametrize("whole", [BINARY, TEXT], ids=["binary", "text"])
def test_damaged_files_are_refused_or_loaded(whole: bytes) -> None:
    numbers = random.Random(0)
    for _ in range(150):
        data = bytearray(
            whole[: numbers.randrange(len(whole))] if numbers.random() < 0.2 else whole
        )
        for _ in range(numbers.randrange(4) if data else 0):
            data[numbers.randrange(len(data))] = numbers.randrange(256)
        load_or_refuse(bytes(data))


def test_texts_that_nest_deeply_are_refused() -> None:
    text = b'name: "n" op { type: "Relu" ' + b"arg { n { op { " * 5000
    with pytest.raises(ModelError, match="messages nest more than 32 deep"):
        find_source(text)
