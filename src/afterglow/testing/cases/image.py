"""Cases of afterglow.ops.image."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from afterglow.ops.image import Coordinates, Interpolation, Resize, Rounding
from afterglow.testing.cases.case import case, f16, f32, f64, i32, tensor, u8
from afterglow.types import dtype as dtypes

_LINEAR, _CUBIC = Interpolation.LINEAR, Interpolation.CUBIC
_CROP = Resize(
    sizes=(3, 4),
    scales=(1.0, 1.0),
    mode=_LINEAR,
    coordinates=Coordinates.CROP,
    region=(0.25, -0.5, 0.75, 1.2),
    extrapolation=7.0,
)


def _double(mode: Interpolation, **attributes: Any) -> Resize:
    return Resize((1, 6, 8, 2), (1.0, 2.0, 2.0, 1.0), mode, **attributes)


CASES = [
    *(case(_double(mode), f32(1, 3, 4, 2)) for mode in Interpolation),
    *(case(_double(_LINEAR, coordinates=way), f64(1, 3, 4, 2)) for way in list(Coordinates)[:-1]),
    *(
        case(Resize((5,), (1.7,), coordinates=way, rounding=rounding), i32(3))
        for way in list(Coordinates)[:-1]
        for rounding in Rounding
    ),
    *(
        case(Resize((2, 3), (0.6, 0.4), mode, antialias=True, exclude_outside=True), f32(4, 8))
        for mode in (_LINEAR, _CUBIC)
    ),
    case(Resize((2, 9), (0.5, 2.25), _CUBIC, exclude_outside=True, cubic=-0.5), f32(4, 4)),
    case(Resize((5, 3), (1.25, 1.0), _LINEAR), u8(4, 3), low=0, high=255),
    case(Resize((5, 3), (1.25, 1.0), _CUBIC), u8(4, 3), low=0, high=255),
    case(Resize((4, 4), (2.0, 2.0)), f16(2, 2)),
    case(Resize((1,), (0.25,), _LINEAR, Coordinates.ALIGN_CORNERS), f32(4)),
    case(Resize((1,), (0.25,), _LINEAR, Coordinates.HALF_PIXEL_OR_START), f32(4)),
    case(_CROP, f32(3, 4)),
    *(
        case(replace(_CROP, mode=mode, extrapolation=value), tensor(dtypes.i4)(3, 4))
        for mode in (Interpolation.NEAREST, _LINEAR)
        for value in (300.0, -math.inf)
    ),
    case(Resize((0, 6), (1.0, 2.0), _LINEAR), f32(0, 3)),
    case(Resize((), ()), f32()),
    case(Resize((6,), (1.5,), _LINEAR), tensor(dtypes.i4)(4), low=-8, high=7),
]
