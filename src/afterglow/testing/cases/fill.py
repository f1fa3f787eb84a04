"""Cases of afterglow.ops.fill."""

from __future__ import annotations

from afterglow.ops.fill import Fill
from afterglow.testing.cases.case import case
from afterglow.types import dtype as dtypes

CASES = [
    case(Fill((2, 3), 1.5, dtypes.f32)),
    case(Fill((), -3.0, dtypes.i8)),
    case(Fill((0,), 0.0, dtypes.bf16)),
    case(Fill((2,), 1.0, dtypes.boolean)),
]
