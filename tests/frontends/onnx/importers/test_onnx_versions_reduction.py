"""Reductions where versions of ONNX differ."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.testing.cases.case import boolean, f16, f32, f64, i8, i32, i64, u8
from tests.frontends.onnx.one_node import Form, check, const, each_form, fed, form, giving

INFINITY = np.inf
X = f32(2, 3, 4)
NAMES = ("Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
OTHERS = [f"Reduce{name}" for name in NAMES]
ALL = ["ReduceSum", *OTHERS]


@each_form(
    *(form(op, (1, 11), X, axes=[0, 2], keepdims=0, low=0.1) for op in ALL),
    *(form(op, 13, X, axes=[-1], low=0.1) for op in OTHERS),
    *(form(op, 11, X, axes=[-2, 0], low=0.1) for op in ALL),
    form("ReduceSum", 13, X, const(-1)),
    *(form(op, 18, X, const(-1, 0), keepdims=0, low=0.1) for op in ALL),
    fed(form("ReduceSum", 13, X, const(1))),
    fed(form("ReduceMax", 18, X, const(1))),
)
def test_axes_are_an_attribute_then_an_input(form: Form) -> None:
    check(form)


@each_form(
    *(form(op, (1, 11, 13, 18), X, low=0.1) for op in ALL),
    *(form(op, 18, X, keepdims=0, low=0.1) for op in ALL),
    *(form(op, 18, X, const(), low=0.1) for op in ALL),
    form("ReduceSum", 13, X, const(), keepdims=0),
)
def test_no_axes_mean_all(form: Form) -> None:
    check(form)


@each_form(
    *(form(op, 18, X, noop_with_empty_axes=1, low=0.1) for op in ALL),
    *(form(op, 18, X, const(), noop_with_empty_axes=1, low=0.1) for op in ALL),
    form("ReduceSum", 13, X, noop_with_empty_axes=1),
)
def test_no_axes_mean_none_if_the_node_says_so(form: Form) -> None:
    check(form)


@each_form(
    *(form(op, 13, i32(2, 3), low=1, high=5) for op in ALL),
    *(form(op, 13, i64(2, 3), keepdims=0, low=1, high=5) for op in ("ReduceSum", "ReduceProd")),
    *(form(op, 13, f64(2, 3), low=0.1) for op in ALL),
    *(
        form(op, 12, dtype(5), low=-9, high=9)
        for op in ("ReduceMax", "ReduceMin")
        for dtype in (i8, u8)
    ),
    *(form(op, 20, boolean(2, 3), const(1)) for op in ("ReduceMax", "ReduceMin")),
    form("ReduceSum", 13, f16(64)),
    form("ReduceMean", 13, f16(2, 3)),
    form("ReduceMean", 13, np.array([-3, 0, 1, 0], np.int32)),
)
def test_element_types(form: Form) -> None:
    check(form)


@each_form(
    *(form(op, 18, f32(2, 0, 3), const(1)) for op in ("ReduceSum", "ReduceProd", "ReduceL1")),
    giving(lambda *_: np.full((2, 1), INFINITY), form("ReduceMin", 18, f64(2, 0), const(1))),
    *(
        giving(lambda *_: np.full((2, 1), -INFINITY), form(op, 18, f64(2, 0), const(1)))
        for op in ("ReduceMax", "ReduceLogSum", "ReduceLogSumExp")
    ),
    *(form(op, 18, f32(), low=0.1) for op in ALL),
)
def test_nothing_to_reduce(form: Form) -> None:
    check(form)


def _row(*numbers: float) -> np.ndarray:
    return np.array([numbers, [1, 2, 3]], np.float32)


@each_form(
    *(
        form("ReduceLogSumExp", 18, x, const(1))
        for x in (
            _row(-INFINITY, 1, 2),
            _row(INFINITY, 1, 2),
            _row(-INFINITY, -INFINITY, -INFINITY),
            _row(800, 801, 802),
            _row(-800, -801, -802),
        )
    ),
    *(form(op, 18, _row(1, np.nan, 2), const(1)) for op in ("ReduceSum", "ReduceMean")),
)
def test_large_and_special_numbers(form: Form) -> None:
    check(form)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@each_form(
    form("", (1, 11, 12, 13), X),
    form("", (1, 13), X, axis=1, keepdims=0),
    form("", (11, 13), X, axis=-1),
    form("", (12, 13), np.array([[2, 2, 1, 1]], np.float32), axis=1),
    form("", (12, 13), np.array([[2, 2, 1, 1]], np.float32), axis=1, select_last_index=1),
    form("", 13, i32(3, 4), axis=1),
    form("", 13, f32(5), keepdims=0),
)
def test_places_of_extremes(op: str, form: Form) -> None:
    check(Form(op, form.version, form.inputs, form.attributes))
