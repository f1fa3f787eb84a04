"""The functions under test: each with its exact meaning and the numbers to try it on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpmath import mp

from afterglow.backends.cpu.llvm import math as vector_math
from afterglow.backends.cpu.llvm.emitter import Value
from afterglow.types import Array
from afterglow.types.dtype import DType, f32

mp.prec = 128
Real = Any  # an mpmath number

EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0]
LEAST = {np.float32: [1e-45, 1.1e-38, 1.1754944e-38], np.float64: [5e-324, 1e-308, 2.2250739e-308]}
MOST = {np.float32: 3.4028235e38, np.float64: 1.7976931348623157e308}


@dataclass(frozen=True)
class MathFunction:
    """A function, its exact meaning, and where it is interesting.

    `spans` are intervals to be sampled evenly; numbers of all sizes, within `domain`, come on top.
    `points` are places where methods change or results are delicate.
    """

    name: str
    exact: Callable[..., Real]
    spans: list[tuple[float, float]]
    domain: tuple[float, float] = (-np.inf, np.inf)
    points: list[float] = field(default_factory=list)
    operands: int = 1

    @property
    def emit(self) -> Callable[..., Value]:
        """The function that writes the code."""
        emit: Callable[..., Value] = getattr(vector_math, self.name)
        return emit

    def samples(self, dtype: DType, count: int, seed: int = 0) -> list[Array]:
        """Operands: about `count` of each way of choosing them, and the edges."""
        rng = np.random.default_rng(seed)
        columns = [self._column(rng, dtype, count) for _ in range(self.operands)]
        if self.operands == 1:
            return columns
        for column in columns:
            rng.shuffle(column)
        corners = np.array(self._corners(dtype), dtype.numpy)
        pairs = [grid.reshape(-1) for grid in np.meshgrid(corners, corners)]
        return [np.concatenate(both) for both in zip(columns, pairs, strict=True)]

    def _column(self, rng: np.random.Generator, dtype: DType, count: int) -> Array:
        info = np.finfo(dtype.numpy)
        sizes = 2.0 ** rng.uniform(float(info.minexp) - 8, float(info.maxexp), count)
        parts = [sizes * rng.choice([-1.0, 1.0], count)]
        parts += [rng.uniform(*span, count) for span in self.spans]
        with np.errstate(over="ignore"):
            near = np.array(self.points).astype(dtype.numpy)
        near = near[np.isfinite(near)]
        parts += [near + step * np.spacing(near) for step in range(-3, 4)]
        everything = np.concatenate([*parts, self._corners(dtype)]).astype(dtype.numpy)
        low, high = self.domain
        inside = (everything >= low) & (everything <= high)
        return everything[inside | np.isin(everything, EDGES) | np.isnan(everything)]

    def _corners(self, dtype: DType) -> list[float]:
        kind = np.float32 if dtype is f32 else np.float64
        tiny = [s * x for x in LEAST[kind] for s in (1, -1)]
        return [*EDGES, *tiny, MOST[kind], -MOST[kind], 3.0, -3.0]

    def __str__(self) -> str:
        return self.name


def _log(base: Real | None) -> Callable[[Real], Real]:
    return lambda x: mp.log(x) if base is None else mp.log(x) / mp.log(base)


def _real(function: Callable[..., Real], low: float, high: float) -> Callable[[Real], Real]:
    """The function on an interval; NaN elsewhere."""
    return lambda x: function(x) if low <= x <= high else mp.nan


def _infinite_at(function: Callable[[Real], Real], ends: dict[float, Real]) -> Callable[..., Real]:
    return lambda x: ends[float(x)] if float(x) in ends else function(x)


def _power(x: Real, y: Real) -> Real:
    """x^y where that is real and neither huge nor tiny beyond all floats."""
    if x == 0 or y == 0 or abs(y * mp.log(abs(x), 2)) > 2000:
        return mp.nan
    return mp.power(x, y)


def _angle(y: Real, x: Real) -> Real:
    """atan2, but for zeros: they have no sign in mpmath."""
    return mp.nan if x == 0 or y == 0 else mp.atan2(y, x)


# The floats nearest to multiples of pi / 2, in relation to their size, and other hard ones.
_HARDEST = [6381956970095103.0 * 2.0**797, 16367173.0 * 2.0**72, 1e22, 1e5, 1e9]
_ANGLES = [*(k * np.pi / 2 for k in (1, 2, 3, 4, 5, 11, 100, 1000, 63661, 636619)), *_HARDEST]

FUNCTIONS = [
    MathFunction("exp", mp.exp, [(-1, 1), (-104, 89), (-746, 710)], points=[-87.3365, 88.7228]),
    MathFunction("exp2", lambda x: mp.mpf(2) ** x, [(-1, 1), (-150, 128), (-1075, 1024)]),
    MathFunction("expm1", mp.expm1, [(-1, 1), (-20, 20), (-40, 710)], points=[0.3466, -0.3466]),
    MathFunction("log", _log(None), [(0.5, 2), (0, 100)], (0, np.inf), [1.0, 0.7071068, 1.414214]),
    MathFunction("log2", _log(2), [(0.5, 2), (0, 100)], (0, np.inf), [1.0, 0.7071068, 1.414214]),
    MathFunction("log10", _log(10), [(0.5, 2), (0, 100)], (0, np.inf), [1.0, 10.0, 1e10]),
    MathFunction("log1p", mp.log1p, [(-1, 1), (0, 100)], (-1, np.inf), [0.41421, -0.29289]),
    MathFunction("sin", mp.sin, [(-1, 1), (-10, 10), (-1e5, 1e5), (-1e9, 1e9)], points=_ANGLES),
    MathFunction("cos", mp.cos, [(-1, 1), (-10, 10), (-1e5, 1e5), (-1e9, 1e9)], points=_ANGLES),
    MathFunction("tan", mp.tan, [(-1, 1), (-10, 10), (-1e5, 1e5), (-1e9, 1e9)], points=_ANGLES),
    MathFunction("asin", _real(mp.asin, -1, 1), [(-1, 1), (0.4, 0.6)], (-1, 1)),
    MathFunction("acos", _real(mp.acos, -1, 1), [(-1, 1), (0.4, 0.6)], (-1, 1)),
    MathFunction("atan", mp.atan, [(-1, 1), (-5, 5), (0.4, 0.6), (1.9, 2.1)]),
    MathFunction("atan2", _angle, [(-1, 1), (-10, 10)], operands=2),
    MathFunction("sinh", mp.sinh, [(-1, 1), (-5, 5), (-89, 89), (-710, 710)], points=[1.0]),
    MathFunction("cosh", mp.cosh, [(-1, 1), (-5, 5), (-89, 89), (-710, 710)]),
    MathFunction("tanh", mp.tanh, [(-1, 1), (-10, 10), (0.5, 0.7)], points=[0.6]),
    MathFunction("asinh", mp.asinh, [(-1, 1), (-10, 10), (-1e5, 1e5)]),
    MathFunction("acosh", _real(mp.acosh, 1, np.inf), [(1, 1.1), (1, 10), (1, 1e5)], (1, np.inf)),
    MathFunction(
        "atanh",
        _infinite_at(_real(mp.atanh, -1, 1), {1.0: mp.inf, -1.0: -mp.inf}),
        [(-1, 1), (-0.2, 0.2), (0.99, 1)],
        (-1, 1),
    ),
    MathFunction("erf", mp.erf, [(-1, 1), (-6, 6), (0.9, 1.1)], points=[1.0]),
    MathFunction("sigmoid", lambda x: 1 / (1 + mp.exp(-x)), [(-1, 1), (-20, 20), (-104, 89)]),
    MathFunction("rsqrt", lambda x: 1 / mp.sqrt(x), [(0, 10)], (0, np.inf)),
    MathFunction("pow", _power, [(0, 2), (-10, 10), (-3, 3)], operands=2),
]
