"""Cases of afterglow.ops.lengths."""

from __future__ import annotations

from afterglow.ops.lengths import CheckLabels, CheckLengths
from afterglow.testing.cases.case import case, i8, i32, i64

CASES = [
    case(CheckLengths(5), i64(3), low=0, high=5),
    case(CheckLengths(0), i32(2, 3), low=0, high=0),
    case(CheckLengths(7), i8(), low=0, high=7),
    case(CheckLengths(7), i64(0)),
    case(CheckLabels(4), i64(3, 1), low=0, high=3),
    case(CheckLabels(1), i32(5), low=0, high=0),
]
