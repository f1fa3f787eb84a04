"""The error of arrays relative to a reference."""

from __future__ import annotations

import math

import numpy as np

from afterglow.types import Array


def relative_error(ours: Array, theirs: Array) -> float:
    """The largest absolute error divided by the reference's largest finite magnitude.

    It is infinite if shapes, element types or non-finite elements differ.
    """
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return math.inf
    if not ours.size:
        return 0.0
    if ours.dtype.kind in "OSUb":
        return 0.0 if np.array_equal(ours, theirs) else math.inf
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    mine, reference = ours.astype(wide), theirs.astype(wide)
    same = (mine == reference) | (np.isnan(mine) & np.isnan(reference))
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.abs(mine - reference))
    if not np.isfinite(distance).all():
        return math.inf
    finite = np.abs(reference[np.isfinite(reference)])
    scale = float(finite.max()) if finite.size else 0.0
    return float(distance.max()) / scale if scale else float(distance.max())
