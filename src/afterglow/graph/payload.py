"""The elements of a module's constants as bytes, beside its text."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

from afterglow.graph.value import Constant
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.types import Array
from afterglow.types.dtype import DTYPES, Kind

_LENGTH_BYTES = 8


def pack_constants(constants: Iterable[Constant]) -> bytes:
    """A table of the constants, and their elements one after the other."""
    table: list[list[object]] = []
    data = bytearray()
    for constant in constants:
        if constant.type.dtype.kind is Kind.STRING:
            place: object = constant.data.reshape(-1).tolist()
        else:
            data.extend(bytes(-len(data) % ALIGNMENT))
            place = len(data)
            data.extend(np.ascontiguousarray(constant.data).tobytes())
        table.append([constant.name, constant.type.dtype.name, constant.type.shape, place])
    header = json.dumps(table).encode()
    header += b" " * (-(len(header) + _LENGTH_BYTES) % ALIGNMENT)
    return len(header).to_bytes(_LENGTH_BYTES, "little") + header + data


def unpack_constants(packed: bytes | memoryview) -> dict[str, Array]:
    """The arrays by name: views of the bytes, not to be written."""
    view = memoryview(packed)
    start = _LENGTH_BYTES + int.from_bytes(view[:_LENGTH_BYTES], "little")
    arrays: dict[str, Array] = {}
    for name, dtype, shape, place in json.loads(bytes(view[_LENGTH_BYTES:start])):
        if isinstance(place, list):
            array = np.empty(len(place), object)
            array[:] = place
        else:
            numpy, count = DTYPES[dtype].numpy, int(np.prod(shape, dtype=np.int64))
            at = view[start + place :]
            array = np.frombuffer(at, numpy, count) if count else np.empty(0, numpy)
        arrays[name] = array.reshape(shape)
    return arrays
