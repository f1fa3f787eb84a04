"""Errors in units of the last place, against 128 bits."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from mpmath import mp, mpf

from afterglow.backends.cpu import Target
from afterglow.graph import Array
from afterglow.types.dtype import DType, f32
from tests.backends.cpu.math.functions import MathFunction
from tests.backends.cpu.running import HOST, apply


@dataclass(frozen=True)
class Worst:
    """The largest error that was found, and where."""

    ulps: float
    at: tuple[float, ...]
    found: float
    exact: str
    tried: int


def measure(
    function: MathFunction, dtype: DType, count: int, *, target: Target = HOST, seed: int = 0
) -> Worst:
    """The largest error over finite operands with a finite, defined result."""
    columns = function.samples(dtype, count, seed)
    found = apply(function.emit, dtype, *columns, target=target)
    worst = Worst(0.0, (), 0.0, "", 0)
    tried = 0
    for place in np.flatnonzero(np.all([np.isfinite(c) for c in columns], axis=0)):
        operands = tuple(float(column[place]) for column in columns)
        exact = _exact(function, operands)
        if exact is None:
            continue
        tried += 1
        ulps = error_in_ulps(float(found[place]), exact, dtype)
        if ulps > worst.ulps:
            worst = Worst(ulps, operands, float(found[place]), mp.nstr(exact, 20), 0)
    return Worst(worst.ulps, worst.at, worst.found, worst.exact, tried)


def _exact(function: MathFunction, operands: tuple[float, ...]) -> mpf | None:
    """The value to 128 bits; None where there is none, or no real one (tested with the edges)."""
    try:
        exact = function.exact(*(mpf(x) for x in operands))
    except (ZeroDivisionError, ValueError):
        return None
    if isinstance(exact, mp.mpc) or mp.isnan(exact) or mp.isinf(exact):
        return None
    return exact


def error_in_ulps(found: float, exact: mpf, dtype: DType) -> float:
    """|found - exact| by the distance of the floats around the exact value."""
    info = np.finfo(dtype.numpy)
    if np.isnan(found):
        return float("inf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rounded = _rounded(exact, dtype)
    if found == rounded:
        found_exactly = mpf(found)
        if mp.isinf(found_exactly):
            return 0.0
    if np.isinf(found) or np.isinf(rounded):
        return float("inf") if abs(exact) < mpf(float(info.max)) else 0.6
    exponent = int(info.minexp) if exact == 0 else int(mp.floor(mp.log(abs(exact), 2)))
    unit = mpf(2) ** (max(exponent, int(info.minexp)) - int(info.nmant))
    return float(abs(mpf(found) - exact) / unit)


def _rounded(exact: mpf, dtype: DType) -> float:
    limit = mpf(2) ** int(np.finfo(dtype.numpy).maxexp)
    if abs(exact) >= limit * (1 - mpf(2) ** -(int(np.finfo(dtype.numpy).nmant) + 2)):
        return float("inf") if exact > 0 else float("-inf")
    return float(dtype.numpy.type(float(exact)))


def same(found: Array, wanted: Array) -> Array:
    """Whether numbers are the same, with the same sign; any NaN is like another."""
    both_nan = np.isnan(found) & np.isnan(wanted)
    return both_nan | ((found == wanted) & (np.signbit(found) == np.signbit(wanted)))


__all__ = ["Worst", "error_in_ulps", "f32", "measure", "same"]
