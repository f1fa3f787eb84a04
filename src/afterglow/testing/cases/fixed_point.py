"""Cases of afterglow.ops.fixed_point."""

from __future__ import annotations

import numpy as np

from afterglow.ops.fixed_point import ENTRIES, ByteTable
from afterglow.testing.cases.case import case, i8, u8
from afterglow.types import dtype as d

_BYTES = tuple(int(number) for number in np.random.default_rng(3).permutation(ENTRIES))
_SIGNED = tuple(number - 128 for number in _BYTES)
_ALL = np.arange(ENTRIES, dtype=np.uint8)

CASES = [
    case(ByteTable(_BYTES), u8(ENTRIES), given={0: _ALL}),
    case(ByteTable(_SIGNED, d.i8), u8(3, 70), low=0, high=255),
    case(ByteTable(_BYTES), i8(2, 5, 9), low=-128, high=127),
    case(ByteTable(_SIGNED, d.i8), i8(ENTRIES), given={0: _ALL.view(np.int8)}),
    case(ByteTable(_BYTES), u8(0, 3)),
]
