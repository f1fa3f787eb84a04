"""Initial values of parameters: callables that take a generator and a shape, and give an array.

The numbers are the same on every machine and with every release of NumPy: they are made of the
bits of a generator by exact arithmetic alone. Only `orthogonal` depends on a library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from typing import TypeAlias

import numpy as np

from afterglow.support.errors import UsageError
from afterglow.types import Array

Rng: TypeAlias = np.random.Generator
"""Where random bits come from; whoever writes an initialiser may use all that NumPy has."""
Initialiser: TypeAlias = Callable[[Rng, tuple[int, ...]], Array]
"""Makes the first value of a parameter."""

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75}
_LOG_2 = 0.6931471805599453
_MOST_TERMS = 12
"""Terms of the series of the logarithm: the next one is below the rounding error."""


def generator(seed: int, name: str) -> Rng:
    """The generator of one parameter: it depends on no other parameter."""
    key = blake2b(f"{seed}:{name}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little")))


def constant(value: float) -> Initialiser:
    """The same number everywhere."""
    return lambda rng, shape: np.full(shape, value, np.float32)


zeros, ones = constant(0.0), constant(1.0)


def uniform(low: float = 0.0, high: float = 1.0) -> Initialiser:
    """Any number from `low` to `high`, all equally likely."""
    return lambda rng, shape: _rounded(low + (high - low) * _units(rng, math.prod(shape)), shape)


def normal(mean: float = 0.0, std: float = 1.0) -> Initialiser:
    """The normal distribution with this mean and standard deviation."""
    return lambda rng, shape: _rounded(mean + std * _normals(rng, math.prod(shape)), shape)


def truncated_normal(
    mean: float = 0.0, std: float = 1.0, low: float = -2.0, high: float = 2.0
) -> Initialiser:
    """The normal distribution without what lies below `low` or above `high`."""

    def draw(rng: Rng, shape: tuple[int, ...]) -> Array:
        def kept(count: int) -> Array:
            drawn = mean + std * _normals(rng, count)
            return drawn[(drawn >= low) & (drawn <= high)]

        return _rounded(_enough(math.prod(shape), kept), shape)

    return draw


def xavier_uniform(gain: float = 1.0) -> Initialiser:
    """Uniform, with variance gain² 2 / (fan in + fan out)."""
    return _scaled_uniform(lambda fan_in, fan_out: gain * math.sqrt(2 / (fan_in + fan_out)))


def xavier_normal(gain: float = 1.0) -> Initialiser:
    """Normal, with variance gain² 2 / (fan in + fan out)."""
    return _scaled_normal(lambda fan_in, fan_out: gain * math.sqrt(2 / (fan_in + fan_out)))


def kaiming_uniform(
    a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Initialiser:
    """Uniform, with variance gain² / fan; the gain is that of a leaky ReLU of slope `a`, or other.

    `mode` says which fan: `fan_in` keeps the size of activations, `fan_out` that of gradients.
    """
    return _scaled_uniform(partial(_kaiming, _gain(nonlinearity, a), _checked_mode(mode)))


def kaiming_normal(
    a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Initialiser:
    """Normal, with the variance of `kaiming_uniform`."""
    return _scaled_normal(partial(_kaiming, _gain(nonlinearity, a), _checked_mode(mode)))


def orthogonal(gain: float = 1.0) -> Initialiser:
    """A matrix [first extent, all others] with orthonormal rows or columns, times `gain`."""

    def draw(rng: Rng, shape: tuple[int, ...]) -> Array:
        rows, columns = shape[0], math.prod(shape[1:])
        tall = _normals(rng, rows * columns).reshape(max(rows, columns), min(rows, columns))
        q, r = np.linalg.qr(tall)
        q = q * np.where(np.diag(r) < 0, -1.0, 1.0)  # or else the distribution is not uniform
        return _rounded(gain * (q.T if rows < columns else q), shape)

    return draw


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """How many inputs an output of a weight [outputs, inputs, kernel…] has, and the reverse."""
    if len(shape) < 2:
        raise UsageError(
            f"a parameter of shape {tuple(shape)} has no fan in and fan out",
            help="use nn.init.uniform, nn.init.normal or nn.init.constant for vectors",
        )
    kernel = math.prod(shape[2:])
    return shape[1] * kernel, shape[0] * kernel


def _kaiming(gain: float, mode: str, fan_in: int, fan_out: int) -> float:
    return gain / math.sqrt(fan_in if mode == "fan_in" else fan_out)


def _checked_mode(mode: str) -> str:
    if mode not in ("fan_in", "fan_out"):
        raise UsageError(f"no mode {mode!r}", help="there are 'fan_in' and 'fan_out'")
    return mode


def _gain(nonlinearity: str, slope: float) -> float:
    """By how much the function makes numbers smaller, inverted."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + slope * slope))
    if nonlinearity not in _GAINS:
        known = ", ".join(map(repr, sorted((*_GAINS, "leaky_relu"))))
        raise UsageError(f"no gain is known of {nonlinearity!r}", help=f"there are {known}")
    return _GAINS[nonlinearity]


def _scaled_uniform(deviation: Callable[[int, int], float]) -> Initialiser:
    def draw(rng: Rng, shape: tuple[int, ...]) -> Array:
        bound = math.sqrt(3) * deviation(*fans(shape))
        return uniform(-bound, bound)(rng, shape)

    return draw


def _scaled_normal(deviation: Callable[[int, int], float]) -> Initialiser:
    return lambda rng, shape: normal(0.0, deviation(*fans(shape)))(rng, shape)


def _rounded(numbers: Array, shape: tuple[int, ...]) -> Array:
    return numbers.astype(np.float32).reshape(shape)


def _units(rng: Rng, count: int) -> Array:
    """Doubles from 0 to below 1, of the upper 53 bits of each word."""
    words: Array = rng.bit_generator.random_raw(count)
    return np.asarray((words >> np.uint64(11)) * 2.0**-53)


def _normals(rng: Rng, count: int) -> Array:
    """Normal numbers by the polar method: points in the unit disc, scaled by their distance."""

    def pairs(count: int) -> Array:
        points = 2 * _units(rng, 2 * count).reshape(-1, 2) - 1
        squares = points[:, 0] * points[:, 0] + points[:, 1] * points[:, 1]
        inside = (squares > 0) & (squares < 1)
        s = squares[inside]
        return np.asarray(points[inside] * np.sqrt(-2 * _log(s) / s)[:, np.newaxis]).reshape(-1)

    return _enough(count, pairs)


def _enough(count: int, draw: Callable[[int], Array]) -> Array:
    """The first `count` numbers of those that repeated draws leave over."""
    found, have = [np.empty(0)], 0
    while have < count:
        found.append(draw(count - have + 8))
        have += len(found[-1])
    return np.concatenate(found)[:count]


def _log(x: Array) -> Array:
    """The natural logarithm, by sums and products alone: libraries differ in the last bit."""
    mantissa, exponent = np.frexp(x)
    below = mantissa < math.sqrt(0.5)
    mantissa, exponent = np.where(below, 2 * mantissa, mantissa), exponent - below
    ratio = (mantissa - 1) / (mantissa + 1)
    square, total = ratio * ratio, np.zeros_like(ratio)
    for term in reversed(range(_MOST_TERMS)):
        total = total * square + 1 / (2 * term + 1)
    return np.asarray(2 * ratio * total + exponent * _LOG_2)
