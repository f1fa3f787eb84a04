"""The transforms of Winograd's minimal filtering F(m, 3), by Toom and Cook.

Polynomials are evaluated at 0, at pairs of points +p and -p, and at infinity. The transforms of a
line share what is even and what is odd in p. `POINTS` are chosen for small rounding errors: with
2/3 and 3/2 those of F(4, 3) are about twice those of plain sums, a fifth of those with 1 and 2.
Those of F(6, 3) are some five times larger still.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.backends.cpu.llvm.emitter import Value, fma
from afterglow.types import Array

POINTS: dict[int, tuple[float, ...]] = {
    2: (1.0,),
    4: (2 / 3, 3 / 2),
    6: (5 / 9, 1.0, 9 / 5),
}
"""By m: the positive points. The tile of x is m + 2 wide."""


def transform_input(line: Sequence[Value], points: Sequence[float]) -> list[Value]:
    """The transform of a row of x."""
    squares = [p * p for p in points]
    even, odd = line[0::2], line[1::2]
    result = [_evaluated(_polynomial(squares), even)]
    for number, point in enumerate(points):
        others = _polynomial([*squares[:number], *squares[number + 1 :]])
        sum_even, sum_odd = _evaluated(others, even[1:]), _evaluated(others, odd[:-1])
        result += [fma(sum_odd, point, sum_even), fma(sum_odd, -point, sum_even)]
    return [*result, _evaluated(_polynomial(squares), odd)]


def transform_output(line: Sequence[Value], points: Sequence[float]) -> list[Value]:
    """The m results of a row of products."""
    pairs = list(zip(line[1:-1:2], line[2:-1:2], strict=True))
    sums, differences = [a + b for a, b in pairs], [a - b for a, b in pairs]
    last = 2 * len(points) - 1
    results = []
    for power in range(last + 1):
        terms = differences if power % 2 else sums
        start = {0: line[0], last: line[-1]}.get(power)
        results.append(_weighted(terms, [p**power for p in points], start))
    return results


def weight_matrix(points: Sequence[float]) -> Array:
    """The matrix that transforms three weights of a row; it is multiplied in double precision."""
    finite = [0.0, *(signed for p in points for signed in (p, -p))]
    rows = []
    for number, point in enumerate(finite):
        others = [point - q for place, q in enumerate(finite) if place != number]
        rows.append(np.array([1.0, point, point * point]) / np.prod(others))
    return np.array([*rows, [0.0, 0.0, 1.0]])


def transform_weight(line: Sequence[Value], points: Sequence[float]) -> list[Value]:
    """The transform of three weights of a row, as the matrix has it."""
    first, *pairs = weight_matrix(points)[:-1].tolist()
    low, middle, high = line
    result = [low * first[0]]
    for one, p, square in pairs[::2]:
        even, odd = fma(high, square, low * one), middle * p
        result += [even + odd, even - odd]
    return [*result, high]


def transform_slopes(line: Sequence[Value], points: Sequence[float]) -> list[Value]:
    """The transform of gradients of m results of a row: the transpose of `transform_output`."""
    result = [line[0]]
    for p in points:
        even, odd = (_weighted(line[n::2], [p**k for k in range(n, len(line), 2)]) for n in (0, 1))
        result += [even + odd, even - odd]
    return [*result, line[-1]]


def gather_weight(line: Sequence[Value], points: Sequence[float]) -> list[Value]:
    """The gradients of three weights of a row: the transpose of `transform_weight`."""
    first, *pairs = weight_matrix(points)[:-1].tolist()
    factors = pairs[::2]
    both = list(zip(line[1:-1:2], line[2:-1:2], strict=True))
    sums, differences = [a + b for a, b in both], [a - b for a, b in both]
    low, middle, high = ([row[power] for row in factors] for power in range(3))
    return [
        _weighted(sums, low, line[0] * first[0]),
        _weighted(differences, middle),
        _weighted(sums, high, line[-1]),
    ]


def _polynomial(roots: Sequence[float]) -> list[float]:
    """Coefficients of the monic polynomial with these roots, lowest first."""
    return [float(c) for c in np.poly(roots)[::-1]] if roots else [1.0]


def _evaluated(coefficients: Sequence[float], terms: Sequence[Value]) -> Value:
    """The sum of terms times coefficients, the last of which is 1."""
    return _weighted(terms[:-1], coefficients[:-1], terms[-1])


def _weighted(
    terms: Sequence[Value], factors: Sequence[float], start: Value | None = None
) -> Value:
    """The sum of terms times factors, and of what it starts with."""
    total = start
    for term, factor in zip(terms, factors, strict=True):
        if total is None:
            total = term * factor
        elif factor == 1.0:
            total = total + term
        else:
            total = fma(term, factor, total)
    assert total is not None
    return total
