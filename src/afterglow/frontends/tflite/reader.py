"""TFLite files as records: what is in one, with every number in it checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np

from afterglow.frontends.definition.limits import MOST_BYTES, check_rank
from afterglow.frontends.definition.model import AttributeDef, AttributeKind
from afterglow.frontends.tflite.elements import Quantization
from afterglow.frontends.tflite.flatbuffer import Flatbuffer, Table
from afterglow.frontends.tflite.flexbuffer import custom_attributes
from afterglow.frontends.tflite.node import VERSION
from afterglow.frontends.tflite.options import BUILTIN_NAMES, TYPE_NAMES, read_options
from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of a TFLite file."""

_CUSTOM = 32
_PLACEHOLDER = 127
"""In the old field of an op's number: look into the new one."""


@dataclass(frozen=True, eq=False)
class TensorRecord:
    """A tensor of a subgraph."""

    name: str
    type: str
    """The schema's name of its element type."""
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    """The shape with -1 for what is dynamic."""
    buffer: int
    is_variable: bool = False
    quantization: Quantization | None = None
    sparsity: Table | None = None
    what: str = ""


@dataclass(frozen=True, eq=False)
class OperatorRecord:
    """An op of a subgraph, applied to tensors by their numbers; -1 for none."""

    op_type: str
    domain: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, AttributeDef] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class SubgraphRecord:
    """A graph of ops."""

    name: str
    tensors: tuple[TensorRecord, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[OperatorRecord, ...]


@dataclass(frozen=True, eq=False)
class SignatureRecord:
    """What the inputs and outputs of a subgraph are called, by the numbers of tensors."""

    subgraph: int
    inputs: Mapping[int, str]
    outputs: Mapping[int, str]


@dataclass(frozen=True, eq=False)
class FileRecord:
    """A file."""

    subgraphs: tuple[SubgraphRecord, ...]
    buffers: tuple[memoryview, ...]
    signatures: tuple[SignatureRecord, ...]


def is_tflite(data: memoryview | bytes) -> bool:
    """Whether bytes begin as a TFLite file does."""
    return bytes(data[4:8]) == IDENTIFIER


def read_file(data: memoryview) -> FileRecord:
    """The records of a file; tensors' elements stay where they are."""
    root = Flatbuffer(data).root()
    version = root.u32(0)
    if version != 3:
        raise ModelError(f"the file is of version {version} of the schema, 3 is the only one read")
    codes = [_operator_code(table) for table in root.tables(1, "operator code")]
    buffers = tuple(_buffer(table, data) for table in root.tables(4, "buffer"))
    subgraphs = tuple(_subgraph(table, codes, len(buffers)) for table in root.tables(2, "subgraph"))
    if not subgraphs:
        raise ModelError("the file has no subgraph")
    signatures = tuple(_signature(table, subgraphs) for table in root.tables(7, "signature"))
    return FileRecord(subgraphs, buffers, signatures)


def _operator_code(table: Table) -> tuple[str, str, int]:
    """Name, domain and version of an op."""
    old = table.u8(0)
    number = max(old, table.i32(3)) if old in (_PLACEHOLDER, 0) or table.field(3) else old
    version = table.i32(2, 1)
    if number == _CUSTOM:
        name = table.text(1, "custom code")
        return name or "(without a name)", "custom", version
    return BUILTIN_NAMES.get(number, f"BUILTIN_{number}"), "", version


def _buffer(table: Table, data: memoryview) -> memoryview:
    """The bytes of a buffer, which may lie behind the flatbuffer."""
    offset, size = table.u64(1), table.u64(2)
    if offset > 1:
        if offset + size > len(data):
            raise ModelError(
                f"the file is malformed or truncated: {table.what} would be bytes {offset:,} to "
                f"{offset + size:,}, the file has {len(data):,} bytes"
            )
        return data[offset : offset + size]
    found = table.bytes(0, "data")
    return data[:0] if found is None else found


def _subgraph(table: Table, codes: list[tuple[str, str, int]], buffers: int) -> SubgraphRecord:
    tensors = tuple(_tensor(each, buffers) for each in table.tables(0, "tensor"))
    operators = tuple(_operator(each, codes, len(tensors)) for each in table.tables(3, "operator"))
    inputs = _indices(table, 1, "inputs", len(tensors))
    outputs = _indices(table, 2, "outputs", len(tensors))
    return SubgraphRecord(table.text(4, "name"), tensors, inputs, outputs, operators)


def _indices(table: Table, slot: int, name: str, count: int, *, optional: bool = False) -> Any:
    """Numbers of tensors; -1 for none where that may be."""
    found = table.numbers(slot, "<i4", name)
    numbers = () if found is None else tuple(found.tolist())
    for number in numbers:
        if not (-1 if optional else 0) <= number < count:
            raise ModelError(
                f"{name} of {table.what}: there is no tensor {number}, there are {count:,}"
            )
    return numbers


def _tensor(table: Table, buffers: int) -> TensorRecord:
    what, name = table.what, table.text(3, "name")
    if name:
        what = f"{what} ({name!r})"
    number = table.u8(1)
    if number not in TYPE_NAMES:
        raise ModelError(f"{what} is of an element type {number} that no schema up to now has")
    shape = _shape(table.numbers(0, "<i4", "shape"), what)
    signature = _signature_shape(table.numbers(7, "<i4", "shape signature"), shape, what)
    buffer = table.u32(2)
    if buffer and buffer >= buffers:
        raise ModelError(f"{what} is in buffer {buffer:,}, there are {buffers:,}")
    quantization = table.table(4, "quantization")
    return TensorRecord(
        name,
        TYPE_NAMES[number],
        shape,
        signature,
        buffer,
        bool(table.u8(5)),
        None if quantization is None else _quantization(quantization, len(shape)),
        table.table(6, "sparsity"),
        what,
    )


def _shape(found: Array | None, what: str) -> tuple[int, ...]:
    shape = () if found is None else tuple(found.tolist())
    check_rank(len(shape), what)
    if any(extent < 0 for extent in shape):
        raise ModelError(f"{what} has a negative extent: {shape}")
    if math.prod(shape) > MOST_BYTES:
        raise ModelError(f"{what} is too large: its shape is {shape}")
    return shape


def _signature_shape(found: Array | None, shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    """The shape with -1 for dynamic extents; the shape itself if there is none."""
    if found is None or not found.size:
        return shape
    signature = tuple(found.tolist())
    fits = len(signature) == len(shape) and all(extent >= -1 for extent in signature)
    if not fits:
        raise ModelError(f"{what} has the shape {shape}, but the shape signature {signature}")
    return signature


def _quantization(table: Table, rank: int) -> Quantization | None:
    scales = table.numbers(2, "<f4", "scale")
    if scales is None or not scales.size:
        return None
    points = table.numbers(3, "<i8", "zero point")
    zero_points = (0,) * scales.size if points is None or not points.size else points.tolist()
    if len(zero_points) == 1 and scales.size > 1:
        zero_points = tuple(zero_points) * scales.size
    axis = table.i32(6)
    if len(zero_points) != scales.size:
        raise ModelError(
            f"{table.what} has {scales.size:,} scales, but {len(zero_points):,} zero points"
        )
    if scales.size > 1 and not 0 <= axis < rank:
        raise ModelError(f"{table.what} is along axis {axis}, the tensor has {rank} axes")
    if not np.isfinite(scales).all():
        raise ModelError(f"{table.what} has a scale that is not a number")
    return Quantization(tuple(scales.tolist()), tuple(zero_points), axis)


def _operator(table: Table, codes: list[tuple[str, str, int]], tensors: int) -> OperatorRecord:
    number = table.u32(0)
    if number >= len(codes):
        raise ModelError(f"{table.what} has operator code {number:,}, there are {len(codes):,}")
    op_type, domain, version = codes[number]
    inputs = _indices(table, 1, "inputs", tensors, optional=True)
    outputs = _indices(table, 2, "outputs", tensors, optional=True)
    options = _options(table)
    if domain:
        data = bytes(table.bytes(5, "custom options") or b"")
        table.file.charge(8 * len(data))
        options.update(custom_attributes(data))
        options["custom_options"] = AttributeDef(AttributeKind.INTS, tuple(data))
        options[VERSION] = AttributeDef(AttributeKind.INT, version)
    return OperatorRecord(op_type, domain, version, inputs, outputs, options)


def _options(table: Table) -> dict[str, AttributeDef]:
    found: dict[str, AttributeDef] = {}
    for kind, slot, second in ((3, 4, False), (11, 12, True)):
        number = table.u8(kind)
        options = table.table(slot, "options") if number else None
        if options is not None:
            found.update(read_options(options, number, second=second))
    return found


def _signature(table: Table, subgraphs: tuple[SubgraphRecord, ...]) -> SignatureRecord:
    number = table.u32(4)
    if number >= len(subgraphs):
        raise ModelError(f"{table.what} is of subgraph {number:,}, there are {len(subgraphs):,}")
    count = len(subgraphs[number].tensors)
    inputs, outputs = (_tensor_names(table, slot, count) for slot in (0, 1))
    return SignatureRecord(number, inputs, outputs)


def _tensor_names(table: Table, slot: int, count: int) -> dict[int, str]:
    found = {}
    for each in table.tables(slot, ("input", "output")[slot]):
        number = each.u32(1)
        if number >= count:
            raise ModelError(f"{each.what} is tensor {number:,}, there are {count:,}")
        found[number] = each.text(0, "name")
    return found
