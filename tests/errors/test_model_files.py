"""Files that are not models, or not whole ones, and data outside of the model's folder."""

from __future__ import annotations

import contextlib
import inspect
import os
import socket
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

import afterglow
from afterglow.frontends.onnx import import_onnx, read_model
from afterglow.support.errors import AfterglowError, ModelError, UsageError
from tests.errors.malformed import check
from tests.frontends.models import BOOL, FLOAT, INT64, body, graph, info, model, node

LARGE = np.arange(3000, dtype=np.float32).reshape(1000, 3)


def sum_with(weights: object) -> onnx.ModelProto:
    """A model that adds weights to its input f32[1000, 3]."""
    shape = (1000, 3)
    main = graph([node("Add", ["x", "w"], ["y"])], [info("x", shape)], [info("y", shape)])
    main.initializer.append(
        weights if isinstance(weights, TensorProto) else onnx.numpy_helper.from_array(weights, "w")
    )
    return model(main)


WHOLE = sum_with(LARGE).SerializeToString()
"""The graph is at byte 2, the tensor in it at byte 27, its data from byte 40, the opset last."""

NOT_MODELS = {
    "error: the file is empty": b"",
    """
    error: the file is not an ONNX model: byte 2 does not begin a protobuf field
      in model
    """: b"hello world, this is a text file\n",
    """
    error: the file is not an ONNX model: byte 0 does not begin a protobuf field
      in model
    """: bytes(64),
    """
    error: the file is not an ONNX model: the number before byte 10 is too long
      in model
    """: b"\xff" * 64,
    """
    error: the file is not an ONNX model but a zip archive
      help: if PyTorch wrote it, export the model with torch.onnx.export
    """: b"PK\x03\x04" + bytes(64),
    "error: the file is not an ONNX model: it has no graph": WHOLE[:2],
    """
    error: the file is truncated: a number at byte 1 does not end
      in model
    """: WHOLE[:1],
    """
    error: the file is truncated: a field at byte 2 takes 12,082 bytes, 5,995 are left
      in model
    """: WHOLE[:6000],
    """
    error: the file is truncated: a field at byte 12,087 takes 4 bytes, 3 are left
      in model
    """: WHOLE[:-1],
    "error: the model does not say which version of ai.onnx it uses": WHOLE[:12087],
    """
    error: the file is truncated: a field at byte 40 takes 13,024 bytes, 12,000 are left
      in model.graph.initializer
    """: WHOLE.replace(b"\x4a\xe0\x5d", b"\x4a\xe0\x65"),
    """
    error: the file is not an ONNX model: byte 40 does not begin a protobuf field
      in model.graph.initializer
    """: WHOLE.replace(b"\x4a\xe0\x5d", b"\x4f\xe0\x5d"),
    "error: the file is not an ONNX model: a message in it is malformed": WHOLE.replace(
        b"\n\x0e\n\x01x", b"\n\x0e\n\x7fx"
    ),
    "error: a name in the model is not UTF-8 text: b'A\\xff\\xfe'": WHOLE.replace(
        b"Add", b"A\xff\xfe"
    ),
    "error: tensor 'w': it has 12,000 bytes, its shape (1000, 4) needs 16,000": WHOLE.replace(
        b"\x08\xe8\x07\x08\x03", b"\x08\xe8\x07\x08\x04"
    ),
}


@pytest.mark.parametrize(("text", "data"), NOT_MODELS.items())
def test_bytes_that_are_no_model(text: str, data: bytes) -> None:
    assert data != WHOLE
    check(data, ModelError, inspect.cleandoc(text))


def test_a_file_says_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes(WHOLE[:6000])
    check(
        path,
        ModelError,
        "error: the file is truncated: a field at byte 2 takes 12,082 bytes, 5,995 are left\n"
        f"  in model of {path}",
    )


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.touch()
    check(path, ModelError, f"error: the file is empty\n  in {path}")


def test_no_file(tmp_path: Path) -> None:
    path = tmp_path / "missing.onnx"
    text = f"error: cannot read the model: no such file or directory\n  in {path}"
    check(path, UsageError, text)
    check(str(path), UsageError, text)


