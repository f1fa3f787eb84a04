"""Slopes of activation functions: what gradients are multiplied by where they flow back."""

from __future__ import annotations

import math

import numpy as np

from afterglow.graph import Builder, Value, op
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.elementwise import FloatUnary
from afterglow.ops.functions import Erf, Exp, Tanh
from afterglow.ops.special import erf
from afterglow.types import Array

GELU_CUBE = 0.044715
GELU_SCALE = math.sqrt(2 / math.pi)
FLAT = 16.0
"""How far from 0 the approximation of gelu is as flat as its ends: powers beyond may overflow."""
_BELL = 1 / math.sqrt(2 * math.pi)


def logistic(x: Array) -> Array:
    """1 / (1 + e^-x)."""
    return np.asarray(np.reciprocal(1 + np.exp(-x)))


@op("gelu_slope")
class GeluSlope(FloatUnary):
    """The derivative of gelu at x: Φ(x) + x φ(x), or that of its approximation with tanh."""

    approximate: bool = False

    def evaluate(self, x: Array) -> Array:
        """By the definition."""
        if not self.approximate:
            return 0.5 * (1 + erf(x * math.sqrt(0.5))) + x * _BELL * np.exp(-0.5 * x * x)
        x = np.clip(x, -FLAT, FLAT)
        share = logistic(2 * GELU_SCALE * (x + GELU_CUBE * x * x * x))
        steep = 2 * GELU_SCALE * (1 + 3 * GELU_CUBE * x * x)
        return share * (1 + x * (1 - share) * steep)

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`."""
        a = Arithmetic(b, x)
        square = a.mul(x, x)
        if not self.approximate:
            share = a.add(a.mul(b.emit(Erf(), a.mul(x, math.sqrt(0.5))), 0.5), 0.5)
            bell = b.emit(Exp(), a.mul(square, -0.5))
            return a.add(share, a.mul(a.mul(x, _BELL), bell))
        inner = a.mul(x, a.add(a.mul(square, GELU_SCALE * GELU_CUBE), GELU_SCALE))
        share = a.add(a.mul(b.emit(Tanh(), inner), 0.5), 0.5)
        steep = a.add(a.mul(square, 6 * GELU_SCALE * GELU_CUBE), 2 * GELU_SCALE)
        return a.mul(share, a.add(a.mul(a.mul(x, a.sub(1, share)), steep), 1))


@op("swish_slope")
class SwishSlope(FloatUnary):
    """The derivative of swish at x: s (1 + alpha x (1 - s)) with s = sigmoid(alpha x)."""

    alpha: float = 1.0

    def evaluate(self, x: Array) -> Array:
        """By the definition."""
        share = logistic(self.alpha * x)
        return share * (1 + self.alpha * x * (1 - share))

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`."""
        a = Arithmetic(b, x)
        share = a.add(a.mul(b.emit(Tanh(), a.mul(x, 0.5 * self.alpha)), 0.5), 0.5)
        rest = a.mul(a.mul(x, self.alpha), a.sub(1, share))
        return a.mul(share, a.add(rest, 1))
