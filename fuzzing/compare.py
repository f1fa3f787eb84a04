"""When results of two ways to compute the same agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afterglow.types.dtype import DType, Kind
from fuzzing.kind import Mismatch

TOLERANCES = {2: 2e-2, 4: 1e-3, 8: 1e-3}
"""Of floats with so many bytes, relative to the largest number of the tensor."""


def compare(what: str, got: Sequence[Any], want: Sequence[Any], loosen: float = 1.0) -> None:
    """Raise if the outputs of two runs disagree."""
    if len(got) != len(want):
        raise Mismatch(what, f"{len(got)} outputs rather than {len(want)}")
    for index, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        if isinstance(theirs, np.ndarray):
            _compare_arrays(what, index, np.asarray(ours), theirs, loosen)


def _compare_arrays(what: str, index: int, ours: Any, theirs: Any, loosen: float) -> None:
    if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
        text = f"output {index} is {ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}"
        raise Mismatch(what, text)
    wrong = ~close(ours, theirs, loosen)
    if wrong.any():
        spot = int(np.flatnonzero(wrong)[0])
        pair = f"{ours.reshape(-1)[spot]!r}, not {theirs.reshape(-1)[spot]!r}"
        text = f"output {index} at element {spot}: {pair}"
        raise Mismatch(what, f"{text} ({wrong.sum()} of {wrong.size} differ)")


def close(ours: Any, theirs: Any, loosen: float = 1.0) -> Any:
    """Where the elements of two arrays agree: whole numbers and texts exactly."""
    if not _has_fractions(theirs.dtype):
        return np.atleast_1d(ours == theirs)
    wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
    a, b = np.atleast_1d(ours.astype(wide)), np.atleast_1d(theirs.astype(wide))
    with np.errstate(all="ignore"):
        size = np.abs(b)
        largest = max(1.0, float(np.max(size, initial=0.0, where=np.isfinite(size))))
        near = np.abs(a - b) <= TOLERANCES.get(theirs.dtype.itemsize, 1e-3) * loosen * largest
    return near | (a == b) | (np.isnan(a) & np.isnan(b))


def _has_fractions(dtype: Any) -> bool:
    """Whether elements are floats or complex; NumPy does not know all of them."""
    return DType.of(dtype).kind in (Kind.FLOAT, Kind.COMPLEX)
