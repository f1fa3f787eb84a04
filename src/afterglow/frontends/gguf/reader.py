"""The content of a GGUF file: metadata, and tensors whose bytes stay where they are.

Whatever the file says is checked before it is used: counts, lengths, types, shapes and offsets.
"""

from __future__ import annotations

import math

from afterglow.frontends.gguf.cursor import Cursor
from afterglow.frontends.gguf.formats import format_numbered
from afterglow.frontends.language.facts import Facts
from afterglow.frontends.language.weights import Weight
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_AXES = 4
FILE_ALIGNMENT = 32
"""Tensors begin at multiples of so many bytes, unless the file names another number."""
_LEAST_VALUE = 13
"""Bytes that an entry of metadata takes at least: the length of a key, a type, a value."""
_LEAST_TENSOR = 24
"""Bytes that the description of a tensor takes at least."""


@dataclass(frozen=True)
class GgufFile:
    """What is in a file: its metadata, and tensors by name."""

    version: int
    metadata: Facts
    tensors: dict[str, Weight]


@dataclass(frozen=True)
class _Record:
    """A tensor as it is described: extents are in the order of our shapes."""

    name: str
    shape: tuple[int, ...]
    format: int
    offset: int


def read_file(data: memoryview) -> GgufFile:
    """All that a file says."""
    cursor = Cursor(data)
    cursor.take(len(MAGIC), "the header")
    version = _version(cursor)
    tensors = cursor.count(_LEAST_TENSOR, "the number of tensors")
    entries = cursor.count(_LEAST_VALUE, "the number of metadata entries")
    metadata = _metadata(cursor, entries)
    records = [_record(cursor, number) for number in range(tensors)]
    alignment = metadata.integer("general.alignment", FILE_ALIGNMENT)
    if alignment < 1 or alignment & (alignment - 1):
        raise ModelError(f"the alignment of tensors is {alignment}, which is no power of 2")
    start = -(-cursor.place // alignment) * alignment
    weights: dict[str, Weight] = {}
    for record in records:
        if record.name in weights:
            raise ModelError(f"tensor {record.name!r} is there twice")
        weights[record.name] = _weight(record, data[start:], alignment)
    return GgufFile(version, metadata, weights)


def _version(cursor: Cursor) -> int:
    version = cursor.integer("I", "the version")
    if version and version & 0xFFFF == 0:
        raise UnsupportedError(
            "the file has the byte order of big-endian machines, which is not supported",
            help="convert the model for little-endian machines",
        )
    if version not in VERSIONS:
        listed = " and ".join(map(str, VERSIONS))
        raise UnsupportedError(
            f"the file is of version {version} of GGUF, which is not supported: {listed} are",
            help="convert the model again with a current version of llama.cpp",
        )
    return version


def _metadata(cursor: Cursor, count: int) -> Facts:
    entries: dict[str, object] = {}
    for number in range(count):
        key = cursor.text(f"the key of metadata entry {number}")
        if key in entries:
            raise ModelError(f"the metadata have {key!r} twice")
        entries[key] = cursor.value(f"metadata {key!r}")
    return Facts(entries, "the metadata")


def _record(cursor: Cursor, number: int) -> _Record:
    name = cursor.text(f"the name of tensor {number}")
    what = f"tensor {name!r}"
    axes = cursor.integer("I", f"the number of axes of {what}")
    if not 1 <= axes <= MOST_AXES:
        raise ModelError(f"{what} has {axes} axes, 1 to {MOST_AXES} are possible")
    extents = [cursor.integer("Q", f"the shape of {what}") for _ in range(axes)]
    format = cursor.integer("I", f"the type of {what}")
    return _Record(
        name, tuple(reversed(extents)), format, cursor.integer("Q", f"the offset of {what}")
    )


def _weight(record: _Record, data: memoryview, alignment: int) -> Weight:
    """The tensor of a record, whose bytes must be in the file."""
    what = f"tensor {record.name!r}"
    format = format_numbered(record.format, what)
    depth, size = record.shape[-1], math.prod(record.shape)
    if size < 1 or depth % format.block:
        raise ModelError(
            f"{what} is {list(record.shape)}, and {format.name} has blocks of {format.block}"
        )
    nbytes = size // format.block * format.nbytes
    if record.offset % alignment:
        raise ModelError(f"{what} begins at {record.offset:,}, no multiple of {alignment}")
    if record.offset + nbytes > len(data):
        raise ModelError(
            f"the file ends within {what}: it takes {nbytes:,} bytes at {record.offset:,} of "
            f"{len(data):,}",
            help="the file was cut off or is damaged: get it again",
        )
    raw = data[record.offset : record.offset + nbytes]
    return Weight(record.name, record.shape, format, raw)
