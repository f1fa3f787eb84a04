"""Ops that move elements, where versions of ONNX differ."""

from __future__ import annotations

import numpy as np

from afterglow.testing.cases.case import boolean, f16, f32, i8, i64, string, u8
from tests.frontends.onnx.one_node import Form, check, const, each_form, fed, form, giving, scalar

X = f32(2, 3, 4)


@each_form(
    giving(lambda x: x.reshape(4, -1), form("Reshape", 1, X, shape=[4, -1])),
    giving(lambda x: x.reshape(2, 12), form("Reshape", 1, X, shape=[0, 12])),
    form("Reshape", (5, 13, 14), X, const(4, -1)),
    form("Reshape", (5, 13, 14), X, const(0, -1)),
    form("Reshape", (5, 13), X, const(0, 0, 2, 2)),
    form("Reshape", 13, f32(1), const()),
    form("Reshape", 13, f32(0, 3), const(-1, 3)),
    form("Reshape", 14, f32(0, 3), const(3, 0), allowzero=1),
    form("Reshape", 14, X, const(24), allowzero=1),
    form("Reshape", 21, i8(2, 6), const(3, -1)),
    fed(form("Reshape", 13, X, const(6, -1))),
)
def test_reshape_takes_an_attribute_then_an_input(form: Form) -> None:
    check(form)


@each_form(
    form("Flatten", (1, 9, 13), X),
    form("Flatten", 9, X, axis=0),
    form("Flatten", 9, i64(2, 3), axis=2),
    form("Flatten", (11, 13, 21), X, axis=-1),
    form("Flatten", 11, X, axis=3),
    form("Flatten", 13, f32(3)),
    form("Flatten", 13, f32(), axis=0),
    form("Flatten", 13, f32(0, 3)),
)
def test_flatten(form: Form) -> None:
    check(form)


@each_form(
    form("Squeeze", (1, 11), f32(1, 3, 1), axes=[0, 2]),
    form("Squeeze", (1, 11), f32(1, 3, 1)),
    form("Squeeze", 11, f32(1, 3, 1), axes=[-1]),
    form("Squeeze", (13, 21), f32(1, 3, 1), const(-3)),
    form("Squeeze", 13, f32(1, 3, 1)),
    fed(form("Squeeze", 13, f32(1, 3, 1), const(0, 2))),
    form("Unsqueeze", (1, 11), X, axes=[0, 4]),
    form("Unsqueeze", 11, X, axes=[-1, 0]),
    form("Unsqueeze", (13, 21), X, const(-1, 2)),
    form("Unsqueeze", 13, X, const(2, 0)),
    form("Unsqueeze", 13, f32(), const(0)),
    fed(form("Unsqueeze", 13, X, const(1))),
)
def test_axes_are_an_attribute_then_an_input(form: Form) -> None:
    check(form)


@each_form(
    form("Slice", (1, 9), X, starts=[-3, 1], ends=[10, 3], axes=[2, 1]),
    form("Slice", 1, X, starts=[0, 1], ends=[-1, 3]),
    form("Slice", 1, X, starts=[1], ends=[2**31 - 1], axes=[2]),
    form("Slice", 10, X, const(1), const(2**63 - 1), const(2)),
    form("Slice", (10, 11, 13), X, const(-1, 5), const(-100, 0), const(2, 1), const(-2, -1)),
    form("Slice", (11, 13), X, const(1, 0), const(3, -1), const(-1, -2)),
    form("Slice", 13, X, const(0), const(-(2**63)), const(1), const(-1)),
    form("Slice", 13, X, const(3), const(1)),
    form("Slice", 13, X, const(-9, -9), const(-9, 9), const(2, 1), const(-1, 1)),
    form("Slice", 13, f32(0, 3), const(2, 0), const(0, 3), const(1, 0), const(-1, -2)),
    form("Slice", 13, X, const(0, 0), const(2, 3), None, const(1, 2)),
    form("Slice", 13, X, *(const(x, dtype=np.int32) for x in (1, 4, 2))),
    fed(form("Slice", 13, X, const(1), const(4), const(2))),
)
def test_slice_takes_attributes_then_inputs(form: Form) -> None:
    check(form)


@each_form(
    giving(
        lambda x: (x[..., :1], x[..., 1:]), form("Split", 1, X, axis=2, split=[1, 3], outputs=2)
    ),
    form("Split", (2, 11), X, axis=2, split=[1, 3], outputs=2),
    form("Split", (2, 11), X, axis=1, outputs=3),
    form("Split", (11, 13), X, axis=-1, outputs=2),
    form("Split", 13, X, const(3, 1), axis=2, outputs=2),
    form("Split", 13, X, const(3, 0, 1), axis=2, outputs=3),
    form("Split", 18, X, axis=2, num_outputs=3, outputs=3),
    form("Split", 18, X, axis=1, num_outputs=2, outputs=2),
    form("Split", 18, f32(5), num_outputs=1),
    fed(form("Split", 18, X, const(1, 2), axis=1, outputs=2)),
)
def test_split_has_parts_given_or_equal(form: Form) -> None:
    check(form)


PADS = [0, 1, 2, 0, 1, 1]
CUTS = [0, -1, 2, 0, 1, -1]


