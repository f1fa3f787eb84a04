"""Cases of afterglow.ops.extents."""

from __future__ import annotations

from afterglow.ops.extents import Extents
from afterglow.testing.cases.case import case
from afterglow.types import dtype as dtypes

CASES = [
    case(Extents((2, 7, 384), (3,))),
    case(Extents((7,), (), dtypes.i32)),
    case(Extents((), (0,))),
]
