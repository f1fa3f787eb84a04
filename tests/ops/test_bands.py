"""The law of `Op.band`: what it says about a part of a result gives that part."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from afterglow.graph import Cut, Op, run_op
from afterglow.graph.op import result_types
from afterglow.ops.convolution import Conv, ConvTranspose
from afterglow.ops.image import Coordinates, Interpolation, Resize, Rounding
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, Expand, Pad, PadMode, Reshape, Slice, Transpose
from afterglow.ops.pooling import AvgPool, LpPool, MaxPool, MaxPoolWithIndices
from afterglow.ops.shuffle import DepthToSpace, SpaceToDepth
from afterglow.testing.arrays import assert_close
from afterglow.testing.cases import CASES
from afterglow.testing.cases.case import Case, case, f32, i32
from afterglow.types import Array, TensorType
from tests.ops.test_laws import taken

EVERYWHERE: list[tuple[Case, tuple[int, ...]]] = [
    (case(Conv((1, 1), (1, 1, 1, 1), (1, 1)), f32(1, 8, 5, 3), f32(4, 3, 3, 3)), (1, 2, 3)),
    (case(Conv((2, 2), (2, 1, 1, 2), (2, 1)), f32(2, 11, 9, 2), f32(4, 3, 3, 2), f32(4)), (1, 2)),
    (case(Conv((1, 1), (1, 1, 1, 1), (1, 1), 4), i32(1, 6, 6, 4), i32(4, 3, 3, 1)), (1, 2, 3)),
    (case(Conv((3,), (1, 0), (1,)), i32(1, 13, 2), i32(3, 2, 2)), (1, 2)),
    (case(Conv((1,) * 3, (1,) * 6, (1,) * 3), f32(1, 4, 3, 3, 2), f32(2, 3, 3, 3, 2)), (1, 2, 3)),
    (case(ConvTranspose((2, 2), (0, 0, 0, 0), (1, 1)), f32(1, 5, 4, 3), f32(3, 2, 2, 2)), (1, 2)),
    (case(ConvTranspose((2, 3), (1, 2, 1, 0), (1, 2)), f32(1, 5, 4, 3), f32(3, 3, 3, 2)), (1, 2)),
    (case(ConvTranspose((3,), (0, 1), (1,), 1, (2,)), i32(1, 5, 2), i32(2, 2, 2)), (2,)),
    (case(MaxPool((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)), f32(1, 9, 9, 2)), (1, 2, 3)),
    (case(MaxPool((2, 2), (2, 2), (0, 0, 0, 0), (1, 1), True), i32(1, 7, 7, 2)), (1, 2, 3)),
    (case(AvgPool((3, 3), (2, 2), (1, 1, 1, 1), (1, 1), True, True), f32(1, 8, 8, 2)), (1, 2, 3)),
    (case(AvgPool((3, 2), (1, 2), (1, 0, 2, 1), (1, 1)), f32(1, 7, 8, 2)), (1, 2, 3)),
    (case(LpPool((3, 3), (2, 2), (1, 1, 0, 0), (1, 1)), f32(1, 8, 8, 2)), (1, 2, 3)),
    (case(MatMul(transpose_rhs=True), f32(2, 5, 3), f32(2, 4, 3)), (0, 1, 2)),
    (case(Reshape((1, 6, 8)), f32(1, 6, 2, 4)), (1,)),
    (case(Reshape((2, 3, 4)), f32(6, 4)), (2,)),
    (case(Reshape((1, 6, 2, 4)), f32(1, 12, 4)), (1, 3)),
    (case(Transpose((0, 2, 3, 1)), f32(1, 3, 5, 4)), (1, 2, 3)),
    (case(Expand((2, 3, 4)), f32(3, 1)), (0, 1, 2)),
    (case(Concat(-1), f32(1, 4, 2), f32(1, 4, 3)), (1,)),
    (case(Slice((4, 0), (3, 4), (-2, 1)), f32(5, 4)), (0, 1)),
    (case(Slice((1, 1), (2, 3), (3, 1)), f32(5, 4)), (0, 1)),
    (case(Pad((1, 0), (1, 0)), f32(4, 4)), (1,)),
    (case(Pad((1, 0), (1, 0), PadMode.REFLECT), f32(4, 4)), (1,)),
    (case(Resize((1, 8, 6), (1.0, 2.0, 3.0)), f32(1, 4, 2)), (1, 2)),
    (
        case(
            Resize(
                (1, 8, 4),
                (1.0, 2.0, 1.0),
                coordinates=Coordinates.ASYMMETRIC,
                rounding=Rounding.FLOOR,
            ),
            f32(1, 4, 4),
        ),
        (1, 2),
    ),
    (case(DepthToSpace(2), f32(1, 3, 4, 8)), (1, 2)),
    (case(SpaceToDepth(2), f32(1, 6, 4, 3)), (1, 2)),
]
"""Cases with the axes along which every part must have an answer."""


def cuts(axis: int, extent: int) -> Iterator[Cut]:
    """Parts at both ends, in the middle, of one element, and of all but one."""
    for start, stop in {(0, extent // 2), (extent // 2, extent), (1, extent - 1), (0, 1)}:
        if start < stop:
            yield Cut(axis, start, stop)


def part(x: Array | None, cut: Cut | None) -> Array | None:
    if x is None or cut is None:
        return x
    return taken(x, cut.axis, slice(cut.start, cut.stop))


def check(case: Case, cut: Cut) -> bool:
    """Whether there is an answer; if so, it must be right."""
    results = result_types(case.op.infer(*case.types))
    band = case.op.band(cut, results[0], case.types)
    if band is None:
        return False
    operands = [part(x, c) for x, c in zip(case.inputs(), band.cuts, strict=True)]
    types = [None if x is None else TensorType.of(x) for x in operands]
    got = run_op(band.op, operands, result_types(band.op.infer(*types)))
    kept = slice(band.skip, band.skip + cut.extent)
    want = tuple(part(y, cut) for y in case.wanted())
    assert_close(tuple(taken(y, cut.axis, kept) for y in got), want, case.tolerance)
    return True


@pytest.mark.parametrize(("case", "axes"), EVERYWHERE, ids=str)
def test_every_part_along_these_axes_is_computed_alone(case: Case, axes: tuple[int, ...]) -> None:
    (result,) = result_types(case.op.infer(*case.types))
    for axis in axes:
        for cut in cuts(axis, result.shape[axis]):
            assert check(case, cut), cut


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_part_computed_alone_is_the_part_of_the_whole(case: Case) -> None:
    shape = result_types(case.op.infer(*case.types))[0].shape
    every = [cut for axis, extent in enumerate(shape) for cut in cuts(axis, extent)]
    if not [cut for cut in every if 0 not in shape and check(case, cut)]:
        pytest.skip("cannot be cut")


@pytest.mark.parametrize(
    ("op", "x", "cut"),
    [
        (Pad((3,), (0,)), f32(4), Cut(0, 0, 2)),
        (Pad((1,), (1,), PadMode.EDGE), f32(4), Cut(0, 0, 2)),
        (Concat(0), f32(4), Cut(0, 0, 2)),
        (Reshape((12,)), f32(3, 4), Cut(0, 0, 6)),
        (MaxPool((1,), (1,), (2, 0), (1,)), f32(1, 4, 1), Cut(1, 0, 1)),
        (MaxPoolWithIndices((2,), (1,), (0, 0), (1,)), f32(1, 4, 1), Cut(1, 0, 1)),
        (Resize((7,), (1.75,), mode=Interpolation.LINEAR), f32(4), Cut(0, 0, 2)),
        (DepthToSpace(2), f32(1, 2, 2, 8), Cut(3, 0, 1)),
    ],
    ids=str,
)
def test_what_cannot_be_computed_alone_is_declined(op: Op, x: TensorType, cut: Cut) -> None:
    result = result_types(op.infer(x))[0]
    assert op.band(cut, result, [x]) is None
