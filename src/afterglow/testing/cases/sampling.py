"""Cases of afterglow.ops.grid_sample, afterglow.ops.deform_conv and afterglow.ops.regions."""

from __future__ import annotations

from typing import Any

import numpy as np

from afterglow.ops.deform_conv import DeformConv
from afterglow.ops.grid_sample import GridSample
from afterglow.ops.image import Interpolation
from afterglow.ops.regions import MaxRoiPool, RegionMode, RoiAlign
from afterglow.ops.sampling import Border
from afterglow.testing.cases.case import Case, case, f16, f32, f64, i32, i64

_ROIS = np.array([[0, 0, 3, 4], [1.2, -2, 9, 5.5], [2, 2, 2.2, 2.1]], np.float32)
_NUMBERED = np.concatenate([np.array([[1], [0], [1]], np.float32), _ROIS], axis=1)
_IMAGES = np.array([1, 0, 1])
_DEFORM = DeformConv(strides=(2, 1), pads=(1, 0, 1, 1), dilations=(1, 2))
_GROUPED = DeformConv((1, 1), (0,) * 4, (1, 1), groups=2, offset_groups=2)


_AWKWARD = {  # mostly outside, of infinite size, empty, and small
    1: np.array(
        [[-91.3, -80.2, 249.9, 201.7], [1, 1, np.inf, 5], [2, 2, 1, 1], [3, 2, 3.2, 2.1]],
        np.float32,
    ),
    2: np.array([0, 1, 0, 1]),
}


def _roi_align(**attributes: Any) -> Case:
    operands = f32(2, 6, 7, 3), f32(3, 4), i64(3)
    return case(RoiAlign((2, 3), **attributes), *operands, given={1: _ROIS, 2: _IMAGES})


CASES = [
    *(
        case(GridSample(mode, border, align), f32(2, 4, 5, 3), f32(2, 3, 6, 2), tolerance=1e-4)
        for mode in Interpolation
        for border in Border
        for align in (False, True)
    ),
    *(case(GridSample(mode), f64(1, 3, 4, 5, 2), f64(1, 2, 3, 2, 3)) for mode in Interpolation),
    case(GridSample(), f16(1, 4, 4, 2), f16(1, 3, 3, 2)),
    case(GridSample(), f16(1, 4, 4, 2), f32(1, 3, 3, 2)),
    case(GridSample(Interpolation.NEAREST), i32(1, 4, 4, 2), f32(1, 3, 3, 2)),
    case(GridSample(), f32(1, 4, 2), f32(1, 7, 1)),
    case(GridSample(), f32(0, 4, 4, 2), f32(0, 3, 3, 2)),
    case(GridSample(border=Border.REFLECT, align_corners=True), f32(1, 1, 4, 2), f32(1, 3, 3, 2)),
    case(_DEFORM, f32(2, 5, 6, 4), f32(3, 3, 2, 4), f32(2, 3, 5, 12), tolerance=1e-4),
    case(
        _GROUPED,
        f32(1, 4, 4, 4),
        f32(6, 2, 2, 2),
        f32(1, 3, 3, 16),
        f32(6),
        f32(1, 3, 3, 8),
        tolerance=1e-4,
    ),
    case(
        DeformConv((1,), (1, 1), (1,)), f32(1, 5, 2), f32(3, 3, 2), f32(1, 5, 3), None, f32(1, 5, 3)
    ),
    *(
        _roi_align(samples=samples, mode=mode, half_pixel=half_pixel)
        for samples in (0, 2)
        for mode in RegionMode
        for half_pixel in (False, True)
    ),
    _roi_align(scale=0.5, samples=3),
    *(
        case(RoiAlign((2, 3), mode=mode), f32(2, 6, 7, 3), f32(4, 4), i64(4), given=_AWKWARD)
        for mode in RegionMode
    ),
    case(RoiAlign((2, 2), 1), f32(1, 3, 3, 2), f32(0, 4), i64(0)),
    case(GridSample(), f32(1, 3, 4, 0), f32(1, 2, 2, 2)),
    case(MaxRoiPool((2, 3)), f32(2, 6, 7, 3), f32(3, 5), given={1: _NUMBERED}),
    case(MaxRoiPool((2, 2), scale=0.5), f32(2, 6, 7, 3), f32(3, 5), given={1: _NUMBERED}),
]