@each_form(
    giving(
        lambda x: np.pad(x, [(0, 0), (1, 1), (2, 1)], constant_values=1.5),
        form("Pad", 1, X, paddings=PADS, value=1.5),
    ),
    *(form("Pad", 2, X, pads=PADS, mode=m) for m in ("constant", "reflect", "edge")),
    form("Pad", 2, X, pads=CUTS, value=1.5),
    *(form("Pad", (11, 13), X, const(*PADS), mode=m) for m in ("constant", "reflect", "edge")),
    form("Pad", (11, 13), X, const(*CUTS), scalar(2.5)),
    form("Pad", 13, X, const(*CUTS), mode="edge"),
    form("Pad", 13, X, const(*CUTS), mode="reflect"),
    form("Pad", 13, i64(3), const(1, 2), const(7)),
    form("Pad", 13, u8(3), const(1, 2), scalar(7, np.uint8), high=255),
    form("Pad", 13, boolean(3), const(1, 2), scalar(True, np.bool_)),
    form("Pad", 13, f32(0, 3), const(1, 0, 1, 0), scalar(3)),
    form("Pad", 13, X, const(0, 0, 0, 0, 0, 0)),
    form("Pad", 13, X, const(-1, 0, 0, -1, 0, 1)),
    form("Pad", 18, X, const(1, 2, 3, 4), None, const(-1, 0)),
    form("Pad", 18, X, const(1, 2), scalar(1), const(1, dtype=np.int32)),
    form("Pad", 19, X, const(0, 1, 2, 0, 3, 5), mode="wrap"),
    form("Pad", 19, X, const(0, 4, 9, 0, 3, 9), mode="wrap"),
    fed(form("Pad", 13, X, const(*PADS), scalar(2))),
)
def test_pad_takes_attributes_then_inputs(form: Form) -> None:
    check(form)


@each_form(
    giving(lambda x, y: np.concatenate([x, y], 1), form("Concat", 1, X, X)),
    form("Concat", (4, 11, 13), X, f32(2, 1, 4), axis=1),
    form("Concat", 11, X, X, axis=-3),
    form("Concat", 13, i64(2), i64(0), i64(3), axis=0),
    form("Concat", 13, X, axis=0),
    form("Concat", 13, string(2), string(1), axis=0),
)
def test_concat(form: Form) -> None:
    check(form)


@each_form(
    giving(
        lambda x, *_: np.tile(x, (1, 2, 1)),
        form("Tile", 1, X, scalar(2), const(1, dtype=np.float32)),
    ),
    form("Tile", (6, 13), X, const(2, 1, 3)),
    form("Tile", 13, X, const(0, 1, 1)),
    form("Tile", 13, f32(), const()),
    form("Expand", (8, 13), f32(2, 1, 4), const(5, 2, 3, 1)),
    form("Expand", 13, f32(3, 1), const(4)),
    form("Expand", 13, f32(), const(2, 0)),
    fed(form("Tile", 13, X, const(1, 2, 1))),
    fed(form("Expand", 13, f32(1), const(2, 3))),
)
def test_repetitions(form: Form) -> None:
    check(form)


@each_form(
    form("Transpose", (1, 13, 21), X),
    form("Transpose", (1, 13), X, perm=[1, 2, 0]),
    form("Transpose", 13, f32()),
    form("Identity", (1, 13, 14, 16), X),
    form("Shape", (1, 13, 15, 21), X),
    form("Shape", 15, X, start=1),
    form("Shape", 15, X, start=-2, end=-1),
    form("Shape", 15, X, start=-9, end=9),
    form("Shape", 15, X, start=2, end=1),
    form("Size", (1, 13), X),
    form("Size", 13, f32(0, 3)),
    form("Size", 13, f32()),
)
def test_transposes_and_shapes(form: Form) -> None:
    check(form)


@each_form(
    form("DepthToSpace", (1, 11, 13), f32(2, 8, 2, 3), blocksize=2),
    *(form("DepthToSpace", (11, 13), f32(2, 8, 2, 3), blocksize=2, mode=m) for m in ("DCR", "CRD")),
    form("DepthToSpace", 13, f32(1, 9, 1, 2), blocksize=3, mode="CRD"),
    form("DepthToSpace", 28, f32(1, 4, 2, 3), blocksize=2, mode="CRD"),
    form("SpaceToDepth", (1, 13), f32(2, 2, 4, 6), blocksize=2),
    form("SpaceToDepth", 28, f32(2, 2, 4, 6), blocksize=2),
)
def test_blocks_of_pixels_are_channels(form: Form) -> None:
    check(form)


@each_form(
    giving(lambda x: x, form("Dropout", 1, X, ratio=0.3, is_test=1)),
    giving(lambda x: (x, np.ones_like(x)), form("Dropout", 1, X, is_test=1, outputs=2)),
    giving(lambda x: x, form("Dropout", 6, X, ratio=0.3, is_test=1)),
    form("Dropout", (7, 10), X, ratio=0.3),
    giving(lambda x: (x, np.ones_like(x)), form("Dropout", 7, X, outputs=2)),
    giving(lambda x: (x, np.ones_like(x, bool)), form("Dropout", 10, X, outputs=2)),
    form("Dropout", (12, 13, 22), X, outputs=2),
    form("Dropout", (12, 13), X, scalar(0.5), scalar(False, np.bool_), outputs=2),
    form("Dropout", 13, X, scalar(0.0), scalar(True, np.bool_), outputs=2),
    form("Dropout", 13, f16(2, 3), scalar(0.5, np.float16), seed=3),
    fed(form("Dropout", 13, X, scalar(0.5), scalar(False, np.bool_))),
)
def test_dropout_drops_nothing_in_inference(form: Form) -> None:
    check(form)


@each_form(
    form("CenterCropPad", 18, f32(5, 8), const(8, 5)),
    form("CenterCropPad", 18, f32(5, 8), const(7), axes=[-1]),
)
def test_crops(form: Form) -> None:
    check(form)
