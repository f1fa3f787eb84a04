"""Element-wise functions of one real number."""

from __future__ import annotations

import math

import numpy as np

from afterglow.graph import Builder, Gradients, Value, op
from afterglow.ops.elementwise import Abs, Add, Div, FloatUnary, Mul, Neg, Sign, Sub, scalar
from afterglow.ops.special import erf


def _one_less_square(b: Builder, x: Value) -> Value:
    """(1 - x)(1 + x), which is exact near 1 where 1 - x² is not."""
    one = scalar(b, 1, x)
    return b.emit(Mul(), b.emit(Sub(), one, x), b.emit(Add(), one, x))


@op("exp")
class Exp(FloatUnary):
    """Exponential."""

    function = np.exp

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad out."""
        return (b.emit(Mul(), grad, out),)


@op("expm1")
class Expm1(FloatUnary):
    """exp(x) - 1, accurate for small x."""

    function = np.expm1

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad (out + 1)."""
        return (b.emit(Mul(), grad, b.emit(Add(), out, scalar(b, 1, x))),)


@op("log")
class Log(FloatUnary):
    """Natural logarithm."""

    function = np.log

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad / x."""
        return (b.emit(Div(), grad, x),)


@op("log1p")
class Log1p(FloatUnary):
    """log(1 + x), accurate for small x."""

    function = np.log1p

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad / (1 + x)."""
        return (b.emit(Div(), grad, b.emit(Add(), x, scalar(b, 1, x))),)


@op("sqrt")
class Sqrt(FloatUnary):
    """Square root."""

    function = np.sqrt

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad / 2 / out."""
        return (b.emit(Div(), b.emit(Mul(), grad, scalar(b, 0.5, x)), out),)


@op("reciprocal")
class Reciprocal(FloatUnary):
    """1 / x."""

    function = np.reciprocal

    def lower(self, b: Builder, x: Value) -> Value:
        """A division."""
        return b.emit(Div(), scalar(b, 1, x), x)


@op("sin")
class Sin(FloatUnary):
    """Sine."""

    function = np.sin

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad cos(x)."""
        return (b.emit(Mul(), grad, b.emit(Cos(), x)),)


@op("cos")
class Cos(FloatUnary):
    """Cosine."""

    function = np.cos

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """-grad sin(x)."""
        return (b.emit(Neg(), b.emit(Mul(), grad, b.emit(Sin(), x))),)


@op("tan")
class Tan(FloatUnary):
    """Tangent."""

    function = np.tan

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad (1 + out²)."""
        return (b.emit(Mul(), grad, b.emit(Add(), b.emit(Mul(), out, out), scalar(b, 1, x))),)

    def lower(self, b: Builder, x: Value) -> Value:
        """sin(x) / cos(x)."""
        return b.emit(Div(), b.emit(Sin(), x), b.emit(Cos(), x))


@op("asin")
class Asin(FloatUnary):
    """Inverse sine."""

    function = np.arcsin

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad / sqrt((1 - x)(1 + x))."""
        return (b.emit(Div(), grad, b.emit(Sqrt(), _one_less_square(b, x))),)

    def lower(self, b: Builder, x: Value) -> Value:
        """atan(x / sqrt((1 - x)(1 + x)))."""
        return b.emit(Atan(), b.emit(Div(), x, b.emit(Sqrt(), _one_less_square(b, x))))


@op("acos")
class Acos(FloatUnary):
    """Inverse cosine."""

    function = np.arccos

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """-grad / sqrt((1 - x)(1 + x))."""
        return (b.emit(Neg(), b.emit(Div(), grad, b.emit(Sqrt(), _one_less_square(b, x)))),)

    def lower(self, b: Builder, x: Value) -> Value:
        """2 atan(sqrt((1 - x) / (1 + x)))."""
        one = scalar(b, 1, x)
        ratio = b.emit(Div(), b.emit(Sub(), one, x), b.emit(Add(), one, x))
        return b.emit(Mul(), scalar(b, 2, x), b.emit(Atan(), b.emit(Sqrt(), ratio)))