def test_a_folder(tmp_path: Path) -> None:
    check(tmp_path, UsageError, f"error: cannot read the model: is a directory\n  in {tmp_path}")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "secret.onnx"
    path.write_bytes(WHOLE)
    path.chmod(0)
    check(path, UsageError, f"error: cannot read the model: permission denied\n  in {path}")


def test_something_else_than_a_model() -> None:
    text = "error: a model is a path, bytes or an onnx.ModelProto, not int"
    check(3, UsageError, text)  # type: ignore[arg-type]  # that is the point


def external(**entries: object) -> onnx.ModelProto:
    stored = TensorProto(name="w", data_type=FLOAT, dims=LARGE.shape)
    stored.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        stored.external_data.add(key=key, value=str(value))
    return sum_with(stored)


EXTERNAL = {
    "its data are outside of the model's folder, in '/etc/passwd'": {"location": "/etc/passwd"},
    "its data are outside of the model's folder, in '../w.bin'": {"location": "../w.bin"},
    "its data are outside of the model's folder, in 'a/../../w.bin'": {"location": "a/../../w.bin"},
    "its data are outside of the model's folder, in 'C:\\\\w.bin'": {"location": "C:\\w.bin"},
    "its data are outside of the model's folder, in '..\\\\w.bin'": {"location": "..\\w.bin"},
    "its data are outside of the model's folder, in 'link.bin'": {"location": "link.bin"},
    "its data are outside of the model's folder, in 'loop.bin'": {"location": "loop.bin"},
    "its data are outside of the model's folder, in ''": {},
    "its data are in the file 'none.bin', which cannot be read: no such file or directory": {
        "location": "none.bin"
    },
    "its data are in the file '.', which cannot be read: is a directory": {"location": "."},
    "its data would be bytes 8 to 12,008 of 'w.bin', which has 12,000 bytes": {
        "location": "w.bin",
        "offset": 8,
        "length": 12000,
    },
    "its data would be bytes 99,999 to 99,999 of 'w.bin', which has 12,000 bytes": {
        "location": "w.bin",
        "offset": 99999,
    },
    "the offset of its external data is '-1', not a number of bytes": {
        "location": "w.bin",
        "offset": -1,
    },
    "the length of its external data is 'all', not a number of bytes": {
        "location": "w.bin",
        "length": "all",
    },
    "it has 8,000 bytes, its shape (1000, 3) needs 12,000": {"location": "w.bin", "length": 8000},
    "the offset of its external data has 5,000 digits: no file is that long": {
        "location": "w.bin",
        "offset": "9" * 5000,
    },
    "the length of its external data has 20 digits: no file is that long": {
        "location": "w.bin",
        "length": "0" * 30 + "9" * 20,
    },
    f"the length of its external data is '{'x' * 80}…', not a number of bytes": {
        "location": "w.bin",
        "length": "x" * 9000,
    },
    "its data are in the file 'pipe.bin', which cannot be read: not a regular file": {
        "location": "pipe.bin"
    },
    "its data are in the file 'socket.bin', which cannot be read: not a regular file": {
        "location": "socket.bin"
    },
    "its data are outside of the model's folder, in 'zero.bin'": {"location": "zero.bin"},
}


