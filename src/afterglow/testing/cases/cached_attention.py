"""Cases of afterglow.ops.cached_attention."""

from __future__ import annotations

import numpy as np

from afterglow.ops.cached_attention import CachedAttention, WriteRows
from afterglow.testing.cases.case import Case, bf16, case, f16, f32, f64, i8, i32
from afterglow.types import Array, TensorType

_POSITIONS, _SEQUENCES = np.array([3, 4, 0, 6, 5], np.int32), np.array([1, 1, 0, 0, 1], np.int32)
_PROMPT, _ONE = np.arange(2, 9, dtype=np.int32), np.zeros(7, np.int32)


def _attention(
    op: CachedAttention,
    query: TensorType,
    keys: TensorType,
    values: TensorType | None = None,
    positions: Array = _POSITIONS,
    sequences: Array = _SEQUENCES,
) -> Case:
    """A case with caches of one type; i8 have scales."""
    places = i32(len(positions)), i32(len(sequences))
    scales = (f32(*keys.shape[:3], 1),) * 2 if keys.dtype.is_integer else ()
    types = query, keys, values or keys, *places, *scales
    tolerance = 1e-5 if keys.dtype.bits > 16 else 1e-3
    return case(op, *types, given={3: positions, 4: sequences}, tolerance=tolerance)


CASES = [
    *(
        case(
            WriteRows(),
            cache(2, 3, 7, 4),
            cache(5, 3, 4),
            i32(5),
            i32(5),
            given={2: _POSITIONS, 3: _SEQUENCES},
        )
        for cache in (f32, f16, i8)
    ),
    case(WriteRows(), f32(1, 2, 9, 1), f32(7, 2, 1), i32(7), i32(7), given={2: _PROMPT, 3: _ONE}),
    case(WriteRows(), f32(1, 2, 9, 1), f32(0, 2, 1), i32(0), i32(0)),
    _attention(CachedAttention(0.5), f32(5, 3, 4), f32(2, 3, 7, 4)),
    _attention(CachedAttention(0.5), f32(5, 6, 4), f32(2, 2, 7, 4), f32(2, 2, 7, 5)),
    _attention(CachedAttention(0.5, window=2), f32(5, 4, 4), f32(2, 1, 7, 4)),
    _attention(CachedAttention(0.5, softcap=3.0), f32(5, 4, 4), f32(2, 2, 7, 4)),
    _attention(CachedAttention(0.5, 3, 2.0), f32(5, 4, 4), f16(2, 2, 7, 4)),
    _attention(CachedAttention(0.5), f32(5, 4, 4), f16(2, 2, 7, 4)),
    _attention(CachedAttention(0.5), f32(5, 4, 4), i8(2, 2, 7, 4)),
    _attention(CachedAttention(0.5), f16(5, 2, 4), f16(2, 2, 7, 4)),
    _attention(CachedAttention(0.5), bf16(5, 2, 4), bf16(2, 2, 7, 4)),
    _attention(CachedAttention(0.5), f64(5, 2, 4), f64(2, 2, 7, 4)),
    _attention(
        CachedAttention(0.5),
        f32(7, 4, 16),
        f32(1, 2, 33, 16),
        positions=_PROMPT,
        sequences=_ONE,
    ),
]
