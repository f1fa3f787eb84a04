"""The elements of a file's tensors: views of its bytes wherever that can be."""

from __future__ import annotations

import math

import numpy as np

from afterglow.frontends.tflite.elements import find_dtype
from afterglow.frontends.tflite.reader import TensorRecord
from afterglow.frontends.tflite.sparse import dense_elements
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.types import Array, DType
from afterglow.types.dtype import boolean, string


def tensor_array(tensor: TensorRecord, data: memoryview) -> Array:
    """The elements of a tensor that has them in the file; not to be written."""
    dtype = find_dtype(tensor.type)
    if dtype is None:
        raise UnsupportedError(f"{tensor.what} holds {tensor.type} in the file")
    if dtype is string:
        raise UnsupportedError(f"{tensor.what} holds strings, which are not supported")
    if tensor.sparsity is not None:
        return dense_elements(tensor, dtype, _elements(tensor, dtype, data, None))
    return _elements(tensor, dtype, data, math.prod(tensor.shape)).reshape(tensor.shape)


def _elements(tensor: TensorRecord, dtype: DType, data: memoryview, count: int | None) -> Array:
    """So many elements, all that there are if None."""
    if dtype.bits < 8:
        packed = np.frombuffer(data, np.uint8)
        expected = None if count is None else (count + 1) // 2
        _check_bytes(tensor, len(data), expected)
        return _unpacked(packed, count, dtype)
    _check_bytes(tensor, len(data), None if count is None else count * dtype.itemsize)
    if len(data) % dtype.itemsize:
        raise ModelError(f"{tensor.what} has {len(data):,} bytes, which are no whole elements")
    if dtype is boolean:
        return np.not_equal(np.frombuffer(data, np.uint8), 0)
    return np.frombuffer(data, dtype.numpy)


def _check_bytes(tensor: TensorRecord, found: int, expected: int | None) -> None:
    if expected is not None and found != expected:
        raise ModelError(
            f"{tensor.what} has {found:,} bytes, its shape {tensor.shape} of {tensor.type} "
            f"needs {expected:,}"
        )


def _unpacked(packed: Array, count: int | None, dtype: DType) -> Array:
    """Two signed elements of each byte, the low half first."""
    halves = np.stack([packed << 4, packed & 0xF0], axis=-1).reshape(-1)
    numbers = halves.view(np.int8) >> 4
    return numbers[:count].astype(dtype.numpy)
