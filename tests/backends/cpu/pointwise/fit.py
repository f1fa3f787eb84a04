"""Fits the quotient of polynomials for GELU in `pointwise/fast.py`, and prints its coefficients.

Run `python -m tests.backends.cpu.pointwise.fit`.
"""

from __future__ import annotations

import numpy as np

from afterglow.ops.special import erf
from afterglow.types import Array

LIMIT = 5.42
"""Beyond, erf(x / sqrt(2)) rounds to 1."""


def fit_quotient(top: int, bottom: int, rounds: int = 400) -> tuple[Array, Array, float]:
    """P and Q of those degrees with erf(x / sqrt(2)) = x P(x^2) / Q(x^2), and the largest error.

    Each round solves P - f Q = 0 in least squares, divided by the last Q so that it is the error
    itself that counts; points with large errors get more weight (Lawson's method).
    """
    x = LIMIT * (1 - np.cos(np.pi * (np.arange(4000) + 0.5) / 8000))
    x = x[x > 1e-3]
    z, f = (x / LIMIT) ** 2, erf(x * 0.5**0.5) / x
    size = np.maximum(x, 0.3)
    above = np.vander(z, top + 1, increasing=True)
    below = np.vander(z, bottom + 1, increasing=True)[:, 1:]
    divisor, weight = np.ones_like(x), np.ones_like(x)
    best: tuple[Array, Array, float] = (np.zeros(0), np.zeros(0), np.inf)
    for _ in range(rounds):
        factor = (np.sqrt(weight) * size / divisor)[:, None]
        system = np.hstack([above, -f[:, None] * below]) * factor
        solution = np.linalg.lstsq(system, f * factor[:, 0], rcond=None)[0]
        p, q = solution[: top + 1], np.concatenate([[1.0], solution[top + 1 :]])
        divisor = below @ q[1:] + 1
        error = np.abs(above @ p / divisor - f) * size
        if error.max() < best[2]:
            best = p, q, float(error.max())
        weight *= error + 1e-3 * error.max()
        weight /= weight.sum()
    p, q, worst = best
    return p / LIMIT ** (2 * np.arange(top + 1)), q / LIMIT ** (2 * np.arange(bottom + 1)), worst


def main() -> None:
    """Print the coefficients, of the power 0 first."""
    top, bottom, worst = fit_quotient(4, 6)
    print(f"largest error 2^{np.log2(worst):.1f}")
    for name, coefficients in (("top", top), ("bottom", bottom)):
        print(name, *(f"    {float(np.float32(c))!r}," for c in coefficients), sep="\n")


if __name__ == "__main__":
    main()
