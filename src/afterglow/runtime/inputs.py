"""What a caller gives for an input, as the array that the model takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from afterglow.runtime.device_arrays import DeviceTensor
from afterglow.runtime.foreign_arrays import array_of, is_foreign
from afterglow.runtime.signature import TensorInfo
from afterglow.support.errors import UsageError
from afterglow.types import Array, DType
from afterglow.types.dtype import Kind

_PLAIN = (list, tuple, int, float)
"""Python's own numbers, which have no element type yet: they get that of the input."""


def checked_input(info: TensorInfo, given: Any) -> Any:
    """The input as an array of the right element type and rank, or an error that says why not.

    What lies in the memory of a GPU stays there.
    """
    wanted = info.dtype
    if wanted is None:
        return given
    array = given if isinstance(given, (np.ndarray, DeviceTensor)) else _as_array(info, given)
    if wanted.kind is Kind.STRING and isinstance(array, np.ndarray):
        array = _strings(info, array)
    if array.dtype != wanted.numpy:
        raise UsageError(
            f"input {info.name!r} holds {wanted.numpy}, got {array.dtype}",
            help=f"convert it: array.astype({wanted.numpy.name!r})",
        )
    if info.shape is None:
        return array
    fits = len(info.shape) == array.ndim and all(
        not isinstance(want, int) or want == have
        for want, have in zip(info.shape, array.shape, strict=True)
    )
    if not fits:
        raise UsageError(f"input '{info}' does not take an array of shape {array.shape}")
    return array


def _strings(info: TensorInfo, array: Array) -> Array:
    """An array of strings; any other element is an error."""
    strings = array.astype(object) if array.dtype.kind in "UT" else array
    odd = [] if strings.dtype != object else [x for x in strings.flat if not isinstance(x, str)]
    if odd:
        raise UsageError(
            f"input {info.name!r} holds strings, got an element of type {type(odd[0]).__name__}",
            help="convert its elements with str()",
        )
    return strings


def _as_array(info: TensorInfo, given: Any) -> Array:
    assert info.dtype is not None
    try:
        array = array_of(given) if is_foreign(given) else np.asarray(given)
    except ValueError:  # a list whose parts have different lengths
        raise _no_array(info, given) from None
    except UsageError as error:
        raise UsageError(f"input {info.name!r}: {error.what}", help=error.help) from None
    if info.dtype.kind is not Kind.STRING and array.dtype.kind == "O":
        raise _no_array(info, given)
    return _converted(info, info.dtype, array) if isinstance(given, _PLAIN) else array


def _converted(info: TensorInfo, wanted: DType, array: Array) -> Array:
    """Python's numbers with the element type of the input, if that has room for them."""
    whole = array.dtype.kind in "iu" or not array.size
    takes = whole if wanted.is_integer else wanted.is_float and array.dtype.kind in "fiu"
    if array.dtype == wanted.numpy or not takes:
        return array
    with np.errstate(over="ignore"):
        converted = array.astype(wanted.numpy)
    if wanted.is_integer and not np.array_equal(converted, array):
        raise UsageError(
            f"input {info.name!r} holds {wanted.numpy}, but a number is out of its range"
        )
    return converted


def _no_array(info: TensorInfo, given: Any) -> UsageError:
    if given is None:
        return UsageError(f"input {info.name!r} is None", help=f"it takes {info}")
    if isinstance(given, Mapping):
        return UsageError(
            f"input {info.name!r} takes an array, got a dictionary",
            help="give inputs by name as model(NAME=array) or model({'NAME': array})",
        )
    kind = type(given).__name__
    return UsageError(
        f"input {info.name!r} takes an array, and this {kind} cannot be converted to one",
        help=f"it takes {info}",
    )
