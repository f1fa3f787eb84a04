"""Special functions that NumPy lacks, to double precision."""

from __future__ import annotations

import numpy as np

from afterglow.types import Array

# W. J. Cody's rational approximations (Mathematics of Computation 23, 1969), highest power first.
_SMALL_TOP = (
    1.85777706184603153e-1,
    3.16112374387056560e0,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
)
_SMALL_BOTTOM = (
    1.0,
    2.36012909523441209e1,
    2.44024637934444173e2,
    1.28261652607737228e3,
    2.84423683343917062e3,
)
_MIDDLE_TOP = (
    2.15311535474403846e-8,
    5.64188496988670089e-1,
    8.88314979438837594e0,
    6.61191906371416295e1,
    2.98635138197400131e2,
    8.81952221241769090e2,
    1.71204761263407058e3,
    2.05107837782607147e3,
    1.23033935479799725e3,
)
_MIDDLE_BOTTOM = (
    1.0,
    1.57449261107098347e1,
    1.17693950891312499e2,
    5.37181101862009858e2,
    1.62138957456669019e3,
    3.29079923573345963e3,
    4.36261909014324716e3,
    3.43936767414372164e3,
    1.23033935480374942e3,
)


def erf(x: Array) -> Array:
    """The error function, element by element, in the element type of `x`."""
    wide = np.asarray(x, np.float64)
    size = np.minimum(np.abs(wide), 6.0)  # erf(6) rounds to 1
    square = size * size
    small = size * np.polyval(_SMALL_TOP, square) / np.polyval(_SMALL_BOTTOM, square)
    tail = np.exp(-square) * np.polyval(_MIDDLE_TOP, size) / np.polyval(_MIDDLE_BOTTOM, size)
    result = np.copysign(np.where(size < 0.5, small, 1.0 - tail), wide)
    return np.where(np.isnan(wide), wide, result).astype(x.dtype)
