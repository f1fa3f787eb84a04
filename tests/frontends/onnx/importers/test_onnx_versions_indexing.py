"""Ops that pick, put, search and count, where versions of ONNX differ."""

from __future__ import annotations

import numpy as np

from afterglow.testing.cases.case import boolean, f16, f32, f64, i32, i64, string
from tests.frontends.onnx.one_node import Form, check, const, each_form, fed, form, giving, scalar

X = f32(2, 3, 4)


def ints(*numbers: object) -> np.ndarray:
    return np.array(numbers, np.int64)


@each_form(
    form("Gather", (1, 11, 13), X, ints([0, 2], [1, 1]), axis=1),
    form("Gather", 11, X, ints(-1, 0), axis=-1),
    form("Gather", 13, X, np.array(1, np.int32)),
    form("Gather", 13, string(3), ints(2, 0)),
    form("Gather", 13, X, ints()),
    form("GatherElements", (11, 13), X, ints([[0, 1], [1, 0]]), axis=1),
    form("GatherElements", 13, X, np.array([[[-1, 0, 2, 1]]], np.int32), axis=-2),
)
def test_gathers(form: Form) -> None:
    check(form)


@each_form(
    form("GatherND", (11, 12, 13), X, ints([0, 1], [1, 2])),
    form("GatherND", 11, X, ints([0, 1, 3], [-1, 2, -4])),
    form("GatherND", (12, 13), X, ints([1], [0]), batch_dims=1),
    form("GatherND", 12, X, ints([[0, 1], [2, 3]], [[1, 1], [0, 0]]), batch_dims=1),
    form("GatherND", 13, f32(2, 2, 3), ints([[0], [1]], [[2], [1]]), batch_dims=2),
)
def test_gathers_by_tuples(form: Form) -> None:
    check(form)


PLACES = ints([[0, 1], [2, 0]])
AGAIN = ints([[0, 0], [0, 0]])


@each_form(
    form("Scatter", (9, 10), X, PLACES, f32(1, 2, 2), axis=1),
    form("ScatterElements", (11, 13, 16, 18), X, PLACES, f32(1, 2, 2), axis=1),
    form("ScatterElements", 13, X, -1 - PLACES, f32(1, 2, 2), axis=-1),
    *(
        form("ScatterElements", 16, X, AGAIN, f32(1, 2, 2), axis=1, reduction=r)
        for r in ("none", "add", "mul")
    ),
    *(
        form("ScatterElements", 18, X, AGAIN, f32(1, 2, 2), axis=1, reduction=r)
        for r in ("add", "mul", "max", "min")
    ),
    form("ScatterElements", 18, i64(4), ints(1, 1, 2), i64(3), reduction="add"),
    form("ScatterElements", 18, f16(4), ints(1, 1, 2), f16(3), reduction="max"),
)
def test_scatters_combine_what_meets(form: Form) -> None:
    check(form)


@each_form(
    form("ScatterND", (11, 13, 16, 18), X, ints([0, 1], [1, 2]), f32(2, 4)),
    form("ScatterND", 11, X, ints([-1]), f32(1, 3, 4)),
    *(form("ScatterND", 16, X, ints([0], [0]), f32(2, 3, 4), reduction=r) for r in ("add", "mul")),
    *(
        form("ScatterND", 18, X, ints([0, 1], [0, 1]), f32(2, 4), reduction=r)
        for r in ("add", "mul", "max", "min")
    ),
    form("TensorScatter", 24, f32(2, 5, 3), f32(2, 2, 3), ints(1, 3)),
    form("TensorScatter", 24, f32(2, 5, 3), f32(2, 2, 3), ints(4, 3), mode="circular"),
)
def test_scatters_by_tuples(form: Form) -> None:
    check(form)


NUMBERS = np.array([1, -1, 9], np.float32)


@each_form(
    form("OneHot", (9, 11), ints(0, 2, 1), const(3), const(5, 7, dtype=np.float32)),
    form("OneHot", 9, ints([0, 2], [9, 1]), scalar(3, np.int64), const(0, 1), axis=0),
    form("OneHot", 11, ints([0, -1], [-3, -9]), const(3), const(0, 1), axis=1),
    giving(
        lambda *_: ints([5, 5, 5], [7, 5, 5], [5, 7, 5]),
        form("OneHot", 11, NUMBERS, const(3, dtype=np.float32), const(5, 7), axis=0),
    ),
    form("OneHot", 11, ints(0, 1), const(2), np.array(["off", "on"], object)),
    fed(form("OneHot", 11, ints(0, 2, 1), const(3), const(0, 1))),
)
def test_one_hot(form: Form) -> None:
    check(form)


