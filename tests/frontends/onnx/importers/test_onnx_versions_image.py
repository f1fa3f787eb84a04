"""Image ops and object detection where versions of ONNX differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from afterglow.testing.cases.case import f16, f32, f64, i8, i32, u8
from tests.frontends.onnx.one_node import (
    Fixed,
    Form,
    check,
    const,
    each_form,
    fed,
    form,
    giving,
    scalar,
)

X = f32(1, 2, 4, 5)
MODES = ("nearest", "linear", "cubic")
PLACES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def factors(*numbers: float) -> Fixed:
    return const(*numbers, dtype=np.float32)


NONE = factors()
UP, DOWN = factors(1, 1, 2, 3), factors(1, 1, 0.6, 0.7)
UNEVEN, MIXED, HALF = factors(1, 1, 1.7, 2.4), factors(1, 1, 0.6, 1.7), factors(1, 1, 0.5, 0.4)


@each_form(
    giving(
        lambda x: x.repeat(2, 2).repeat(3, 3),
        form("Upsample", 1, X, height_scale=2.0, width_scale=3.0),
    ),
    *(form("Upsample", 7, X, scales=[1.0, 1.0, 2.0, 3.0], mode=m) for m in ("nearest", "linear")),
    *(form("Upsample", 9, X, UP, mode=m) for m in ("nearest", "linear")),
    form("Upsample", 9, X, UNEVEN),
    form("Upsample", 9, i32(1, 1, 2, 2), UP),
    fed(form("Upsample", 9, X, UP)),
)
def test_upsample(form: Form) -> None:
    check(form)


@each_form(
    *(form("Resize", 10, X, s, mode=m) for s in (UP, DOWN, MIXED) for m in ("nearest", "linear")),
    form("Resize", 10, u8(1, 2, 4, 5), UP, high=255),
    form("Resize", 10, f32(2, 3), factors(2, 1.5)),
    fed(form("Resize", 10, X, UP)),
)
def test_the_first_resize_takes_what_lies_behind_where_it_shrinks(form: Form) -> None:
    check(form)


@each_form(
    *(
        form("Resize", (11, 13), X, NONE, s, mode=m, coordinate_transformation_mode=place)
        for m in MODES
        for place in PLACES
        for s in ((UP, HALF) if place == "align_corners" else (UNEVEN, DOWN))
    ),
    *(
        form("Resize", 11, X, NONE, s, nearest_mode=rounding, coordinate_transformation_mode=place)
        for rounding in ROUNDINGS
        for place in PLACES
        for s in ((UP, HALF) if place == "align_corners" else (UP, UNEVEN, DOWN))
    ),
    form("Resize", 11, X, NONE, UP, coordinate_transformation_mode="tf_half_pixel_for_nn"),
    form("Resize", 19, X, None, UNEVEN, coordinate_transformation_mode="half_pixel_symmetric"),
    form(
        *("Resize", 19, X, None, DOWN),
        coordinate_transformation_mode="half_pixel_symmetric",
        mode="linear",
    ),
)
def test_resize_by_scales(form: Form) -> None:
    check(form)


@each_form(
    *(form("Resize", 11, X, NONE, NONE, const(1, 2, 7, 3), mode=m) for m in MODES),
    *(form("Resize", (13, 18), X, None, None, const(1, 2, 7, 3), mode=m) for m in MODES),
    *(
        form(
            "Resize", 13, X, None, None, const(1, 2, 1, 9), mode=m, coordinate_transformation_mode=p
        )
        for m in MODES
        for p in PLACES
    ),
    form("Resize", 13, f32(3, 4), None, None, const(6, 2)),
    form("Resize", 13, i8(1, 1, 3, 4), None, None, const(1, 1, 6, 2), low=-9, high=9),
    form("Resize", 13, f64(1, 1, 3, 4), None, None, const(1, 1, 6, 2), mode="nearest"),
    form("Resize", 13, X, None, None, const(1, 2, 4, 5), mode="linear"),
    form("Resize", 13, f16(1, 1, 3, 4), None, None, const(1, 1, 6, 2)),
    fed(form("Resize", 13, X, None, None, const(1, 2, 7, 3))),
    form("Resize", 13, f32(1, 2, 5), None, None, const(1, 2, 8), mode="linear"),
    form("Resize", 13, f32(1, 1, 2, 3, 4), None, None, const(1, 1, 4, 3, 6), mode="linear"),
)
def test_resize_to_sizes(form: Form) -> None:
    check(form)


@each_form(
    form("Resize", 13, X, None, UNEVEN, mode="cubic", cubic_coeff_a=-0.5),
    form("Resize", 13, X, None, UNEVEN, mode="cubic", exclude_outside=1),
    form("Resize", 18, X, None, DOWN, mode="linear", antialias=1),
    form("Resize", 18, X, None, DOWN, mode="cubic", antialias=1, exclude_outside=1),
    form("Resize", 18, X, None, factors(1.5, 2), axes=[2, 3], mode="linear"),
    form("Resize", 18, X, None, None, const(7, 3), axes=[3, 2]),
    form("Resize", 19, X, None, None, const(3, 8), axes=[-2, -1], mode="linear"),
    *(
        form("Resize", 18, X, None, None, const(7, 7), axes=[2, 3], keep_aspect_ratio_policy=policy)
        for policy in ("stretch", "not_larger", "not_smaller")
    ),
    *(
        form(
            *("Resize", version, X, factors(0, 0, 0.2, 0.3, 1, 1, 0.8, 1.4), None),
            const(1, 2, 3, 4),
            mode="linear",
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=7.0,
        )
        for version in (13, 18)
    ),
)
def test_resize_in_unusual_ways(form: Form) -> None:
    check(form)


GRID = f32(1, 3, 4, 2)
BORDERS = ("zeros", "border", "reflection")


@each_form(
    *(
        form("GridSample", 16, X, GRID, mode=m, padding_mode=border, align_corners=align)
        for m in ("bilinear", "nearest", "bicubic")
        for border in BORDERS
        for align in (0, 1)
    ),
    *(
        form("GridSample", (20, 22), X, GRID, mode=m, padding_mode=border)
        for m in ("linear", "nearest", "cubic")
        for border in BORDERS
    ),
    *(
        form("GridSample", 20, f32(1, 2, 3, 4, 3), f32(1, 2, 3, 2, 3), mode=m, padding_mode=border)
        for m in ("linear", "nearest")
        for border in BORDERS
    ),
    form("GridSample", 16, X, GRID),
    form("GridSample", 20, X, GRID),
)
def test_grid_sample(form: Form) -> None:
    check(form)


ROIS = np.array([[0, 0, 6, 5], [1.5, 2, 4, 7], [3, 3, 3.2, 3.1]], np.float32)
IMAGES = np.array([0, 1, 0], np.int64)
REGIONS: dict[str, Any] = {"output_height": 2, "output_width": 3}


@each_form(
    *(
        form("RoiAlign", (10, 16), f32(2, 3, 8, 8), ROIS, IMAGES, **REGIONS, mode=m, **more)
        for m in ("avg", "max")
        for more in ({"sampling_ratio": 2}, {"spatial_scale": 0.5}, {})
    ),
    form(
        *("RoiAlign", 16, f32(2, 3, 8, 8), ROIS, IMAGES),
        **REGIONS,
        coordinate_transformation_mode="output_half_pixel",
    ),
    form("RoiAlign", 22, f32(2, 3, 8, 8), ROIS, IMAGES),
)
def test_roi_align_has_half_pixels_from_version_16_on(form: Form) -> None:
    check(form)


BOXES = np.array(
    [
        [0, 0, 1, 1],
        [0, 0.1, 1, 1.1],
        [0, -0.1, 1, 0.9],
        [0, 10, 1, 11],
        [0, 10.1, 1, 11.1],
        [0, 100, 1, 101],
    ],
    np.float32,
)
SCORES = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.2, 0.9, 0.2, 0.8, 0.3]]], np.float32)
CENTRED = np.concatenate([(BOXES[:, :2] + BOXES[:, 2:]) / 2, BOXES[:, 2:] - BOXES[:, :2]], 1)
FLIPPED = BOXES[:, [2, 1, 0, 3]]
THREE, SOME = const(3), const(0.5, dtype=np.float32)


@each_form(
    form("NonMaxSuppression", (10, 11), BOXES[None], SCORES, THREE, SOME),
    form("NonMaxSuppression", 11, BOXES[None], SCORES, THREE, SOME, scalar(0.4)),
    form("NonMaxSuppression", 11, FLIPPED[None], SCORES, THREE, SOME),
    form("NonMaxSuppression", 11, CENTRED[None], SCORES, THREE, SOME, center_point_box=1),
    form("NonMaxSuppression", 11, BOXES[None], SCORES, const(9), const(0, dtype=np.float32)),
    form("NonMaxSuppression", 11, BOXES[None], SCORES, const(9)),
    form("NonMaxSuppression", 11, BOXES[None], SCORES),
    form("NonMaxSuppression", 11, BOXES[None], SCORES, THREE, SOME, scalar(2)),
    form("NonMaxSuppression", 11, np.stack([BOXES, FLIPPED]), SCORES.repeat(2, 0), THREE, SOME),
    fed(form("NonMaxSuppression", 11, BOXES[None], SCORES, THREE, SOME)),
)
def test_boxes_that_overlap_a_better_one_go(form: Form) -> None:
    check(form)


PARTS = np.array([[0, 0, 0, 5, 4], [1, 2, 1, 7, 7]], np.float32)


@each_form(
    form("MaxRoiPool", 1, f32(2, 3, 8, 8), PARTS, pooled_shape=[2, 3]),
    form("MaxRoiPool", 1, f32(2, 3, 8, 8), PARTS, pooled_shape=[2, 2], spatial_scale=0.5),
    form("Col2Im", 18, f32(1, 5, 5), const(5, 5), const(1, 5)),
    form("Col2Im", 18, f32(2, 8, 9), const(4, 4), const(2, 2)),
)
def test_windows_of_images(form: Form) -> None:
    check(form)