@op("atan")
class Atan(FloatUnary):
    """Inverse tangent."""

    function = np.arctan

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad / (1 + x²)."""
        return (b.emit(Div(), grad, b.emit(Add(), b.emit(Mul(), x, x), scalar(b, 1, x))),)


@op("sinh")
class Sinh(FloatUnary):
    """Hyperbolic sine."""

    function = np.sinh

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad cosh(x)."""
        return (b.emit(Mul(), grad, b.emit(Cosh(), x)),)

    def lower(self, b: Builder, x: Value) -> Value:
        """tanh(x) cosh(x): exact near zero, where a difference of exponentials is not."""
        return b.emit(Mul(), b.emit(Tanh(), x), b.emit(Cosh(), x))


@op("cosh")
class Cosh(FloatUnary):
    """Hyperbolic cosine."""

    function = np.cosh

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad sinh(x)."""
        return (b.emit(Mul(), grad, b.emit(Sinh(), x)),)

    def lower(self, b: Builder, x: Value) -> Value:
        """(h / 2) h + 1 / (2 h h) with h = exp(|x| / 2), which does not overflow early."""
        half = scalar(b, 0.5, x)
        h = b.emit(Exp(), b.emit(Mul(), half, b.emit(Abs(), x)))
        grown = b.emit(Mul(), b.emit(Mul(), half, h), h)
        return b.emit(Add(), grown, b.emit(Div(), scalar(b, 0.25, x), grown))


@op("tanh")
class Tanh(FloatUnary):
    """Hyperbolic tangent."""

    function = np.tanh

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad (1 - out)(1 + out)."""
        return (b.emit(Mul(), grad, _one_less_square(b, out)),)


@op("asinh")
class Asinh(FloatUnary):
    """Inverse hyperbolic sine."""

    function = np.arcsinh

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad / sqrt(x² + 1)."""
        square = b.emit(Add(), b.emit(Mul(), x, x), scalar(b, 1, x))
        return (b.emit(Div(), grad, b.emit(Sqrt(), square)),)

    def lower(self, b: Builder, x: Value) -> Value:
        """sign(x) log1p(a + a a / (1 + sqrt(a a + 1))) with a = |x|."""
        one, size = scalar(b, 1, x), b.emit(Abs(), x)
        square = b.emit(Mul(), size, size)
        root = b.emit(Sqrt(), b.emit(Add(), square, one))
        inner = b.emit(Add(), size, b.emit(Div(), square, b.emit(Add(), one, root)))
        return b.emit(Mul(), b.emit(Sign(), x), b.emit(Log1p(), inner))


@op("acosh")
class Acosh(FloatUnary):
    """Inverse hyperbolic cosine."""

    function = np.arccosh

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad / sqrt((x - 1)(x + 1))."""
        return (b.emit(Div(), grad, b.emit(Sqrt(), b.emit(Neg(), _one_less_square(b, x)))),)

    def lower(self, b: Builder, x: Value) -> Value:
        """log1p(t + sqrt(2 t + t t)) with t = x - 1."""
        t = b.emit(Sub(), x, scalar(b, 1, x))
        inside = b.emit(Add(), b.emit(Mul(), scalar(b, 2, x), t), b.emit(Mul(), t, t))
        return b.emit(Log1p(), b.emit(Add(), t, b.emit(Sqrt(), inside)))


@op("atanh")
class Atanh(FloatUnary):
    """Inverse hyperbolic tangent."""

    function = np.arctanh

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """grad / ((1 - x)(1 + x))."""
        return (b.emit(Div(), grad, _one_less_square(b, x)),)

    def lower(self, b: Builder, x: Value) -> Value:
        """log1p(2 x / (1 - x)) / 2."""
        two, one = scalar(b, 2, x), scalar(b, 1, x)
        ratio = b.emit(Div(), b.emit(Mul(), two, x), b.emit(Sub(), one, x))
        return b.emit(Div(), b.emit(Log1p(), ratio), two)


@op("erf")
class Erf(FloatUnary):
    """The error function."""

    function = erf

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """2 / sqrt(pi) grad exp(-x²)."""
        bell = b.emit(Exp(), b.emit(Neg(), b.emit(Mul(), x, x)))
        scaled = b.emit(Mul(), grad, scalar(b, 2 / math.sqrt(math.pi), x))
        return (b.emit(Mul(), scaled, bell),)
