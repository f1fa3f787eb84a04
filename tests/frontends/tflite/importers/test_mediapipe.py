"""MediaPipe's custom ops, by what they mean: LiteRT does not have them."""

from __future__ import annotations

import struct

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from flatbuffers import flexbuffers

import afterglow as ag
from afterglow.support.errors import ModelError, UnsupportedError
from tests.frontends.tflite.build import Array, Tensor, constant, one_op, run_litert

RNG = np.random.default_rng(3)


def _floats(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def _run(op: str, feeds: list[Array], custom: bytes, version: int = 2) -> Array:
    tensors = [Tensor(f"x{index}", feed.shape) for index, feed in enumerate(feeds)]
    data = one_op(op, tensors, [Tensor("y")], custom=custom, version=version)
    found = ag.compile(data, backend="interpreter")(*feeds)
    assert isinstance(found, np.ndarray)
    return found


@pytest.mark.parametrize("padding", [1, 2])
def test_a_transposed_convolution_with_a_bias(padding: int) -> None:
    x, weight, bias = _floats(1, 3, 4, 5), _floats(2, 3, 2, 5), _floats(2)
    found = _run("Convolution2DTransposeBias", [x, weight, bias], struct.pack("<3i", padding, 2, 2))
    shape = constant("shape", np.array(found.shape, np.int32))
    tensors = [shape, constant("w", weight), Tensor("x", x.shape), constant("b", bias)]
    fields = {"padding": padding - 1, "stride_w": 2, "stride_h": 2}
    options = "TransposeConvOptions"
    theirs = one_op("TRANSPOSE_CONV", tensors, [Tensor("y")], options, version=3, **fields)
    np.testing.assert_allclose(found, run_litert(theirs, [x])[0], 1e-5, 1e-5)


MATRIX = np.array(
    [[[0.5, 0.2, 0, 1.5], [-0.3, 0.9, 0, 0.25], [0, 0, 1, 0], [0, 0, 0, 1]]], np.float32
)


@pytest.mark.parametrize("count", [2, 3])
def test_landmarks_are_moved_by_a_matrix(count: int) -> None:
    x = _floats(1, 5, count)
    expected = x.copy()
    expected[..., :2] = x[..., :2] @ MATRIX[0, :2, :2].T + MATRIX[0, :2, 3]
    np.testing.assert_allclose(_run("TransformLandmarks", [x, MATRIX], b""), expected, 1e-5)


def test_an_image_is_sampled_where_a_matrix_takes_its_pixels() -> None:
    x = _floats(1, 6, 7, 2)
    rows, columns = np.mgrid[:4, :5] + 0.5
    across = MATRIX[0, 0, 0] * columns + MATRIX[0, 0, 1] * rows + MATRIX[0, 0, 3] - 0.5
    down = MATRIX[0, 1, 0] * columns + MATRIX[0, 1, 1] * rows + MATRIX[0, 1, 3] - 0.5
    expected = np.zeros((1, 4, 5, 2), np.float32)
    for place in np.ndindex(4, 5):
        u, v = across[place], down[place]
        if 0 <= u <= 6 and 0 <= v <= 5:
            left, top = min(int(u), 5), min(int(v), 4)
            a, b = u - left, v - top
            square = x[0, top : top + 2, left : left + 2]
            upper, lower = (row[0] * (1 - a) + row[1] * a for row in square)
            expected[0][place] = upper * (1 - b) + lower * b
    assert (expected == 0).all(axis=-1).any()
    custom = bytes(flexbuffers.Dumps({"output_height": 4, "output_width": 5}))
    found = _run("TransformTensorBilinear", [x, MATRIX], custom)
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def _crop_options() -> dict[str, object]:
    return {
        "left_rotation_idx": 1,
        "output_height": 8,
        "output_width": 4,
        "right_rotation_idx": 3,
        "scale_x": 1.5,
        "scale_y": 1.25,
        "subset_idxs": [0, 2, 4],
        "target_rotation_radians": 0.25,
    }


def _shift(x: float, y: float) -> Array:
    matrix = np.eye(4)
    matrix[:2, 3] = x, y
    return matrix


def _turn(angle: float) -> Array:
    matrix = np.eye(4)
    matrix[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return matrix


def test_a_crop_around_landmarks_is_a_matrix() -> None:
    x = _floats(1, 5, 3)
    across, down = x[0, 3, :2] - x[0, 1, :2]
    angle = 0.25 - np.arctan2(down, across)
    turned = x[0, [0, 2, 4], :2] @ _turn(angle)[:2, :2].T
    low, high = turned.min(axis=0), turned.max(axis=0)
    centre = _turn(-angle)[:2, :2] @ ((low + high) / 2)
    scale = np.diag([1.5 * (high - low)[0] / 4, 1.25 * (high - low)[1] / 8, 1, 1])
    expected = _shift(*centre) @ _turn(-angle) @ scale @ _shift(-2, -4)
    custom = bytes(flexbuffers.Dumps(_crop_options()))
    found = _run("Landmarks2TransformMatrix", [x], custom)
    np.testing.assert_allclose(found, expected[np.newaxis], 1e-4, 1e-5)


def test_other_versions_and_malformed_options_are_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        _run("TransformLandmarks", [_floats(1, 5, 2), MATRIX], b"", version=1)
    assert caught.value.what == "version 1 of it is not supported, 2 is"
    with pytest.raises(ModelError) as malformed:
        _run("TransformTensorBilinear", [_floats(1, 5, 2, 1), MATRIX], b"\1\2\3")
    assert malformed.value.what == "attribute 'output_height' is missing"
