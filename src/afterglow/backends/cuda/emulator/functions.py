"""The functions of libdevice, which the interpreter lacks, by their names in that library."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from afterglow.ops.special import erf
from afterglow.types import Array

_erfc = np.vectorize(math.erfc, otypes=[np.float64])
_lgamma = np.vectorize(lambda x: math.lgamma(x) if x > 0 or x % 1 else math.inf, otypes=["f8"])
_tgamma = np.vectorize(lambda x: math.gamma(x) if x > 0 or x % 1 else math.nan, otypes=["f8"])


def _round_away(x: Array) -> Array:
    """The nearest integer; of two that are as near, the one farther from zero."""
    whole: Array = np.trunc(x)
    away: Array = np.copysign(np.abs(x - whole) >= 0.5, x)
    return whole + away


_OF_FLOATS: dict[str, Callable[..., Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "copysign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": erf,
    "erfc": _erfc,
    "exp": np.exp,
    "exp10": lambda x: np.power(10.0, x),
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fabs": np.abs,
    "fdim": lambda x, y: np.where(x > y, x - y, np.where(np.isnan(x + y), np.nan, 0.0)),
    "floor": np.floor,
    "fma": lambda x, y, z: x * y + z,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "lgamma": _lgamma,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "nearbyint": np.rint,
    "nextafter": np.nextafter,
    "pow": np.power,
    "rcp_rn": np.reciprocal,
    "remainder": lambda x, y: x - y * np.rint(x / y),
    "rint": np.rint,
    "round": _round_away,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rsqrt_rn": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "tgamma": _tgamma,
    "trunc": np.trunc,
}
_BASIC: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
}
_ROUNDED: dict[str, Callable[..., Array]] = {
    **{f"f{name}_rn": function for name, function in _BASIC.items()},
    **{f"d{name}_rn": function for name, function in _BASIC.items()},
    "fsqrt_rn": np.sqrt,
    "dsqrt_rn": np.sqrt,
    "fmaf_rn": _OF_FLOATS["fma"],
    "frcp_rn": np.reciprocal,
    "frsqrt_rn": _OF_FLOATS["rsqrt"],
}
_FAST = ("cos", "exp", "exp10", "log", "log10", "log2", "pow", "sin", "tan")
_PREDICATES: dict[str, Callable[..., Array]] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "finite": np.isfinite,
    "signbit": np.signbit,
}
_OF_INTEGERS: dict[str, Callable[..., Array]] = {
    "abs": np.abs,
    "llabs": np.abs,
    "popc": np.bitwise_count,
    "popcll": np.bitwise_count,
    "mulhi": lambda x, y: (x.astype(np.int64) * y) >> 32,
    "umulhi": lambda x, y: (x.astype(np.uint64) * y) >> np.uint64(32),
    "max": np.maximum,
    "min": np.minimum,
}
PREFIX = "__nv_"


def compute(symbol: str, operands: list[Array], result: np.dtype) -> Array:
    """What a function of libdevice gives: floats are computed in f64, and rounded once."""
    name = symbol.removeprefix(PREFIX)
    if name in _OF_INTEGERS:
        return _OF_INTEGERS[name](*operands).astype(result)
    function = _function(name)
    return np.asarray(function(*(x.astype(np.float64) for x in operands))).astype(result)


def _function(name: str) -> Callable[..., Array]:
    """The function of a name, which ends with f for f32."""
    if name in _ROUNDED:
        return _ROUNDED[name]
    if name.startswith("fast_"):
        name = name.removeprefix("fast_")
    for spelling in (name, name.removesuffix("f"), name.removesuffix("d")):
        found = _OF_FLOATS.get(spelling) or _PREDICATES.get(spelling)
        if found is not None:
            return found
    raise NotImplementedError(f"the emulator has no function {name} of libdevice")
