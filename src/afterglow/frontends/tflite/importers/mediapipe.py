"""Custom ops of MediaPipe's models, of which its package has the definitions.

Landmarks are points, of which a matrix moves the first two coordinates; an image is cropped around
them by the matrix that takes the crop's pixels to the image's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.tflite.importers.elementwise import angle_of
from afterglow.frontends.tflite.node import VERSION, TfliteNode
from afterglow.frontends.tflite.registry import CUSTOM, tflite_op
from afterglow.graph import Value
from afterglow.ops.convolution import ConvTranspose
from afterglow.ops.elementwise import Add, And, Div, LessEqual, Mul, Neg, Sub, Where
from afterglow.ops.functions import Cos, Sin
from afterglow.ops.grid_sample import GridSample
from afterglow.ops.image import Interpolation
from afterglow.ops.indexing import Gather, Iota
from afterglow.ops.movement import Concat, Expand, Transpose, slice_axis
from afterglow.ops.reduction import ReduceMax, ReduceMin
from afterglow.ops.sampling import Border
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.types.dtype import f32

_SAME = 1
_PADDINGS = (1, 2)


@tflite_op("Convolution2DTransposeBias", domain=CUSTOM)
def transpose_conv_bias(n: TfliteNode) -> Value:
    """A transposed convolution by a weight [O, height, width, C], with a bias."""
    data = bytes(n.integers("custom_options"))
    if len(data) < 12:
        raise ModelError(f"its options have {len(data)} bytes, padding and strides take 12")
    padding, width, height = struct.unpack_from("<3i", data)
    if padding not in _PADDINGS or min(width, height) < 1:
        raise ModelError(f"padding {padding} or strides ({height}, {width}) cannot be")
    x, weight, strides = n[0], n[1], (height, width)
    n.extents(x, 4)
    kernel = n.extents(weight, 4)[1:3]
    rows = zip(kernel, x.type.shape[1:3], strides, strict=True)
    totals = [max(0, k - (e - 1) % stride - 1) * (padding == _SAME) for k, e, stride in rows]
    pads = (*(total // 2 for total in totals), *(total - total // 2 for total in totals))
    weight = n.emit(Transpose((3, 1, 2, 0)), weight)
    return n.emit(ConvTranspose(strides, pads, (1, 1)), x, weight, n.get(2))


@tflite_op("Landmarks2TransformMatrix", domain=CUSTOM)
def landmarks_to_matrix(n: TfliteNode) -> Value:
    """The matrix that takes a crop around some landmarks, turned upright, to where they are."""
    _refuse_first_version(n)
    landmarks = n[0]
    n.extents(landmarks, 3)
    left, right = (_point(n, landmarks, n.integer(f"{side}_rotation_idx")) for side in _SIDES)
    across, down = (n.emit(Sub(), far, near) for far, near in zip(right, left, strict=True))
    target = n.full(n.number("target_rotation_radians"), f32)
    turn = n.emit(Sub(), target, angle_of(n, down, across))
    cos, sin = n.emit(Cos(), turn), n.emit(Sin(), turn)
    xs, ys = _subset(n, landmarks)
    turned = (_sum(n, (cos, xs), (n.emit(Neg(), sin), ys)), _sum(n, (sin, xs), (cos, ys)))
    high, low = ([n.emit(op((0,), keepdims=False), each) for each in turned] for op in _EXTREMES)
    half = n.full(0.5, f32)
    pairs = [*zip(high, low, strict=True)]
    middle = [n.emit(Mul(), n.emit(Add(), top, base), half) for top, base in pairs]
    sizes = [n.emit(Sub(), top, base) for top, base in pairs]
    centre = (
        _sum(n, (cos, middle[0]), (sin, middle[1])),
        _sum(n, (n.emit(Neg(), sin), middle[0]), (cos, middle[1])),
    )
    return _matrix(n, cos, sin, sizes, centre)


_SIDES = ("left", "right")
_EXTREMES = (ReduceMax, ReduceMin)


def _matrix(
    n: TfliteNode, cos: Value, sin: Value, sizes: Sequence[Value], centre: Sequence[Value]
) -> Value:
    """Shift the crop's middle to 0, scale it, turn it back, and shift it to its centre."""
    extents = (_extent(n, "output_width"), _extent(n, "output_height"))
    if min(extents) < 1:
        raise ModelError(f"a crop of {extents} has no pixels")
    factors = (n.number("scale_x") / extents[0], n.number("scale_y") / extents[1])
    pairs = zip(sizes, factors, strict=True)
    scales = [n.emit(Mul(), size, n.full(factor, f32)) for size, factor in pairs]
    halves = [n.full(-extent / 2, f32) for extent in extents]
    rows = []
    for terms, shift in zip(((cos, sin), (n.emit(Neg(), sin), cos)), centre, strict=True):
        scaled = [n.emit(Mul(), term, scale) for term, scale in zip(terms, scales, strict=True)]
        moved = _sum(n, *zip(scaled, halves, strict=True))
        rows += [*scaled, n.full(0, f32), n.emit(Add(), moved, shift)]
    rest = [n.full(number, f32) for number in (0, 0, 1, 0, 0, 0, 0, 1)]
    return reshaped(
        n, n.emit(Concat(0), *(reshaped(n, e, (1,)) for e in (*rows, *rest))), (1, 4, 4)
    )