TIES = np.array([[3, 1, 3, 2], [0, 0, 0, 0]], np.float32)


@each_form(
    form("TopK", 1, X, k=2, axis=1, outputs=2),
    form("TopK", (10, 11, 24), X, const(2), axis=1, outputs=2),
    form("TopK", 11, X, const(2), axis=-2, largest=0, outputs=2),
    form("TopK", 11, X, const(4), outputs=2),
    form("TopK", 11, TIES, const(3), outputs=2),
    form("TopK", 11, TIES, const(3), largest=0, outputs=2),
    form("TopK", 11, i64(7), const(3), low=-9, high=9, outputs=(True, False)),
    form("TopK", 11, X, const(0), outputs=2),
    form("TopK", 11, X, const(2), sorted=1, outputs=(False, True)),
    fed(form("TopK", 10, X, const(1), outputs=2)),
    *(
        form("TopK", 11, given, const(k), axis=axis, sorted=0, largest=largest, outputs=2)
        for given, axis, counts in (
            (f32(2, 40), 1, (1, 3, 4, 13, 16, 39, 40)),
            (f32(100, 3), 0, (28, 29, 99)),
            (np.arange(60).reshape(1, 60) * 7 % 11, -1, (5, 20, 59)),
        )
        for k in counts
        for largest in (0, 1)
    ),
)
def test_top_k_takes_its_count_as_an_attribute_then_as_an_input(form: Form) -> None:
    check(form)


@each_form(
    form("CumSum", (11, 14), X, scalar(1, np.int64)),
    form("CumSum", 11, X, scalar(-1, np.int32), exclusive=1),
    form("CumSum", 14, X, const(0), reverse=1),
    form("CumSum", 14, i64(5), scalar(0, np.int32), exclusive=1, reverse=1),
    form("CumSum", 14, f64(2, 0), scalar(1, np.int64)),
    form("CumProd", 26, X, scalar(1, np.int64)),
    form("CumProd", 26, X, scalar(-1, np.int64), exclusive=1, reverse=1),
    fed(form("CumSum", 14, X, scalar(1, np.int64))),
)
def test_running_sums(form: Form) -> None:
    check(form)


@each_form(
    form("ReverseSequence", 10, f32(4, 3), ints(4, 1, 2)),
    form("ReverseSequence", 10, f32(3, 4, 2), ints(4, 1, 2), batch_axis=0, time_axis=1),
    form("ReverseSequence", 28, i32(4, 2), ints(3, 4)),
)
def test_reversed_sequences(form: Form) -> None:
    check(form)


@each_form(
    form("Trilu", 14, X),
    form("Trilu", 14, X, scalar(1, np.int64), upper=0),
    form("Trilu", 14, X, const(-1), upper=1),
    form("Trilu", 14, X, scalar(-5, np.int64), upper=0),
    form("Trilu", 14, i64(3, 3), scalar(9, np.int64)),
    form("Trilu", 14, boolean(3, 3)),
    form("Trilu", 14, f32(0, 3)),
    fed(form("Trilu", 14, X, scalar(1, np.int64))),
)
def test_triangles(form: Form) -> None:
    check(form)


@each_form(
    form("Compress", (9, 11), X, np.array([True, False, True]), axis=1),
    form("Compress", 11, X, np.array([False, True]), axis=-1),
    form("Compress", 9, X, np.array([False, True, True, False, True])),
    form("Compress", 11, f32(3), np.array([False, False]), axis=0),
    form("NonZero", (9, 13), i64(2, 3)),
    form("NonZero", 13, boolean(2, 3, 2)),
    form("NonZero", 13, np.array(3, np.int64)),
    form("NonZero", 13, f32(0, 2)),
)
def test_what_data_decides(form: Form) -> None:
    check(form)


REPEATED = np.array([2, 1, 1, 3, 4, 3], np.float32)
ROWS = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4], [1, 0, 0]], np.float32)


@each_form(
    form("Unique", 11, REPEATED, outputs=4),
    form("Unique", 11, REPEATED, sorted=0, outputs=4),
    form("Unique", 11, ROWS, axis=0, outputs=4),
    form("Unique", 11, ROWS, axis=0, sorted=0, outputs=4),
    form("Unique", 11, ROWS, axis=-1, outputs=4),
    form("Unique", 11, ROWS, outputs=(True, False, True)),
    form("Unique", 11, np.array([3, 1, 3], np.int64)),
    form("Unique", 11, np.array(["b", "a", "b"], object), outputs=4),
    form("Unique", 28, REPEATED, sorted=0, outputs=4),
)
def test_unique_elements_and_slices(form: Form) -> None:
    check(form)
