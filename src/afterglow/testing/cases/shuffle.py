"""Cases of afterglow.ops.shuffle."""

from __future__ import annotations

import numpy as np

from afterglow.ops.shuffle import ChannelShuffle, DepthToSpace, ShuffleMode, SpaceToDepth
from afterglow.testing.cases.case import case, f16, f32, i8, i64

CASES = [
    *(case(DepthToSpace(2, mode), f32(2, 3, 4, 8)) for mode in ShuffleMode),
    *(case(SpaceToDepth(2, mode), f32(2, 6, 4, 3)) for mode in ShuffleMode),
    case(DepthToSpace(3), i8(1, 2, 1, 9)),
    case(DepthToSpace(1), f16(1, 2, 3, 4)),
    case(DepthToSpace(2), f32(0, 2, 3, 4)),
    case(
        DepthToSpace(2, ShuffleMode.CRD),
        i64(1, 1, 1, 8),
        given={0: np.arange(8, dtype=np.int64).reshape(1, 1, 1, 8)},
    ),
    case(SpaceToDepth(2), f32(1, 2, 2, 0)),
    case(ChannelShuffle(3), f32(2, 4, 6)),
    case(ChannelShuffle(2, axis=1), f32(2, 8, 3, 3)),
    case(ChannelShuffle(4, axis=0), i64(4)),
]
