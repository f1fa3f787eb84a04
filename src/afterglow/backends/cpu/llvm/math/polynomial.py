"""Polynomials, and the numbers that their coefficients are."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cpu.llvm.emitter import Value, fma


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """c0 + c1 x + c2 x^2 + …, by Horner's rule."""
    result = x.like(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = fma(result, x, coefficient)
    return result
