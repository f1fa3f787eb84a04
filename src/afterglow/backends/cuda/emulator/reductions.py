"""Reductions and scans over blocks: by NumPy where it has them, or else in halves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from afterglow.backends.cuda.emulator.builder import handle_of, numbers_of
from afterglow.types import Array

_REDUCED: dict[str, Callable[..., Array]] = {
    "_sum_combine": np.add.reduce,
    "_elementwise_max": np.fmax.reduce,
    "_elementwise_min": np.fmin.reduce,
    "_xor_combine": np.bitwise_xor.reduce,
    "_or_combine": np.bitwise_or.reduce,
    "_prod_combine": np.multiply.reduce,
}
"""What NumPy does by itself, by the names of Triton's functions for two elements."""
_SCANNED: dict[str, Callable[..., Array]] = {
    "_sum_combine": np.add.accumulate,
    "_prod_combine": np.multiply.accumulate,
}


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **_: Any) -> Any:
    """`tl.reduce`."""
    single = not isinstance(input, (tuple, tl.tuple))
    parts = [input] if single else list(input)
    shape = parts[0].handle.data.shape
    place, keep = _number(axis), bool(_number(keep_dims))
    arrays = [part.handle for part in parts]
    if place is None:
        arrays = [_with_data(handle, handle.data.reshape(-1)) for handle in arrays]
    reduced = _reduce(arrays, place or 0, combine_fn)
    if keep:
        to = (1,) * len(shape) if place is None else _without(shape, place, (1,))
    else:
        to = () if place is None else _without(shape, place, ())
    results = [_tensor(handle, to) for handle in reduced]
    return results[0] if single else tuple(results)


def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **_: Any) -> Any:
    """`tl.associative_scan`."""
    single = not isinstance(input, (tuple, tl.tuple))
    parts = [input] if single else list(input)
    place = _number(axis)
    handles = [part.handle for part in parts]
    shape = handles[0].data.shape
    if _number(reverse):
        handles = [_with_data(handle, np.flip(handle.data, place)) for handle in handles]
    scanned = _scan(handles, place, combine_fn)
    if _number(reverse):
        scanned = [_with_data(handle, np.flip(handle.data, place)) for handle in scanned]
    results = [_tensor(handle, shape) for handle in scanned]
    return results[0] if single else tuple(results)


def _reduce(handles: list[Any], axis: int, combine: Any) -> list[Any]:
    """Values without an axis."""
    known = _REDUCED.get(combine.__name__)
    if known is not None and len(handles) == 1:
        numbers = numbers_of(handles[0])
        return [handle_of(known(numbers, axis=axis, dtype=numbers.dtype), handles[0].dtype)]
    while handles[0].data.shape[axis] > 1:
        low = [_every_other(handle, axis, 0) for handle in handles]
        high = [_every_other(handle, axis, 1) for handle in handles]
        handles = _combined(combine, low, high)
    return [_with_data(handle, handle.data.take(0, axis)) for handle in handles]


def _scan(handles: list[Any], axis: int, combine: Any) -> list[Any]:
    """Of each place along an axis, what all up to there combine to."""
    known = _SCANNED.get(combine.__name__)
    if known is not None and len(handles) == 1:
        numbers = numbers_of(handles[0])
        return [handle_of(known(numbers, axis=axis, dtype=numbers.dtype), handles[0].dtype)]
    shape = handles[0].data.shape
    size = shape[axis]
    places = np.arange(size).reshape((size,) + (1,) * (len(shape) - 1 - axis % len(shape)))
    distance = 1
    while distance < size:
        before = [_with_data(h, np.roll(h.data, distance, axis)) for h in handles]
        combined = _combined(combine, before, handles)
        handles = [
            _with_data(old, np.where(places >= distance, new.data, old.data))
            for old, new in zip(handles, combined, strict=True)
        ]
        distance *= 2
    return handles


def _combined(combine: Any, low: list[Any], high: list[Any]) -> list[Any]:
    """What a function of the kernel makes of pairs."""
    shape = low[0].data.shape
    results = combine(*(_tensor(handle, shape) for handle in (*low, *high)))
    outcomes = results if isinstance(results, (tuple, tl.tuple)) else (results,)
    return [
        _with_data(handle, np.broadcast_to(outcome.handle.data, shape))
        for handle, outcome in zip(low, outcomes, strict=True)
    ]


def _every_other(handle: Any, axis: int, first: int) -> Any:
    places = [slice(None)] * handle.data.ndim
    places[axis] = slice(first, None, 2)
    return _with_data(handle, handle.data[tuple(places)])


def _with_data(handle: Any, data: Array) -> Any:
    return type(handle)(np.asarray(data).astype(handle.data.dtype, copy=False), handle.dtype)


def _tensor(handle: Any, shape: tuple[int, ...]) -> Any:
    """A tensor of some shape; scalars are arrays of one element."""
    scalar = handle.dtype.scalar
    data = np.ascontiguousarray(handle.data).reshape(shape or (1,))
    return tl.tensor(
        _with_data(handle, data), tl.block_type(scalar, list(shape)) if shape else scalar
    )


def _without(shape: tuple[int, ...], axis: int, instead: tuple[int, ...]) -> tuple[int, ...]:
    axis %= len(shape)
    return (*shape[:axis], *instead, *shape[axis + 1 :])


def _number(value: Any) -> Any:
    """What a constant of the kernel is."""
    return value.value if isinstance(value, tl.constexpr) else value
