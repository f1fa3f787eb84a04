"""Activation functions: element-wise, most of one float."""

from __future__ import annotations

import math

import numpy as np

from afterglow.graph import Builder, Gradients, Op, Value, op
from afterglow.ops.elementwise import (
    Abs,
    Add,
    Div,
    FloatUnary,
    Less,
    Max,
    Min,
    Mul,
    Neg,
    Sub,
    Unary,
    Where,
    scalar,
)
from afterglow.ops.functions import Erf, Exp, Expm1, Log1p, Tanh
from afterglow.ops.rules import broadcast_shape, require, require_number, require_same_dtype
from afterglow.ops.slopes import GELU_CUBE, GELU_SCALE, GeluSlope, SwishSlope, logistic
from afterglow.ops.special import erf
from afterglow.types import Array, TensorType


def _softplus(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


@op("relu")
class Relu(Unary):
    """x where it is positive, else 0."""

    def evaluate(self, x: Array) -> Array:
        """The larger of x and 0."""
        return np.maximum(x, 0)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """Where the result is positive, so that x need not be kept."""
        positive = b.emit(Less(), scalar(b, 0, x), out)
        return (b.emit(Where(), positive, grad, scalar(b, 0, x)),)

    def lower(self, b: Builder, x: Value) -> Value:
        """max(x, 0)."""
        return b.emit(Max(), x, scalar(b, 0, x))


@op("leaky_relu")
class LeakyRelu(FloatUnary):
    """x where it is positive, else alpha x."""

    alpha: float = 0.01

    def evaluate(self, x: Array) -> Array:
        """Two branches."""
        return np.where(x < 0, x * self.alpha, x)

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`."""
        scaled = b.emit(Mul(), x, scalar(b, self.alpha, x))
        return b.emit(Where(), b.emit(Less(), x, scalar(b, 0, x)), scaled, x)


@op("prelu")
class PRelu(Op):
    """x where it is positive, else slope x; the slope is broadcast to the shape of x."""

    elementwise = True
    inplace = ("x",)

    def infer(self, x: TensorType, slope: TensorType) -> TensorType:
        """The type of x."""
        require_number(x=x, slope=slope)
        require_same_dtype(x=x, slope=slope)
        fits = broadcast_shape(x=x, slope=slope) == x.shape
        require(fits, f"slope must broadcast to the shape of x, got {slope} and {x}")
        return x

    def evaluate(self, x: Array, slope: Array) -> Array:
        """Two branches."""
        return np.where(x < 0, x * slope, x)

    def lower(self, b: Builder, x: Value, slope: Value) -> Value:
        """As `evaluate`."""
        negative = b.emit(Less(), x, scalar(b, 0, x))
        return b.emit(Where(), negative, b.emit(Mul(), x, slope), x)


@op("sigmoid")
class Sigmoid(FloatUnary):
    """1 / (1 + exp(-x))."""

    function = logistic

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad out (1 - out): the lowering overflows where that vanishes."""
        slope = b.emit(Mul(), out, b.emit(Sub(), scalar(b, 1, x), out))
        return (b.emit(Mul(), grad, slope),)

    def lower(self, b: Builder, x: Value) -> Value:
        """By the definition."""
        one = scalar(b, 1, x)
        return b.emit(Div(), one, b.emit(Add(), one, b.emit(Exp(), b.emit(Neg(), x))))


@op("hard_sigmoid")
class HardSigmoid(FloatUnary):
    """alpha x + beta, clipped to 0 … 1."""

    alpha: float = 0.2
    beta: float = 0.5

    def evaluate(self, x: Array) -> Array:
        """A line, then a clip."""
        return np.clip(x * self.alpha + self.beta, 0, 1)

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`."""
        line = b.emit(Mul(), x, scalar(b, self.alpha, x))
        return b.emit(Clip(0.0, 1.0), b.emit(Add(), line, scalar(b, self.beta, x)))


@op("hard_swish")
class HardSwish(FloatUnary):
    """x times (x / 6 + 1 / 2, clipped to 0 … 1)."""

    def evaluate(self, x: Array) -> Array:
        """By the definition."""
        return x * np.clip(x / 6 + 0.5, 0, 1)

    def lower(self, b: Builder, x: Value) -> Value:
        """x hard_sigmoid(x)."""
        return b.emit(Mul(), x, b.emit(HardSigmoid(1 / 6, 0.5), x))


@op("swish")
class Swish(FloatUnary):
    """x sigmoid(alpha x): SiLU for alpha = 1."""

    alpha: float = 1.0

    def evaluate(self, x: Array) -> Array:
        """By the definition."""
        return x * logistic(self.alpha * x)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """Its slope, one function of x."""
        return (b.emit(Mul(), grad, b.emit(SwishSlope(self.alpha), x)),)

    def lower(self, b: Builder, x: Value) -> Value:
        """By the definition."""
        scaled = x if self.alpha == 1 else b.emit(Mul(), x, scalar(b, self.alpha, x))
        return b.emit(Mul(), x, b.emit(Sigmoid(), scaled))


@op("gelu")
class Gelu(FloatUnary):
    """x times the normal cumulative distribution function of x, or its approximation with tanh."""

    approximate: bool = False

    def evaluate(self, x: Array) -> Array:
        """x / 2 (1 + erf(x / sqrt 2)), or x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x³)))."""
        if self.approximate:
            bell = np.tanh(GELU_SCALE * (x + GELU_CUBE * x * x * x))
        else:
            bell = erf(x * math.sqrt(0.5))
        return 0.5 * x * (1 + bell)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """Its slope, one function of x."""
        return (b.emit(Mul(), grad, b.emit(GeluSlope(self.approximate), x)),)

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`."""
        if self.approximate:
            bell = b.emit(Tanh(), self._cubic(b, x))
        else:
            bell = b.emit(Erf(), b.emit(Mul(), x, scalar(b, math.sqrt(0.5), x)))
        half = b.emit(Mul(), x, scalar(b, 0.5, x))
        return b.emit(Mul(), half, b.emit(Add(), bell, scalar(b, 1, x)))

    def _cubic(self, b: Builder, x: Value) -> Value:
        """x (c x² + s) with the factor s of x and c of its cube."""
        square = b.emit(Mul(), b.emit(Mul(), x, x), scalar(b, GELU_SCALE * GELU_CUBE, x))
        return b.emit(Mul(), x, b.emit(Add(), square, scalar(b, GELU_SCALE, x)))


