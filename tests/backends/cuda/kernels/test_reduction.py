"""Reduction kernels give what the ops say, in one stage or two, and compile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from afterglow.graph import Op
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Div
from afterglow.ops.reduction import ReduceMax, ReduceMin, ReduceProd, ReduceSum, Reduction
from afterglow.types import Array
from afterglow.types.dtype import f32
from tests.backends.cuda.kernels.jobs import EACH_ARCH, Made, array, check, compiled, source_for


def _made(op: Op, x: Array, order: Sequence[int] | None = None) -> Made:
    made = Made()
    made.add(op, made.given(x, order=order), anchor=True)
    return made


@pytest.mark.parametrize("op", [ReduceMax, ReduceMin])
def test_no_booleans_give_what_changes_none(op: type[Reduction]) -> None:
    check(_made(op((1,)), np.zeros((2, 0, 4), bool)))


@pytest.mark.parametrize("op", [ReduceSum, ReduceMax, ReduceMin, ReduceProd])
@pytest.mark.parametrize(
    ("shape", "axes", "order"),
    [
        ((3, 5), (1,), (0, 1)),
        ((3, 5), (0, 1), (0, 1)),
        ((3, 5), (), (0, 1)),
        ((2, 7, 7, 40), (1, 2), (0, 1, 2, 3)),
        ((4, 300, 3), (0, 2), (2, 0, 1)),
        ((3, 0), (1,), (0, 1)),
        ((1, 9000), (1,), (0, 1)),
    ],
)
def test_any_axes(
    op: type[Reduction], shape: tuple[int, ...], axes: tuple[int, ...], order: tuple[int, ...]
) -> None:
    x = array(*shape)
    x = 1 + x / 100 if op is ReduceProd else x
    for keepdims in (True, False):
        check(_made(op(axes, keepdims), x, order), 2e-5)


@pytest.mark.parametrize("op", [ReduceSum, ReduceMax, ReduceMin, ReduceProd])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f8"])
def test_element_types(op: type[Reduction], dtype: str) -> None:
    check(_made(op((1,)), array(3, 11, dtype=dtype)))


@pytest.mark.parametrize("op", [ReduceMax, ReduceMin])
def test_booleans(op: type[Reduction]) -> None:
    check(_made(op((1,)), array(40, 3) > 0))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("op", [ReduceMax, ReduceMin])
@pytest.mark.parametrize("axis", [0, 1])
def test_not_a_number_wins(op: type[Reduction], axis: int, dtype: str) -> None:
    x = array(4, 300, dtype=dtype)
    x[1, 7], x[2, 8], x[3, 9] = np.nan, -np.nan, np.inf
    check(_made(op((axis,)), x))


def test_programs_share_the_elements_of_few_results() -> None:
    made = _made(ReduceSum((0, 1, 2)), array(5, 70, 100))
    source = check(made, 1e-4)
    assert source.grid[1] > 1
    check(_made(ReduceMax((0, 1)), array(300, 100, 5)))


def test_the_mean_of_floats_of_16_bits_is_one_kernel() -> None:
    made = Made()
    wide = made.add(Cast(f32), made.given(array(2, 49, 40, dtype="f2")))
    total = made.add(ReduceSum((1,)), wide, anchor=True)
    made.add(Div(), total, made.given(np.array(49, np.float32)))
    assert len(check(made).parameters) == 3


@EACH_ARCH
def test_all_forms_compile(arch: int) -> None:
    forms = [
        _made(ReduceSum((0, 1)), array(70, 500)),
        _made(ReduceMax((1,)), array(2, 49, 40, dtype="f2")),
        _made(ReduceMin((1,)), array(2, 300, dtype="f8")),
        _made(ReduceProd((1,)), array(2, 30)),
        _made(ReduceMax((1,)), array(2, 30) > 0),
    ]
    sources = [source_for(made, arch) for made in forms]
    assert all(each.stack == 0 for each in compiled(*sources, arch=arch))
