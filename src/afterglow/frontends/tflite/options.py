"""The options of a builtin op, read by the classes that the schema's compiler wrote."""

from __future__ import annotations

import inspect
import re
import struct
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import tflite

from afterglow.frontends.definition.model import AttributeDef, AttributeKind
from afterglow.frontends.tflite.flatbuffer import Table
from afterglow.support.errors import ModelError


def _names(enum: Any) -> dict[int, str]:
    return {number: name for name, number in vars(enum).items() if isinstance(number, int)}


BUILTIN_NAMES = _names(tflite.BuiltinOperator)
"""What the schema calls each builtin op."""

_OPTIONS = _names(tflite.BuiltinOptions)
_OPTIONS_2 = _names(tflite.BuiltinOptions2)
TYPE_NAMES = _names(tflite.TensorType)

_ENUMS: Mapping[str, Mapping[int, str]] = {
    "padding": _names(tflite.Padding),
    "fused_activation_function": _names(tflite.ActivationFunctionType),
    "mode": _names(tflite.MirrorPadMode),
    "weights_format": _names(tflite.FullyConnectedOptionsWeightsFormat),
    "kernel_type": _names(tflite.LSTMKernelType),
    "combiner": _names(tflite.CombinerType),
    "type": _names(tflite.LSHProjectionType),
    "reduce_function": _names(tflite.ReduceWindowFunction),
    **dict.fromkeys(
        ("in_data_type", "out_data_type", "output_type", "out_type", "idx_out_type"), TYPE_NAMES
    ),
    **dict.fromkeys(("quantized_bias_type", "key_dtype", "value_dtype"), TYPE_NAMES),
}

_GENERATED = ("AsNumpy", "IsNone", "Length")


def read_options(table: Table, number: int, *, second: bool) -> dict[str, AttributeDef]:
    """The fields of an options table, of the union's first or second part."""
    names = _OPTIONS_2 if second else _OPTIONS
    if number not in names:
        raise ModelError(f"{table.what} are of a kind {number} that no schema up to now has")
    kind = getattr(tflite, names[number])
    reader = kind()
    reader.Init(table.file.data, table.place)
    found = {}
    try:
        for name, read in _fields(kind).items():
            found[name] = _attribute(table, name, read(reader))
    except (struct.error, IndexError, ValueError, TypeError, OverflowError):
        raise ModelError(f"the file is malformed or truncated: in {table.what}") from None
    return found


@cache
def _fields(kind: Any) -> dict[str, Callable[[Any], Any]]:
    """A function that reads it, for each field of a class of the schema."""
    methods = {name: m for name, m in vars(kind).items() if inspect.isfunction(m)}
    methods.pop("Init")
    found: dict[str, Callable[[Any], Any]] = {}
    for name, method in methods.items():
        if any(name.endswith(end) and name.removesuffix(end) in methods for end in _GENERATED):
            continue
        read = methods.get(f"{name}AsNumpy")
        if read is None and f"{name}Length" in methods:
            continue  # tables and texts, which only ops have that are refused
        found[_snake(name)] = method if read is None else partial(_vector, read)
    return found


def _vector(read: Callable[[Any], Any], reader: Any) -> Any:
    """The elements of a vector, which may not be there."""
    found = read(reader)
    return found if isinstance(found, np.ndarray) else np.empty(0, np.int32)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _attribute(table: Table, name: str, value: Any) -> AttributeDef:
    if isinstance(value, np.ndarray):
        table.file.charge(8 * value.size)
        is_float = value.dtype.kind == "f"
        kind = AttributeKind.FLOATS if is_float else AttributeKind.INTS
        return AttributeDef(kind, tuple(value.tolist()))
    if isinstance(value, bytes):
        table.file.charge(len(value))
        return AttributeDef(AttributeKind.STRING, value.decode("utf-8", "replace"))
    if name in _ENUMS and not isinstance(value, bool):
        if value not in _ENUMS[name]:
            raise ModelError(f"{name} of {table.what} is {value}, which nothing is numbered by")
        return AttributeDef(AttributeKind.STRING, _ENUMS[name][value])
    match value:
        case bool():
            return AttributeDef(AttributeKind.BOOL, value)
        case int():
            return AttributeDef(AttributeKind.INT, value)
        case float():
            return AttributeDef(AttributeKind.FLOAT, value)
    return AttributeDef(AttributeKind.STRING, "")
