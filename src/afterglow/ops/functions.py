"""Element-wise functions of one real number."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Value, op
from afterglow.ops.elementwise import Abs, Add, Div, FloatUnary, Mul, Sign, Sub, scalar
from afterglow.ops.special import erf


@op("exp")
class Exp(FloatUnary):
    """Exponential."""

    function = np.exp


@op("expm1")
class Expm1(FloatUnary):
    """exp(x) - 1, exact for small x."""

    function = np.expm1


@op("log")
class Log(FloatUnary):
    """Natural logarithm."""

    function = np.log


@op("log1p")
class Log1p(FloatUnary):
    """log(1 + x), exact for small x."""

    function = np.log1p


@op("sqrt")
class Sqrt(FloatUnary):
    """Square root."""

    function = np.sqrt


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


@op("cos")
class Cos(FloatUnary):
    """Cosine."""

    function = np.cos


@op("tan")
class Tan(FloatUnary):
    """Tangent."""

    function = np.tan

    def lower(self, b: Builder, x: Value) -> Value:
        """sin(x) / cos(x)."""
        return b.emit(Div(), b.emit(Sin(), x), b.emit(Cos(), x))


@op("asin")
class Asin(FloatUnary):
    """Inverse sine."""

    function = np.arcsin

    def lower(self, b: Builder, x: Value) -> Value:
        """atan(x / sqrt((1 - x)(1 + x)))."""
        one = scalar(b, 1, x)
        square = b.emit(Mul(), b.emit(Sub(), one, x), b.emit(Add(), one, x))
        return b.emit(Atan(), b.emit(Div(), x, b.emit(Sqrt(), square)))


@op("acos")
class Acos(FloatUnary):
    """Inverse cosine."""

    function = np.arccos

    def lower(self, b: Builder, x: Value) -> Value:
        """2 atan(sqrt((1 - x) / (1 + x)))."""
        one = scalar(b, 1, x)
        ratio = b.emit(Div(), b.emit(Sub(), one, x), b.emit(Add(), one, x))
        return b.emit(Mul(), scalar(b, 2, x), b.emit(Atan(), b.emit(Sqrt(), ratio)))


@op("atan")
class Atan(FloatUnary):
    """Inverse tangent."""

    function = np.arctan


@op("sinh")
class Sinh(FloatUnary):
    """Hyperbolic sine."""

    function = np.sinh

    def lower(self, b: Builder, x: Value) -> Value:
        """tanh(x) cosh(x): exact near zero, where a difference of exponentials is not."""
        return b.emit(Mul(), b.emit(Tanh(), x), b.emit(Cosh(), x))


@op("cosh")
class Cosh(FloatUnary):
    """Hyperbolic cosine."""

    function = np.cosh

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


@op("asinh")
class Asinh(FloatUnary):
    """Inverse hyperbolic sine."""

    function = np.arcsinh

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

    def lower(self, b: Builder, x: Value) -> Value:
        """log1p(t + sqrt(2 t + t t)) with t = x - 1."""
        t = b.emit(Sub(), x, scalar(b, 1, x))
        inside = b.emit(Add(), b.emit(Mul(), scalar(b, 2, x), t), b.emit(Mul(), t, t))
        return b.emit(Log1p(), b.emit(Add(), t, b.emit(Sqrt(), inside)))


@op("atanh")
class Atanh(FloatUnary):
    """Inverse hyperbolic tangent."""

    function = np.arctanh

    def lower(self, b: Builder, x: Value) -> Value:
        """log1p(2 x / (1 - x)) / 2."""
        two, one = scalar(b, 2, x), scalar(b, 1, x)
        ratio = b.emit(Div(), b.emit(Mul(), two, x), b.emit(Sub(), one, x))
        return b.emit(Div(), b.emit(Log1p(), ratio), two)


@op("erf")
class Erf(FloatUnary):
    """The error function."""

    function = erf
