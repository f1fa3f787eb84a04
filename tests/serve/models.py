"""Small models for the tests of the server."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser

DTYPES = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "bfloat16": "BF16",
    "float": "FP32",
    "double": "FP64",
    "string": "BYTES",
}
"""ONNX's element types, and what the protocol calls them."""


def save(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {body}')
    onnx.save(model, str(path))
    return path


DOUBLE = "double (float[batch, 4] x) => (float[batch, 4] y) { y = Add(x, x) }"
TRIPLE = """triple (float[batch, 4] x) => (float[batch, 4] y) { t = Add(x, x)
    y = Add(t, x) }"""
FIXED = """fixed (float[1, 2, 3] x) => (float[1, 6] y) <int64[2] shape = {1, 6}> {
    r = Reshape(x, shape)
    y = Relu(r)
}"""
MIXED = "mixed (float[rows, 4] x) => (float[rows, 4] y) { y = Softmax <axis = 0> (x) }"
LOOKUP = """lookup (int64[batch, 1] i) => (float[batch, 1] y) <float[3] table = {1, 2, 3}> {
    y = Gather(table, i)
}"""
PAIR = """pair (float[batch, 2] a, float[batch, 2] b) => (float[batch, 2] s, float[batch, 2] d) {
    s = Add(a, b)
    d = Sub(a, b)
}"""


def echo(kind: str) -> str:
    return f"echo ({kind}[batch, 2] x) => ({kind}[batch, 2] y) {{ y = Identity(x) }}"


def save_all(folder: Path) -> None:
    for kind, datatype in DTYPES.items():
        save(folder, f"echo_{datatype}.onnx", echo(kind))
    for name, body in (("fixed", FIXED), ("mixed", MIXED), ("lookup", LOOKUP), ("pair", PAIR)):
        save(folder, f"{name}.onnx", body)
    save(folder, "double/1/model.onnx", DOUBLE)
    save(folder, "double/2/model.onnx", TRIPLE)
    (folder / "broken.onnx").write_bytes(b"\x08\x08nothing")
    (folder / "notes.txt").write_text("not a model")
