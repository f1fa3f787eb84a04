"""Best polynomials: those whose largest weighted error over an interval is least (Remez)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import mp

Real = Any  # an mpmath number
Function = Callable[[Real], Real]

_ROUNDS = 30
_POINTS_A_TERM = 24


def minimax(
    function: Function, low: Real, high: Real, degree: int, weight: Function
) -> tuple[list[Real], Real]:
    """Coefficients, lowest first, and the largest weighted error that they leave.

    The error is weight(x) * (function(x) - polynomial(x)).
    """
    low, high = mp.mpf(low), mp.mpf(high)
    nodes = _chebyshev(low, high, degree + 2)
    samples = _chebyshev(low, high, _POINTS_A_TERM * (degree + 2))
    samples = [low, *samples, high]
    values = [(x, function(x), weight(x)) for x in samples]
    coefficients: list[Real] = []
    for _ in range(_ROUNDS):
        coefficients = _levelled(function, weight, nodes, degree)
        errors = [(w * (f - mp.polyval(coefficients[::-1], x)), x) for x, f, w in values]
        extremes = _extremes(errors, degree + 2)
        largest = max(abs(e) for e, _ in extremes)
        least = min(abs(e) for e, _ in extremes)
        nodes = [x for _, x in extremes]
        if largest < least * mp.mpf("1.0001"):
            break
    return coefficients, max(abs(e) for e, _ in errors)


def _chebyshev(low: Real, high: Real, count: int) -> list[Real]:
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle - half * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]


def _levelled(function: Function, weight: Function, nodes: list[Real], degree: int) -> list[Real]:
    """The polynomial whose weighted errors at the nodes are equal, with alternating signs."""
    rows, right = [], []
    for k, x in enumerate(nodes):
        rows.append([x**n for n in range(degree + 1)] + [(-1) ** k / weight(x)])
        right.append(function(x))
    return list(mp.lu_solve(mp.matrix(rows), mp.matrix(right)))[:-1]


def _extremes(errors: list[tuple[Real, Real]], count: int) -> list[tuple[Real, Real]]:
    """The largest errors of alternating sign: one of each run, then the best run of `count`."""
    runs: list[tuple[Real, Real]] = []
    for error, x in errors:
        if runs and (runs[-1][0] > 0) == (error > 0):
            if abs(error) > abs(runs[-1][0]):
                runs[-1] = (error, x)
        else:
            runs.append((error, x))
    while len(runs) > count:
        runs.pop(0 if abs(runs[0][0]) < abs(runs[-1][0]) else -1)
    return runs