@pytest.mark.parametrize(("text", "entries"), EXTERNAL.items())
def test_external_data_that_cannot_be(
    tmp_path: Path, text: str, entries: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").write_bytes(LARGE.tobytes())
    (tmp_path / "w.bin").write_bytes(LARGE.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (folder / "loop.bin").symlink_to(folder / "loop.bin")
    (folder / "zero.bin").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.bin")
    path = folder / "model.onnx"
    path.write_bytes(external(**entries).SerializeToString())
    monkeypatch.chdir(folder)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.bin")
        check(path, ModelError, f"error: tensor 'w': {text}")
        with pytest.raises(ModelError) as caught:
            afterglow.compile(path, cache=tmp_path / "cache")
    assert caught.value.what == f"tensor 'w': {text}"


def test_data_outside_of_the_folder_are_not_read_for_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda p, *rest: opened.append(str(p)) or real(p, *rest))
    unused = external(location="/dev/zero")
    unused.graph.node[0].input[1] = "x"
    path = tmp_path / "model.onnx"
    path.write_bytes(unused.SerializeToString())
    for _ in range(2):
        with pytest.raises(ModelError, match="outside of the model's folder"):
            afterglow.compile(path, cache=tmp_path / "cache")
    assert str(path) in opened
    assert "/dev/zero" not in opened


def test_a_missing_file_of_many_tensors_is_one_line(tmp_path: Path) -> None:
    made = external(location="w.data")
    for name in ("v", "u"):
        made.graph.node.append(node("Add", ["x", name], [f"{name}_out"]))
        made.graph.initializer.append(made.graph.initializer[0])
        made.graph.initializer[-1].name = name
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    missing = (
        "the file 'w.data', which holds the data of 3 tensors, cannot be read: "
        "no such file or directory"
    )
    beside = "put it where the model's own file is"
    check(path, ModelError, f"error: {missing}\n  help: {beside}")
    made.graph.node.append(node("Frobnicate", ["x"], ["z"], name="odd"))
    path.write_bytes(made.SerializeToString())
    with pytest.raises(ModelError) as caught:
        import_onnx(path)
    assert caught.value.what == "the model cannot be imported: 2 problems"
    assert caught.value.excerpt[0] == f"{missing}; {beside}"


@pytest.mark.parametrize("name", ["pipe", "/dev/zero"])
def test_models_that_are_no_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "pipe":
        os.mkfifo(path)
    with pytest.raises(UsageError) as caught:
        afterglow.compile(path, cache=tmp_path / "cache")
    assert caught.value.what == "cannot read the model: not a regular file"


def test_paths_that_no_file_can_have(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the model: embedded null byte"):
        afterglow.compile(f"{tmp_path}/a\0b.onnx", cache=tmp_path / "cache")


def test_external_data_of_a_model_without_folder() -> None:
    check(
        external(location="w.bin"),
        ModelError,
        "error: tensor 'w': its data are in the file 'w.bin', but the model did not come from a "
        "file\n  help: give the path of the model, or load its external data first",
    )


def varied() -> bytes:
    """A small model with a bit of everything."""
    flag = info("go", (), BOOL)
    step = body(
        [node("Add", ["a", "one"], ["b"]), node("Cast", ["i"], ["f"], to=FLOAT)],
        (info("i", (), INT64), flag, "a"),
        ("go", "b", "f"),
        {"one": np.ones(3, np.float32)},
    )
    branch = body([node("Neg", ["n"], ["t"])], (), ("t",))
    nodes = [
        node("Loop", ["times", "", "x"], ["m", "all"], body=step),
        node("Softmax", ["m"], ["n"], axis=-1),
        node("If", ["c"], ["k"], then_branch=branch, else_branch=branch),
        node("Transpose", ["k"], ["p"], perm=[1, 0]),
        node("Reshape", ["p", "shape"], ["y"]),
    ]
    constants = {"times": np.array(4), "shape": np.array([2, -1])}
    inputs = ("x", info("c", (), BOOL))
    return model(nodes, inputs=inputs, constants=constants).SerializeToString()


VARIED = varied()


def test_the_model_that_is_damaged_below_is_whole() -> None:
    assert [output.name for output in import_onnx(VARIED).main.outputs] == ["y"]


def import_or_refuse(data: bytes) -> None:
    with contextlib.suppress(AfterglowError):
        import_onnx(data)


def test_every_truncation_is_refused_or_imported() -> None:
    for length in range(len(VARIED)):
        import_or_refuse(VARIED[:length])


damage = st.tuples(st.integers(0, len(VARIED) - 1), st.integers(0, 255))


@settings(max_examples=300, deadline=1000)
@given(st.lists(damage, min_size=1, max_size=4))
def test_damaged_bytes_are_refused_or_imported(damages: list[tuple[int, int]]) -> None:
    data = bytearray(VARIED)
    for position, byte in damages:
        data[position] = byte
    import_or_refuse(bytes(data))


@settings(max_examples=100, deadline=1000)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(AfterglowError):
        read_model(data)
