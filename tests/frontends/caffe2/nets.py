"""Caffe2 nets for tests, written as files are: binary by protobuf's wire format, and as text."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Op:
    """An operator: a type, blobs that it reads and writes, and arguments."""

    type: str
    input: Sequence[str] = ()
    output: Sequence[str] = ("y",)
    args: dict[str, Any] = field(default_factory=dict)
    name: str = ""


def op(type: str, input: Sequence[str] = (), output: Sequence[str] = ("y",), **args: Any) -> Op:
    return Op(type, input, output, args)


@dataclass(frozen=True)
class Net:
    """A net, and its two forms."""

    ops: Sequence[Op]
    external_input: Sequence[str] = ()
    external_output: Sequence[str] = ()
    name: str = "net"

    def binary(self) -> bytes:
        return b"".join(
            [
                _field(1, self.name.encode()),
                *(_field(2, _op(each)) for each in self.ops),
                *(_field(7, each.encode()) for each in self.external_input),
                *(_field(8, each.encode()) for each in self.external_output),
            ]
        )

    def text(self) -> str:
        lines = [f'name: "{self.name}"']
        for each in self.ops:
            lines += ["op {", *_names("input", each.input), *_names("output", each.output)]
            lines += [f'  name: "{each.name}"'] if each.name else []
            lines += [f'  type: "{each.type}"']
            for key, value in each.args.items():
                lines += ["  arg {", f'    name: "{key}"', *_text_values(value), "  }"]
            lines.append("}")
        lines += [line[2:] for line in _names("external_input", self.external_input)]
        lines += [line[2:] for line in _names("external_output", self.external_output)]
        return "\n".join(lines) + "\n"


def filled(**blobs: np.ndarray) -> Net:
    """An init net that fills blobs with these elements."""
    return Net([fill(name, array) for name, array in blobs.items()], (), [*blobs])


FILLS = {
    "float32": "GivenTensorFill",
    "float16": "GivenTensorFp16Fill",
    "int32": "GivenTensorIntFill",
    "int64": "GivenTensorInt64Fill",
    "bool": "GivenTensorBoolFill",
    "uint8": "GivenTensorByteStringToUInt8Fill",
}


def fill(name: str, array: np.ndarray) -> Op:
    type = FILLS[str(array.dtype)]
    shape = [*array.shape]
    if array.dtype == np.uint8:
        return op(type, (), [name], shape=shape, values=[array.tobytes()])
    values = array.astype(np.float32 if array.dtype.kind == "f" else np.int64).ravel()
    return op(type, (), [name], shape=shape, values=values.tolist())


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _field(number: int, contents: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(contents)) + contents


def _op(each: Op) -> bytes:
    return b"".join(
        [
            *(_field(1, name.encode()) for name in each.input),
            *(_field(2, name.encode()) for name in each.output),
            _field(3, each.name.encode()) if each.name else b"",
            _field(4, each.type.encode()),
            *(_field(5, _argument(name, value)) for name, value in each.args.items()),
        ]
    )


def _argument(name: str, value: Any) -> bytes:
    return _field(1, name.encode()) + _values(value)


def _values(value: Any) -> bytes:
    match value:
        case float():
            return _varint(2 << 3 | 5) + struct.pack("<f", value)
        case int():
            return _varint(3 << 3) + _varint(value)
        case str():
            return _field(4, value.encode())
        case bytes():
            return _field(4, value)
    pieces = []
    for each in value:
        match each:
            case float():
                pieces.append(_varint(5 << 3 | 5) + struct.pack("<f", each))
            case int():
                pieces.append(_varint(6 << 3) + _varint(each))
            case _:
                pieces.append(_field(7, each if isinstance(each, bytes) else each.encode()))
    return b"".join(pieces)


def _names(key: str, names: Sequence[str]) -> list[str]:
    return [f'  {key}: "{name}"' for name in names]


def _text_values(value: Any) -> list[str]:
    single = {float: "f", int: "i", str: "s", bytes: "s"}
    many = {float: "floats", int: "ints", str: "strings", bytes: "strings"}
    if isinstance(value, (float, int, str, bytes)):
        return [f"    {single[type(value)]}: {_literal(value)}"]
    return [f"    {many[type(each)]}: {_literal(each)}" for each in value]


def _literal(value: Any) -> str:
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return '"' + "".join(f"\\{byte:03o}" for byte in value) + '"'
    return repr(np.float32(value).item()) if isinstance(value, float) else str(value)
