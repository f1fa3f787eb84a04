"""Formats of files that are given for models but that no front end opens, told by content.

What is known of a format is a line of the table: how to tell it, what to call it, what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from afterglow.frontends.content import Content
from afterglow.frontends.protobuf import LENGTH, VARINT, ProtobufReader
from afterglow.support.container import is_container
from afterglow.support.errors import AfterglowError, ModelError
from afterglow.support.lazy_dataclass import dataclass

Test: TypeAlias = Callable[[Content], object]

_TORCH = 'save it as a program: torch.export.save(torch.export.export(model, inputs), "model.pt2")'
_ONNX = "export the model to ONNX, or to a format that is read"
_TENSORFLOW = "convert it to TFLite with tf.lite.TFLiteConverter, or to ONNX with tf2onnx"
_UNPACK = "unpack it, and give the path of the model in it"
_ORIGINAL = "give the model that it was converted from"


@dataclass(frozen=True)
class Format:
    """A kind of file: its name for people, how it is told by its content, and what to do."""

    name: str
    test: Test
    help: str


def _begins(*starts: bytes) -> Test:
    return lambda content: content.head.startswith(starts)


def _matches(pattern: bytes) -> Test:
    """The head begins with text of this form, whatever its case."""
    compiled = re.compile(rb"(?:\xef\xbb\xbf)?\s*" + pattern, re.IGNORECASE | re.DOTALL)
    return lambda content: compiled.match(content.head)


def _zip_with(*names: bytes) -> Test:
    """A zip archive which lists a file whose name ends so."""

    def test(content: Content) -> bool:
        is_zip = content.head.startswith((b"PK\3\4", b"PK\5\6"))
        return is_zip and any(name in content.head or name in content.tail for name in names)

    return test


def _folder_with(*names: str) -> Test:
    return lambda content: content.names.issuperset(names)


def _safetensors(content: Content) -> bool:
    """The length of a header in JSON, and the header."""
    size = int.from_bytes(content.head[:8], "little")
    return content.head[8:9] == b"{" and 2 <= size <= len(content.data) - 8


def _proto_fields(content: Content) -> Iterator[tuple[int, int]]:
    """Numbers and wire types of the first fields, as far as it is a message of protobuf."""
    reader = ProtobufReader(content.data, "a message")
    try:
        for count, field in enumerate(reader.fields(0, len(content.data), "file")):
            if count == 64:
                return
            yield field.number, field.wire_type
    except AfterglowError:
        return


def _saved_model(content: Content) -> bool:
    """A version and graphs, and nothing else."""
    return [*_proto_fields(content)][:3] == [(1, VARINT), (2, LENGTH)]


def _frozen_graph(content: Content) -> bool:
    """Nodes of TensorFlow, of which nearly all graphs have some."""
    known = (b"\x12\x0bPlaceholder", b"\x12\x05Const", b"\x12\x08Identity")
    return next(_proto_fields(content), None) == (1, LENGTH) and any(
        op in content.head for op in known
    )


def _core_ml(content: Content) -> bool:
    """A version, a description, and a model of a kind that has a large number."""
    fields = [*_proto_fields(content)]
    return fields[:2] == [(1, VARINT), (2, LENGTH)] and any(n >= 200 for n, _ in fields)


def _text(content: Content) -> bool:
    head = content.head
    return bool(head) and all(byte >= 32 or byte in b"\t\n\r\f" for byte in head)


FORMATS = (
    Format(
        "a compiled model", lambda content: is_container(content.data), "afterglow.load reads it"
    ),
    Format(
        "a Git LFS pointer, which stands for a file that was not downloaded",
        _begins(b"version https://git-lfs"),
        "run git lfs pull where the file is from",
    ),
    Format(
        "a web page",
        _matches(rb"(?:<!--.*?-->\s*)?<(?:!doctype html|html|head)"),
        "download the file itself: links to its page, and errors, are saved as such pages",
    ),
    Format("a PyTorch archive of a module or of weights", _zip_with(b"/data.pkl"), _TORCH),
    Format("a Keras model", _zip_with(b"model.weights.h5"), _TENSORFLOW),
    Format("an archive of NumPy arrays", _zip_with(b".npy"), "give the model, not its inputs"),
    Format("a zip archive", _begins(b"PK\3\4", b"PK\5\6"), _UNPACK),
    Format(
        "a pickled object, as older versions of PyTorch save modules and weights",
        _matches(rb"\x80[\x02-\x05]"),
        _TORCH,
    ),
    Format("weights without a model, in safetensors", _safetensors, _TORCH),
    Format("an HDF5 file, as Keras saves models", _begins(b"\x89HDF\r\n"), _TENSORFLOW),
    Format("an ORT model", lambda content: content.head[4:8] == b"ORTM", _ORIGINAL),
    Format("an OpenVINO model", _matches(rb"(?:<\?xml[^>]*>\s*)?<net\s"), _ORIGINAL),
    Format("an ncnn model", _begins(b"7767517"), _ORIGINAL),
    Format("a TensorFlow saved model", _folder_with("saved_model.pb"), _TENSORFLOW),
    Format("a TensorFlow saved model", _saved_model, _TENSORFLOW),
    Format("a TensorFlow graph", _frozen_graph, _TENSORFLOW),
    Format("a Core ML model", _core_ml, _ORIGINAL),
    Format("a Core ML model", _folder_with("Manifest.json", "Data"), _ORIGINAL),
    Format(
        "a Caffe model",
        _matches(rb'(?:name\s*:\s*"[^"]*"\s*)?(?:layers?\s*\{|input\s*:|input_param)'),
        "convert it to ONNX",
    ),
    Format(
        "an ONNX model as text",
        _matches(rb"ir_version\s*:"),
        'convert it: onnx.save(onnx.load(path, format="textproto"), "model.onnx")',
    ),
    Format("a compressed file", _begins(b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf"), _UNPACK),
    Format("a compressed file", _begins(b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"), _UNPACK),
    Format("a tar archive", lambda content: content.head[257:262] == b"ustar", _UNPACK),
    Format(
        "an image",
        _begins(b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM"),
        "give the model first, and the image as its input",
    ),
    Format("a NumPy array", _begins(b"\x93NUMPY"), "give the model, not its inputs"),
    Format("a program of this machine", _begins(b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe"), _ORIGINAL),
    Format("a PDF document", _begins(b"%PDF"), _ONNX),
    Format("a JSON document", _matches(rb"[{\[]\s*[\"{\[\]}]"), _ONNX),
    Format("a text file", _text, _ONNX),
)
"""Asked in this order, once no front end opens a file."""


def known_format(content: Content) -> Format | None:
    """What a file or folder is, if that is known."""
    return next((format for format in FORMATS if format.test(content)), None)


def refusal(content: Content, readable: str) -> ModelError:
    """Why a file or folder cannot be opened; `readable` lists what can be."""
    found = known_format(content)
    where = "" if content.path is None else f"in {content.path}"
    if not content.is_folder and not content.data:
        return ModelError("the file is empty", where=where)
    if found is not None:
        return ModelError(f"cannot compile {found.name}", where=where, help=found.help)
    if content.is_folder:
        return ModelError(
            "cannot compile a folder that is no model",
            where=where,
            help=_file_help(content),
        )
    return ModelError(
        f"the file is of no known format: it begins with {content.head[:8]!r}",
        where=where,
        help=f"models that are read: {readable}",
    )


def _file_help(content: Content) -> str:
    """The files that may be meant."""
    likely = sorted(n for n in content.names if n.endswith((".onnx", ".pt2", ".tflite", ".pb")))
    assert content.path is not None
    if not likely:
        return "give the path of the model's file"
    return f"give the path of its file: {content.path / likely[0]}"
