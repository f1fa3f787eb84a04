"""Cases of afterglow.ops.signal."""

from __future__ import annotations

from afterglow.ops.signal import Dft
from afterglow.testing.cases.case import case, f16, f32, f64

CASES = [
    case(Dft(1, 7), f32(2, 7, 1)),
    case(Dft(1, 8), f32(2, 8, 3, 2)),
    case(Dft(0, 5), f64(8, 3, 1)),
    case(Dft(-2, 9), f32(2, 5, 2)),
    case(Dft(1, 8, onesided=True), f32(2, 8, 1)),
    case(Dft(1, 9, onesided=True), f16(2, 9, 1)),
    case(Dft(1, 6, inverse=True), f32(2, 6, 2)),
    case(Dft(1, 8, inverse=True, onesided=True), f32(2, 5, 2)),
    case(Dft(1, 9, inverse=True, onesided=True), f64(2, 7, 2)),
    case(Dft(1, 1200), f64(1, 1000, 2, 1)),
    case(Dft(0, 1200, onesided=True), f64(1201, 1)),
    case(Dft(0, 1200, inverse=True), f64(1200, 2)),
    *(case(Dft(1, n, inverse=True, onesided=True), f64(2, 601, 2)) for n in (1200, 1025)),
    case(Dft(1, 4), f32(0, 4, 2)),
    case(Dft(1, 4), f64(1, 9, 2)),
    case(Dft(0, 1031), f64(1031, 2)),
    case(Dft(1, 1031, onesided=True), f64(2, 999, 1)),
    case(Dft(0, 2062, inverse=True), f64(7, 2, 2)),
    case(Dft(0, 1031, inverse=True, onesided=True), f64(516, 2)),
    case(Dft(0, 5), f64(0, 3, 1)),
]
