"""Cases of afterglow.ops.histogram."""

from __future__ import annotations

import numpy as np

from afterglow.ops.histogram import ChannelRanges, Histogram, Reach
from afterglow.testing.cases.case import case, f32

_AWKWARD = np.array([[1, np.nan, -np.inf], [2, np.inf, -2], [0, -0.0, 1e-30]], np.float32)
_ONE = np.ones(1, np.float32)
_TWO, _ODD = np.array(2, np.float32), np.array(1.7, np.float32)

CASES = [
    case(Histogram(bins=8), f32(5, 3), f32(), given={1: _TWO}),
    case(Histogram(bins=64), f32(2, 3, 37), f32(), given={1: _ODD}, high=3.0),
    case(Histogram(bins=4096, every=3), f32(7, 20), f32(), given={1: _TWO}),
    case(Histogram(bins=16, every=2), f32(6, 5, 33), f32(), given={1: _TWO}),
    case(Histogram(bins=4), f32(3, 3), f32(), given={0: _AWKWARD, 1: _TWO}),
    case(Histogram(bins=4), f32(), f32(), given={1: _TWO}),
    case(Histogram(bins=4), f32(9), f32(), given={1: _TWO}),
    case(Histogram(bins=4), f32(0, 3), f32(), given={1: _TWO}),
    case(Reach(2.0**-10, 2.0**8), f32(3), f32(3)),
    case(Reach(2.0**-10, 2.0**8), f32(37), f32(5), low=-40.0, high=3.0),
    case(Reach(2.0**-10, 2.0**8), f32(3), f32(2), low=300.0, high=400.0),
    case(Reach(2.0**-10, 2.0**8), f32(3), f32(2), low=0.0, high=0.0),
    case(Reach(2.0**-10, 2.0**8), f32(3), f32(2), given={0: _AWKWARD[0]}),
    case(Reach(2.0**-10, 2.0**8), f32(3), f32(1), given={0: _AWKWARD[1], 1: _ONE}),
    case(ChannelRanges(), f32(5, 3)),
    case(ChannelRanges(), f32(2, 3, 37)),
    case(ChannelRanges(), f32(400, 20)),
    case(ChannelRanges(), f32(3, 3), given={0: _AWKWARD}),
    case(ChannelRanges(), f32(9)),
    case(ChannelRanges(), f32(3, 0)),
]