@op("elu")
class Elu(FloatUnary):
    """x where it is positive, else alpha (exp(x) - 1)."""

    alpha: float = 1.0

    def evaluate(self, x: Array) -> Array:
        """Two branches."""
        return np.where(x < 0, self.alpha * np.expm1(x), x)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad where x is positive, else grad (out + alpha)."""
        bent = b.emit(Mul(), grad, b.emit(Add(), out, scalar(b, self.alpha, x)))
        return (b.emit(Where(), b.emit(Less(), x, scalar(b, 0, x)), bent, grad),)

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`."""
        bent = b.emit(Mul(), b.emit(Expm1(), x), scalar(b, self.alpha, x))
        return b.emit(Where(), b.emit(Less(), x, scalar(b, 0, x)), bent, x)


@op("selu")
class Selu(FloatUnary):
    """gamma elu(x)."""

    alpha: float = 1.67326319217681884765625
    gamma: float = 1.05070102214813232421875

    def evaluate(self, x: Array) -> Array:
        """Two branches."""
        return self.gamma * np.where(x < 0, self.alpha * np.expm1(x), x)

    def lower(self, b: Builder, x: Value) -> Value:
        """By the definition."""
        return b.emit(Mul(), b.emit(Elu(self.alpha), x), scalar(b, self.gamma, x))


