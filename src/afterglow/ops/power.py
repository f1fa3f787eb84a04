"""Powers."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Gradients, Value, op
from afterglow.ops.elementwise import And, Binary, Equal, LessEqual, Mul, Sub, Where, scalar
from afterglow.ops.functions import Log
from afterglow.types import Array


def _power(lhs: Array, rhs: Array) -> Array:
    if lhs.dtype.kind in "iu":  # NumPy refuses negative integer exponents
        return np.power(lhs.astype(np.float64), rhs).astype(lhs.dtype)
    return np.asarray(np.power(lhs, rhs))


@op("pow")
class Pow(Binary):
    """Power: lhs ** rhs; for integers rounded towards zero."""

    function = _power

    def gradient(self, b: Builder, out: Value, grad: Value, lhs: Value, rhs: Value) -> Gradients:
        """grad rhs lhs ** (rhs - 1), and grad out log(lhs); 0 where the result does not change."""
        zero = scalar(b, 0, grad)
        lower = b.emit(Pow(), lhs, b.emit(Sub(), rhs, scalar(b, 1, rhs)))
        slope = b.emit(Where(), b.emit(Equal(), rhs, zero), zero, b.emit(Mul(), rhs, lower))
        is_zero = b.emit(And(), b.emit(Equal(), lhs, zero), b.emit(LessEqual(), zero, rhs))
        growth = b.emit(Where(), is_zero, zero, b.emit(Mul(), out, b.emit(Log(), lhs)))
        return b.emit(Mul(), grad, slope), b.emit(Mul(), grad, growth)
