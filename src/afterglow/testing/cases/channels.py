"""Cases of afterglow.ops.channels."""

from __future__ import annotations

from afterglow.ops.channels import ChannelMoments, ChannelSums
from afterglow.testing.cases.case import case, f16, f32, f64

CASES = [
    case(ChannelMoments(), f32(2, 3, 4, 5)),
    case(ChannelMoments(), f32(700, 19), low=99, high=101),
    case(ChannelMoments(1), f32(2, 3, 4)),
    case(ChannelMoments(0), f64(5)),
    case(ChannelMoments(), f16(6, 3)),
    case(ChannelMoments(), f32(0, 3)),
    case(ChannelSums(), f32(2, 3, 4, 5), f32(2, 3, 4, 5), f32(5)),
    case(ChannelSums(), f32(600, 35), f32(600, 35), f32(35), tolerance=1e-4),
    case(ChannelSums(1), f32(2, 3, 4), f32(2, 3, 4), f32(3)),
    case(ChannelSums(), f64(3, 2), f64(3, 2), f64(2)),
    case(ChannelSums(), f16(6, 3), f16(6, 3), f16(3)),
    case(ChannelSums(), f32(0, 3), f32(0, 3), f32(3)),
]
