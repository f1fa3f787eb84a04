"""Fits the polynomials of the vector math, and prints the file that holds them.

`python -m tests.backends.cpu.llvm.math.fit` prints `backends/cpu/llvm/math/coefficients.py`, which
`ruff format` then formats.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpmath import mp

from tests.backends.cpu.llvm.math.minimax import Function, minimax

mp.dps = 80
Real = Any  # an mpmath number


@dataclass(frozen=True)
class Fit:
    """A polynomial to be found: of which function, where, how the error counts, and its degrees."""

    name: str
    meaning: str
    function: Function
    low: Real
    high: Real
    weight: Function
    degrees: dict[str, int]


def _one(x: Real) -> Real:
    return mp.mpf(1)


def _log_tail(f: Real) -> Real:
    return (mp.log1p(f) - f + f * f / 2) / f**3


def _log_ratio(z: Real) -> Real:
    s = mp.sqrt(z)
    return (mp.log((1 + s) / (1 - s)) - 2 * s - 2 * s**3 / 3) / s**5


def _of_square(function: Function, power: int = 3) -> Function:
    """(function(x) - x) / x^power, as a function of x^2."""
    return lambda z: (function(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** power


_HALF_LOG2 = mp.log(2) / 2 * mp.mpf("1.002")
_QUARTER = mp.pi / 4 * mp.mpf("1.002")
_TINY = mp.mpf("1e-20")
_ROOT = mp.sqrt(2)

FITS = [
    Fit(
        "EXP",
        "(exp(x) - 1 - x) / x^2 for |x| <= log(2) / 2",
        lambda x: (mp.exp(x) - 1 - x) / x**2,
        -_HALF_LOG2 * mp.mpf("1.0003"),
        _HALF_LOG2,
        lambda x: x**2 / mp.exp(x),
        {"f32": 4, "f64": 9},
    ),
    Fit(
        "EXP2",
        "(2^x - 1) / x for |x| <= 1/2",
        lambda x: (mp.mpf(2) ** x - 1) / x,
        mp.mpf("-0.5013"),
        mp.mpf("0.501"),
        lambda x: abs(x) / mp.mpf(2) ** x,
        {"f32": 5, "f64": 10},
    ),
    Fit(
        "LOG",
        "(log(1 + x) - x + x^2 / 2) / x^3 for sqrt(1/2) <= 1 + x <= sqrt(2)",
        _log_tail,
        1 / _ROOT - 1,
        _ROOT - 1,
        lambda x: abs(x**3 / mp.log1p(x)),
        {"f32": 8},
    ),
    Fit(
        "LOG_RATIO",
        "(log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5 of s^2, for |s| <= 0.1716",
        _log_ratio,
        _TINY,
        ((_ROOT - 1) / (_ROOT + 1)) ** 2,
        lambda z: z**2 / 2,
        {"f32": 3, "f64": 7},
    ),
    Fit(
        "SIN",
        "(sin(x) - x) / x^3 of x^2, for |x| <= pi / 4",
        _of_square(mp.sin),
        _TINY,
        _QUARTER**2,
        lambda z: z * mp.sqrt(z) / mp.sin(mp.sqrt(z)),
        {"f32": 3, "f64": 5},
    ),
    Fit(
        "COS",
        "(cos(x) - 1 + x^2 / 2) / x^4 of x^2, for |x| <= pi / 4",
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
        _TINY,
        _QUARTER**2,
        lambda z: z**2 / mp.cos(mp.sqrt(z)),
        {"f32": 2, "f64": 5},
    ),
    Fit(
        "ASIN",
        "(asin(x) - x) / x^3 of x^2, for |x| <= 1/2",
        _of_square(mp.asin),
        _TINY,
        mp.mpf("0.25"),
        lambda z: z * mp.sqrt(z) / mp.asin(mp.sqrt(z)),
        {"f32": 5, "f64": 12},
    ),
    Fit(
        "ATAN",
        "(atan(x) - x) / x^3 of x^2, for |x| <= 1/2",
        _of_square(mp.atan),
        _TINY,
        mp.mpf("0.2501"),
        lambda z: z * mp.sqrt(z) / mp.atan(mp.sqrt(z)),
        {"f32": 5, "f64": 12},
    ),
    Fit(
        "SINH",
        "(sinh(x) - x) / x^3 of x^2, for |x| <= 1",
        _of_square(mp.sinh),
        _TINY,
        mp.mpf("1.001"),
        lambda z: z * mp.sqrt(z) / mp.sinh(mp.sqrt(z)),
        {"f32": 3, "f64": 6},
    ),
    Fit(
        "TANH",
        "(tanh(x) - x) / x^3 of x^2, for |x| <= 0.6",
        _of_square(mp.tanh),
        _TINY,
        mp.mpf("0.3601"),
        lambda z: z * mp.sqrt(z) / mp.tanh(mp.sqrt(z)),
        {"f32": 4, "f64": 10},
    ),
    Fit(
        "ERF",
        "(erf(x) - x) / x of x^2, for |x| <= 1",
        _of_square(mp.erf, 1),
        _TINY,
        mp.mpf("1.0"),
        lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)),
        {"f32": 6, "f64": 11},
    ),
    Fit(
        "ERF_TAIL",
        "log(1 - erf(x)) / x for 1 <= x <= 4 (f64: 6)",
        lambda x: mp.log(mp.erfc(x)) / x,
        mp.mpf("0.999"),
        mp.mpf("4.0"),
        lambda x: mp.erfc(x) * x,
        {"f32": 6},
    ),
    Fit(
        "ERF_TAIL",
        "",
        lambda x: mp.log(mp.erfc(x)) / x,
        mp.mpf("0.999"),
        mp.mpf("6.0"),
        lambda x: mp.erfc(x) * x,
        {"f64": 18},
    ),
]


def table(name: str) -> Iterator[str]:
    """The coefficients of one function, a line an element type."""
    fits = [fit for fit in FITS if fit.name == name]
    yield f"# {fits[0].meaning}."
    yield f"{name}: Table = {{"
    for fit in fits:
        for dtype, degree in fit.degrees.items():
            coefficients, error = minimax(fit.function, fit.low, fit.high, degree, fit.weight)
            kind = np.float32 if dtype == "f32" else np.float64
            numbers = ", ".join(repr(float(kind(float(c)))) for c in coefficients)
            yield f"    # largest error 2^{float(mp.log(error, 2)):.1f}"
            yield f"    {dtype}: ({numbers}),"
    yield "}"


HEAD = """\
\"\"\"Coefficients of the polynomials, lowest first: those with the least largest error.

Written by `python -m tests.backends.cpu.llvm.math.fit`, and checked by a test. The errors are
relative to the function that a polynomial serves.
\"\"\"

from __future__ import annotations

from afterglow.types.dtype import DType, f32, f64

Table = dict[DType, tuple[float, ...]]
"""


def page() -> str:
    """The text of `coefficients.py`, before it is formatted."""
    names = list(dict.fromkeys(fit.name for fit in FITS))
    return "\n".join([HEAD, *("\n".join(table(name)) for name in names), ""])


if __name__ == "__main__":
    print(page(), end="")