@tflite_op("TransformTensorBilinear", domain=CUSTOM)
def transform_tensor(n: TfliteNode) -> Value:
    """An image sampled where a matrix takes the middles of the result's pixels; 0 outside."""
    _refuse_first_version(n)
    x = n[0]
    batch, height, width, _ = n.extents(x, 4)
    size = (_extent(n, "output_height"), _extent(n, "output_width"))
    if batch != 1 or min(*size, height, width) < 1:
        raise ModelError(f"{x.type} cannot be transformed to {size}")
    half = n.full(0.5, f32)
    steps = [n.emit(Add(), n.emit(Iota(shape, axis, f32)), half) for axis, shape in _grid(size)]
    places, inside, axes = [], None, []
    for row, extent in enumerate((width, height)):
        a, b, c = (_entry(n, n[1], row, column) for column in (0, 1, 3))
        place = n.emit(Add(), _sum(n, (a, steps[1]), (b, steps[0])), n.emit(Sub(), c, half))
        place = n.emit(Expand(size), place)
        last = n.full(extent - 1, f32)
        here = n.emit(
            And(), n.emit(LessEqual(), n.full(0, f32), place), n.emit(LessEqual(), place, last)
        )
        inside = here if inside is None else n.emit(And(), inside, here)
        axes.append(_relative(n, place, extent))
        places.append(place)
    grid = n.emit(Concat(3), *(reshaped(n, axis, (1, *size, 1)) for axis in axes))
    op = GridSample(Interpolation.LINEAR, Border.EDGE, align_corners=True)
    assert inside is not None
    seen = reshaped(n, inside, (1, *size, 1))
    return n.emit(Where(), seen, n.emit(op, x, grid), n.full(0, f32))


def _grid(size: tuple[int, int]) -> Sequence[tuple[int, tuple[int, int]]]:
    """The axis and shape of the numbers of rows, and of columns."""
    return (0, (size[0], 1)), (1, (1, size[1]))


def _relative(n: TfliteNode, place: Value, extent: int) -> Value:
    """A place among so many pixels as a number from -1 to 1."""
    if extent == 1:
        return n.emit(Mul(), place, n.full(0, f32))
    scaled = n.emit(Div(), place, n.full((extent - 1) / 2, f32))
    return n.emit(Sub(), scaled, n.full(1, f32))


@tflite_op("TransformLandmarks", domain=CUSTOM)
def transform_landmarks(n: TfliteNode) -> Value:
    """Landmarks of two or three coordinates, of which a matrix moves the first two."""
    _refuse_first_version(n)
    x = n[0]
    count = n.extents(x, 3)[2]
    if count not in (2, 3):
        raise ModelError(f"landmarks have 2 or 3 coordinates, got {x.type}")
    columns = [n.emit(slice_axis(x.type, 2, index, 1), x) for index in range(count)]
    moved = []
    for row in (0, 1):
        a, b, c = (_entry(n, n[1], row, column) for column in (0, 1, 3))
        moved.append(n.emit(Add(), _sum(n, (a, columns[0]), (b, columns[1])), c))
    return n.emit(Concat(2), *moved, *columns[2:])


def _extent(n: TfliteNode, name: str) -> int:
    extent = n.integer(name)
    if extent < 1:
        raise ModelError(f"attribute {name!r} must be positive, it is {extent}")
    return extent


def _refuse_first_version(n: TfliteNode) -> None:
    if n.count(VERSION, 1) != 2:
        raise UnsupportedError(f"version {n.count(VERSION, 1)} of it is not supported, 2 is")


def _sum(n: TfliteNode, *products: tuple[Value, Value]) -> Value:
    """a b + c d."""
    first, second = (n.emit(Mul(), *pair) for pair in products)
    return n.emit(Add(), first, second)


def _point(n: TfliteNode, landmarks: Value, index: int) -> tuple[Value, Value]:
    """The first two coordinates of a landmark."""
    _, count, width = landmarks.type.shape
    if not 0 <= index < count or width < 2:
        raise ModelError(f"there is no landmark {index} in {landmarks.type}")
    row = n.emit(slice_axis(landmarks.type, 1, index, 1), landmarks)
    x, y = (n.emit(slice_axis(row.type, 2, each, 1), row) for each in (0, 1))
    return reshaped(n, x, ()), reshaped(n, y, ())


def _subset(n: TfliteNode, landmarks: Value) -> tuple[Value, Value]:
    """The first two coordinates of those landmarks that the options list."""
    chosen = n.integers("subset_idxs", ())
    batch, count, width = landmarks.type.shape
    if not chosen or batch != 1 or width < 2 or not all(0 <= i < count for i in chosen):
        raise ModelError(f"landmarks {landmarks.type} have not all of those of the subset")
    places = n.integers_of(chosen, (len(chosen),))
    rows = n.emit(Gather(1), landmarks, places)
    x, y = (n.emit(slice_axis(rows.type, 2, each, 1), rows) for each in (0, 1))
    return reshaped(n, x, (len(chosen),)), reshaped(n, y, (len(chosen),))


def _entry(n: TfliteNode, matrix: Value, row: int, column: int) -> Value:
    if matrix.type.size != 16:
        raise ModelError(f"a matrix of 4 rows is needed, got {matrix.type}")
    flat = reshaped(n, matrix, (16,))
    return reshaped(n, n.emit(slice_axis(flat.type, 0, 4 * row + column, 1), flat), ())
