"""Activation functions."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from afterglow.backends.pointwise.table import expression
from afterglow.backends.pointwise.value import Value
from afterglow.backends.pointwise.vocabulary import absolute, call, clamp, fma, select
from afterglow.ops import activation as ops
from afterglow.ops.slopes import FLAT, GELU_CUBE, GELU_SCALE, GeluSlope, SwishSlope


@expression(ops.Relu)
def relu(op: ops.Relu, x: Value) -> Value:
    """x, but not below 0."""
    return clamp(x, 0, None)


@expression(ops.LeakyRelu)
def leaky_relu(op: ops.LeakyRelu, x: Value) -> Value:
    """alpha x below 0."""
    return select(x < 0.0, x * op.alpha, x)


@expression(ops.PRelu)
def prelu(op: ops.PRelu, x: Value, slope: Value) -> Value:
    """slope x below 0."""
    return select(x < 0, x * slope, x)


@expression(ops.Sigmoid)
def sigmoid(op: ops.Sigmoid, x: Value) -> Value:
    """1 / (1 + e^-x)."""
    return call("sigmoid", x)


@expression(ops.HardSigmoid)
def hard_sigmoid(op: ops.HardSigmoid, x: Value) -> Value:
    """A line between 0 and 1."""
    return clamp(x * op.alpha + op.beta, 0.0, 1.0)


@expression(ops.HardSwish)
def hard_swish(op: ops.HardSwish, x: Value) -> Value:
    """x times a line between 0 and 1."""
    return x * clamp(fma(x, 1 / 6, 0.5), 0.0, 1.0)


@expression(ops.Swish)
def swish(op: ops.Swish, x: Value) -> Value:
    """x sigmoid(alpha x)."""
    return call("sigmoid", x if op.alpha == 1 else x * op.alpha, x)


@expression(ops.Gelu)
def gelu(op: ops.Gelu, x: Value) -> Value:
    """x times the normal distribution, or nearly: (1 + tanh y) / 2 is sigmoid(2 y)."""
    if not op.approximate:
        return 0.5 * x * call("normal_distribution_doubled", x)
    linear, cubic = 2 * GELU_SCALE, 2 * GELU_SCALE * GELU_CUBE
    return call("sigmoid", x * fma(x * x, cubic, linear), x)


@expression(GeluSlope)
def gelu_slope(op: GeluSlope, x: Value) -> Value:
    """The normal distribution and x times its density, or nearly: see `gelu`."""
    if not op.approximate:
        density = call("exp_down", x * x * -0.5)
        return fma(x * (1 / sqrt(2 * pi)), density, 0.5 * call("normal_distribution_doubled", x))
    near = clamp(x, -FLAT, FLAT)
    linear, cubic, square = 2 * GELU_SCALE, 2 * GELU_SCALE * GELU_CUBE, near * near
    share = call("sigmoid", near * fma(square, cubic, linear))
    return share * fma(near * (1.0 - share), fma(square, 3 * cubic, linear), 1.0)


@expression(SwishSlope)
def swish_slope(op: SwishSlope, x: Value) -> Value:
    """s (1 + alpha x (1 - s)) with s = sigmoid(alpha x)."""
    scaled = x if op.alpha == 1 else x * op.alpha
    share = call("sigmoid", scaled)
    return share * fma(scaled, 1.0 - share, 1.0)


@expression(ops.Elu)
def elu(op: ops.Elu, x: Value) -> Value:
    """alpha (e^x - 1) below 0."""
    return select(x < 0.0, op.alpha * call("quick_expm1", clamp(x, None, 0.0)), x)


@expression(ops.Selu)
def selu(op: ops.Selu, x: Value) -> Value:
    """gamma elu(x)."""
    return op.gamma * select(x < 0.0, op.alpha * call("quick_expm1", clamp(x, None, 0.0)), x)


@expression(ops.Celu)
def celu(op: ops.Celu, x: Value) -> Value:
    """alpha (e^(x / alpha) - 1) below 0; of a negative alpha that grows."""
    return select(x < 0.0, op.alpha * call("expm1", x / op.alpha), x)


@expression(ops.Softplus)
def softplus(op: ops.Softplus, x: Value) -> Value:
    """log(1 + e^x), of e^-|x| so that it does not overflow."""
    return clamp(x, 0.0, None) + call("log1p_of_fraction", call("exp_down", -absolute(x)))


@expression(ops.Softsign)
def softsign(op: ops.Softsign, x: Value) -> Value:
    """x / (1 + |x|)."""
    return x / (1.0 + absolute(x))


@expression(ops.Mish)
def mish(op: ops.Mish, x: Value) -> Value:
    """x tanh(log(1 + u)) = x v / (v + 2) of v = u (u + 2), u = e^x; x where that is 1."""
    power = call("exp", clamp(x, None, 20.0))
    grown = power * (power + 2.0)
    return x * (grown / (grown + 2.0))


@expression(ops.ThresholdedRelu)
def thresholded_relu(op: ops.ThresholdedRelu, x: Value) -> Value:
    """x above alpha."""
    return select(x > op.alpha, x, 0.0)


@expression(ops.Shrink)
def shrink(op: ops.Shrink, x: Value) -> Value:
    """x moved towards 0, where it is far from it."""
    inner = select(x > op.lambd, x - op.bias, 0.0)
    return select(x < -op.lambd, x + op.bias, inner)


@expression(ops.Clip, whole_bytes=True)
def clip(op: ops.Clip, x: Value) -> Value:
    """x between two bounds."""
    return clamp(x, _bound(op.low, x), _bound(op.high, x))


def _bound(number: float | None, x: Value) -> float | None:
    """A bound as the element type has it."""
    if number is None:
        return None
    with np.errstate(all="ignore"):
        bound: float = np.asarray(number).astype(x.dtype.numpy).item()
    return bound