@op("celu")
class Celu(FloatUnary):
    """x where it is positive, else alpha (exp(x / alpha) - 1): smooth for every alpha."""

    alpha: float = 1.0

    def evaluate(self, x: Array) -> Array:
        """Two branches."""
        return np.where(x < 0, self.alpha * np.expm1(x / self.alpha), x)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad where x is positive, else grad (out / alpha + 1)."""
        share = b.emit(Div(), out, scalar(b, self.alpha, x))
        bent = b.emit(Mul(), grad, b.emit(Add(), share, scalar(b, 1, x)))
        return (b.emit(Where(), b.emit(Less(), x, scalar(b, 0, x)), bent, grad),)

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`."""
        alpha = scalar(b, self.alpha, x)
        bent = b.emit(Mul(), b.emit(Expm1(), b.emit(Div(), x, alpha)), alpha)
        return b.emit(Where(), b.emit(Less(), x, scalar(b, 0, x)), bent, x)


@op("softplus")
class Softplus(FloatUnary):
    """log(1 + exp(x))."""

    function = _softplus

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad sigmoid(x)."""
        return (b.emit(Mul(), grad, b.emit(Sigmoid(), x)),)

    def lower(self, b: Builder, x: Value) -> Value:
        """max(x, 0) + log1p(exp(-|x|)), which does not overflow."""
        shrunk = b.emit(Exp(), b.emit(Neg(), b.emit(Abs(), x)))
        return b.emit(Add(), b.emit(Max(), x, scalar(b, 0, x)), b.emit(Log1p(), shrunk))


@op("softsign")
class Softsign(FloatUnary):
    """x / (1 + |x|)."""

    def evaluate(self, x: Array) -> Array:
        """By the definition."""
        return x / (1 + np.abs(x))

    def lower(self, b: Builder, x: Value) -> Value:
        """By the definition."""
        return b.emit(Div(), x, b.emit(Add(), b.emit(Abs(), x), scalar(b, 1, x)))


@op("mish")
class Mish(FloatUnary):
    """x tanh(softplus(x))."""

    def evaluate(self, x: Array) -> Array:
        """By the definition."""
        return x * np.tanh(_softplus(x))

    def lower(self, b: Builder, x: Value) -> Value:
        """By the definition."""
        return b.emit(Mul(), x, b.emit(Tanh(), b.emit(Softplus(), x)))


@op("thresholded_relu")
class ThresholdedRelu(FloatUnary):
    """x where it is above alpha, else 0."""

    alpha: float = 1.0

    def evaluate(self, x: Array) -> Array:
        """Two branches."""
        return np.where(x > self.alpha, x, np.zeros_like(x))

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`."""
        above = b.emit(Less(), scalar(b, self.alpha, x), x)
        return b.emit(Where(), above, x, scalar(b, 0, x))


@op("shrink")
class Shrink(FloatUnary):
    """x moved towards 0 by `bias` where |x| is above `lambd`, else 0."""

    lambd: float = 0.5
    bias: float = 0.0

    def evaluate(self, x: Array) -> Array:
        """Three branches."""
        inner = np.where(x > self.lambd, x - self.bias, np.zeros_like(x))
        return np.where(x < -self.lambd, x + self.bias, inner)

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`."""
        bias, zero = scalar(b, self.bias, x), scalar(b, 0, x)
        above = b.emit(Less(), scalar(b, self.lambd, x), x)
        inner = b.emit(Where(), above, b.emit(Sub(), x, bias), zero)
        below = b.emit(Less(), x, scalar(b, -self.lambd, x))
        return b.emit(Where(), below, b.emit(Add(), x, bias), inner)


@op("clip")
class Clip(Unary):
    """x limited to the range from `low` to `high`; `high` if low > high. NaN stays NaN."""

    low: float | None = None
    high: float | None = None

    def evaluate(self, x: Array) -> Array:
        """min(max(x, low), high)."""
        if self.low is not None:
            x = np.maximum(x, np.asarray(self.low).astype(x.dtype))
        if self.high is not None:
            x = np.minimum(x, np.asarray(self.high).astype(x.dtype))
        return x

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`."""
        if self.low is not None:
            x = b.emit(Max(), x, scalar(b, self.low, x))
        if self.high is not None:
            x = b.emit(Min(), x, scalar(b, self.high, x))
        return x
