"""Files that are no models of a format that is read: each is called by its name."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from afterglow.frontends.content import Content
from afterglow.frontends.formats import refusal
from afterglow.frontends.registry import find_source
from afterglow.support.errors import AfterglowError, ModelError


def zipped(*names: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(name, bytes(100))
    return made.getvalue()


def saved(array: np.ndarray) -> bytes:
    made = io.BytesIO()
    np.save(made, array)
    return made.getvalue()


def field(number: int, contents: bytes) -> bytes:
    return bytes([number << 3 | 2, len(contents)]) + contents


NAMED = [
    ("a compiled model", b"AFTERGLW" + bytes(64)),
    ("a Git LFS pointer, which stands for a file that was not downloaded",
     b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n"),
    ("a web page", b"\n<!DOCTYPE html><html><head><title>404"),
    ("a web page", b"<!-- moved --> <html>"),
    ("a PyTorch archive of a module or of weights", zipped("net/data.pkl", "net/code/net.py")),
    ("a Keras model", zipped("config.json", "model.weights.h5")),
    ("an archive of NumPy arrays", zipped("x.npy", "y.npy")),
    ("a zip archive", zipped("model.onnx")),
    ("a pickled object, as older versions of PyTorch save modules and weights",
     pickle.dumps({"weight": [1.0]}, protocol=2)),
    ("weights without a model, in safetensors",
     struct.pack("<Q", 8) + b'{"w":{}}' + bytes(16)),
    ("an HDF5 file, as Keras saves models", b"\x89HDF\r\n\x1a\n" + bytes(8)),
    ("an ORT model", b"\x28\0\0\0ORTM" + bytes(16)),
    ("an OpenVINO model", b'<?xml version="1.0"?>\n<net name="a" version="11">'),
    ("an ncnn model", b"7767517\n75 83\nInput data 0 1 data\n"),
    ("a TensorFlow saved model", b"\x08\x01" + field(2, b"\x0a\x05serve")),
    ("a TensorFlow graph", field(1, field(1, b"x") + field(2, b"Placeholder"))),
    ("a Core ML model", b"\x08\x05" + field(2, b"d") + b"\xa2\x1f\x00"),
    ("a Caffe model", b'name: "LeNet"\nlayer {\n  name: "data"\n'),
    ("an ONNX model as text", b"ir_version: 8\ngraph {\n"),
    ("a compressed file", b"\x1f\x8b\x08" + bytes(16)),
    ("a compressed file", b"\x28\xb5\x2f\xfd" + bytes(16)),
    ("a tar archive", bytes(257) + b"ustar" + bytes(300)),
    ("an image", b"\x89PNG\r\n\x1a\n" + bytes(16)),
    ("an image", b"\xff\xd8\xff\xe0" + bytes(16)),
    ("a NumPy array", saved(np.ones(3, np.float32))),
    ("a program of this machine", b"\x7fELF" + bytes(60)),
    ("a PDF document", b"%PDF-1.7\n"),
    ("a JSON document", b' {"nodes": []}'),
    ("a text file", b"this is not a model"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data"), NAMED)
def test_what_cannot_be_compiled_is_called_by_its_name(name: str, data: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        find_source(data)
    assert caught.value.what == f"cannot compile {name}"
    assert caught.value.help


def test_a_file_of_no_known_format_lists_those_that_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(bytes(64))
    with pytest.raises(ModelError) as caught:
        find_source(path)
    what = r"the file is of no known format: it begins with b'\x00\x00\x00\x00\x00\x00\x00\x00'"
    assert caught.value.what == what
    assert caught.value.where == f"in {path}"
    assert caught.value.help.startswith("models that are read: ")
    assert "ONNX" in caught.value.help


def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    for source in (b"", tmp_path / "model.onnx"):
        with pytest.raises(ModelError, match="the file is empty"):
            find_source(source)


def test_a_folder_names_the_model_in_it(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        find_source(tmp_path)
    assert str(caught.value) == (
        f"error: cannot compile a folder that is no model\n  in {tmp_path}\n"
        "  help: give the path of the model's file"
    )
    (tmp_path / "model.onnx").touch()
    with pytest.raises(ModelError) as caught:
        find_source(tmp_path)
    assert caught.value.help == f"give the path of its file: {tmp_path / 'model.onnx'}"


def test_folders_of_other_libraries_are_called_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(ModelError, match="cannot compile a TensorFlow saved model"):
        find_source(tmp_path)


def test_looking_at_any_bytes_is_harmless() -> None:
    numbers = np.random.default_rng(0)
    for size in numbers.integers(1, 300, 2000):
        data = numbers.bytes(size)
        assert isinstance(refusal(Content.of(data), "some"), AfterglowError)
