"""Cases of afterglow.ops.lengths."""

from __future__ import annotations

from afterglow.ops.lengths import CheckLengths
from afterglow.testing.cases.case import case, i8, i32, i64

CASES = [
    case(CheckLengths(5), i64(3), low=0, high=5),
    case(CheckLengths(0), i32(2, 3), low=0, high=0),
    case(CheckLengths(7), i8(), low=0, high=7),
    case(CheckLengths(7), i64(0)),
]
