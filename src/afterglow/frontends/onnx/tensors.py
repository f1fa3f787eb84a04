"""ONNX tensors as NumPy arrays: views of the file wherever the bytes can be used as they lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from afterglow.frontends.definition.limits import MOST_BYTES, MOST_GROWTH, check_rank
from afterglow.frontends.onnx.external import DataFiles
from afterglow.frontends.onnx.messages import SparseTensorProto, TensorProto
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.types import Array, DType
from afterglow.types.dtype import Kind, f32, f64, i32, i64
from afterglow.types.onnx_elements import dtype_of

MOST_DENSE_BYTES = 2**30
"""A sparse tensor that takes more when it is written out, and `MOST_GROWTH` times what is stored of
it, is refused."""
_LISTED = {f32: "float_data", f64: "double_data", i32: "int32_data", i64: "int64_data"}
"""The fields that list elements of a type as they are."""


def tensor_array(tensor: TensorProto, files: DataFiles) -> Array:
    """The elements of a tensor. The array must not be written: it may be the file itself."""
    try:
        return _array(tensor, files)
    except AfterglowError as error:
        raise _about(tensor, error) from None


def _about(tensor: TensorProto, error: AfterglowError) -> AfterglowError:
    """The error with the tensor's name in front, if it has one: those of nodes do not."""
    if tensor.name:
        error.what = f"tensor {tensor.name!r}: {error.what}"
    return error


def _array(tensor: TensorProto, files: DataFiles) -> Array:
    dtype = dtype_of(tensor.data_type)
    shape = checked_shape(tensor.dims, dtype)
    if tensor.HasField("segment"):
        raise UnsupportedError("it is stored in segments")
    if dtype.kind is Kind.STRING:
        return _strings(tensor, shape)
    if tensor.data_location == TensorProto.EXTERNAL:
        return _from_bytes(tensor, dtype, shape, files.bytes_of(tensor))
    if tensor.HasField("raw_data"):
        return _from_bytes(tensor, dtype, shape, memoryview(tensor.raw_data))
    return _from_numbers(tensor, dtype, shape)


def dense_array(sparse: SparseTensorProto, files: DataFiles) -> Array:
    """The elements of a sparse tensor, with its zeros written out."""
    values = tensor_array(sparse.values, files).reshape(-1)
    indices = tensor_array(sparse.indices, files)
    try:
        shape = checked_shape(sparse.dims, dtype_of(sparse.values.data_type))
        stored = values.nbytes + indices.nbytes
        if math.prod(shape) * values.itemsize > max(MOST_DENSE_BYTES, MOST_GROWTH * stored):
            raise UnsupportedError(f"it is sparse, and its shape {shape} too large")
        positions = _positions(indices, len(values), shape)
    except AfterglowError as error:
        raise _about(sparse.values, error) from None
    dense = np.zeros(math.prod(shape), values.dtype)
    dense[positions] = values
    return dense.reshape(shape)


def _positions(indices: Array, count: int, shape: tuple[int, ...]) -> Array:
    """Where the values go: given as they are counted in all, or one index an axis."""
    limits = np.array(shape if indices.ndim == 2 else math.prod(shape), np.int64)
    expected = (count, len(shape)) if indices.ndim == 2 else (count,)
    if indices.shape != expected or indices.dtype != np.int64:
        raise ModelError(f"it has {count} values, but indices {indices.dtype}{list(indices.shape)}")
    if not np.all((indices >= 0) & (indices < limits)):
        raise ModelError(f"it has indices outside of its shape {shape}")
    if indices.ndim == 1:
        return indices
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return np.asarray(indices @ np.array(strides, np.int64))


def checked_shape(dims: Sequence[int], dtype: DType) -> tuple[int, ...]:
    """The dims as a shape, if a tensor can have it."""
    shape = tuple(dims)
    check_rank(len(shape), "it")
    if any(extent < 0 for extent in shape):
        raise ModelError(f"its shape {shape} has a negative extent")
    if math.prod(shape) * dtype.itemsize > MOST_BYTES:
        raise ModelError(f"its shape {shape} is too large: more than {MOST_BYTES:,} bytes")
    return shape


def _strings(tensor: TensorProto, shape: tuple[int, ...]) -> Array:
    _check_count("strings", len(tensor.string_data), math.prod(shape), shape)
    texts = [text.decode("utf-8", "replace") for text in tensor.string_data]
    return np.array(texts, object).reshape(shape)


def _from_bytes(
    tensor: TensorProto, dtype: DType, shape: tuple[int, ...], data: memoryview
) -> Array:
    _check_count("bytes", len(data), _packed_bytes(dtype, shape), shape)
    if not len(data):
        return np.empty(shape, dtype.numpy)
    if dtype.bits < 8:
        packed = TensorProto(data_type=tensor.data_type, dims=shape, raw_data=bytes(data))
        return _array_by_library(packed)
    return np.frombuffer(data, dtype.numpy).reshape(shape)


def _from_numbers(tensor: TensorProto, dtype: DType, shape: tuple[int, ...]) -> Array:
    """From the field that holds elements of such a type as a list of plain numbers."""
    expected = math.prod(shape)
    if dtype in _LISTED:
        listed = getattr(tensor, _LISTED[dtype])
        _check_count("numbers", len(listed), expected, shape)
        return np.array(listed, dtype.numpy).reshape(shape)
    if dtype.bits < 8:
        expected = _packed_bytes(dtype, shape)
    elif dtype.kind is Kind.COMPLEX:
        expected *= 2
    _check_count("numbers", _library().count_numbers(tensor), expected, shape)
    return _array_by_library(tensor)


def _array_by_library(tensor: TensorProto) -> Array:
    found: Array = _library().array_of(tensor)
    return found


def _library() -> ModuleType:
    """What reads the forms of tensors that few models have: it needs all of ONNX's library."""
    import afterglow.frontends.onnx.library as library  # noqa: PLC0415

    return library


def _packed_bytes(dtype: DType, shape: tuple[int, ...]) -> int:
    return -(-math.prod(shape) * dtype.bits // 8)


def _check_count(what: str, found: int, expected: int, shape: tuple[int, ...]) -> None:
    if found != expected:
        raise ModelError(f"it has {found:,} {what}, its shape {shape} needs {expected:,}")
