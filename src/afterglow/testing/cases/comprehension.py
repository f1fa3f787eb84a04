"""Cases of afterglow.ops.comprehension."""

from __future__ import annotations

from afterglow.ops.comprehension import Comprehension
from afterglow.testing.cases.case import case, f32, i32

_CONV = "o[n, i, c] = sum(k, d) x[n, 2*i + k, d] * w[k, d, c]"
_STENCIL = "o[i, j] = (x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j]) / 3 - x[i + 1, j + 1]"

CASES = [
    case(Comprehension("o[i, j] = sum(k) tanh(a[i, k]) * b[k, j]"), f32(2, 3), f32(3, 4)),
    case(Comprehension("o[i, j] = sum(k) (a[i, k] - b[j, k])**2"), f32(2, 5), f32(3, 5)),
    case(Comprehension("o[i, j] = max(k) (a[i, k] + b[k, j])"), i32(2, 3), i32(3, 4)),
    case(Comprehension(_CONV), f32(2, 7, 3), f32(2, 3, 2)),
    case(Comprehension(_STENCIL), f32(4, 5)),
    case(Comprehension("s[i] = sum(k) x[i, k]; o[i, j] = x[i, j] / s[i] - i"), f32(3, 4)),
    case(Comprehension("o[i] = x[] > i where i in 0:3"), f32()),
]
