"""Errors in units of the last place, against 128 bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mpmath import mp, mpf

from afterglow.backends.cpu import Target
from afterglow.types.dtype import DType
from tests.backends.cpu.llvm.math.functions import MathFunction
from tests.backends.cpu.running import HOST, apply


@dataclass(frozen=True)
class Worst:
    """The largest error that was found, and where, of how many."""

    ulps: float
    at: tuple[float, ...] = ()
    found: float = 0.0
    exact: str = ""
    tried: int = 0


def measure(
    function: MathFunction, dtype: DType, count: int, *, target: Target = HOST, seed: int = 0
) -> Worst:
    """The largest error over finite operands that have a finite, real result."""
    columns = function.samples(dtype, count, seed)
    found = apply(function.emit, dtype, *columns, target=target)
    worst, tried = Worst(0.0), 0
    for place in np.flatnonzero(np.all([np.isfinite(c) for c in columns], axis=0)):
        operands = tuple(float(column[place]) for column in columns)
        exact = _exact(function, operands)
        if exact is None:
            continue
        tried += 1
        ulps = error_in_ulps(float(found[place]), exact, dtype)
        if ulps > worst.ulps:
            worst = Worst(ulps, operands, float(found[place]), mp.nstr(exact, 20))
    return Worst(worst.ulps, worst.at, worst.found, worst.exact, tried)


def _exact(function: MathFunction, operands: tuple[float, ...]) -> mpf | None:
    """The value to 128 bits; None where there is no real one, or an infinite one."""
    try:
        exact = function.exact(*(mpf(x) for x in operands))
    except (ZeroDivisionError, ValueError):
        return None
    return None if isinstance(exact, mp.mpc) or not mp.isfinite(exact) else exact


def error_in_ulps(found: float, exact: mpf, dtype: DType) -> float:
    """|found - exact| by the distance of the floats around the exact value."""
    info = np.finfo(dtype.numpy)
    if np.isnan(found):
        return float("inf")
    if np.isinf(found):  # right if the exact value rounds to infinity
        limit = mpf(2) ** int(info.maxexp)
        edge = limit * (1 - mpf(2) ** -(int(info.nmant) + 2))
        return 0.5 if abs(exact) >= edge and (found > 0) == (exact > 0) else float("inf")
    size = int(info.minexp) if exact == 0 else int(mp.floor(mp.log(abs(exact), 2)))
    size = min(max(size, int(info.minexp)), int(info.maxexp) - 1)
    unit = mpf(2) ** (size - int(info.nmant))
    return float(abs(mpf(found) - exact) / unit)
