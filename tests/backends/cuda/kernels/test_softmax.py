"""Softmax kernels give what the ops say, whatever the lines are like, and compile."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.softmax import LogSoftmax, Softmax
from tests.backends.cuda.kernels.jobs import EACH_ARCH, Made, array, check, compiled, source_for


@pytest.mark.parametrize("op", [Softmax, LogSoftmax])
@pytest.mark.parametrize(
    ("shape", "axis", "order"),
    [
        ((3, 5), -1, (0, 1)),
        ((2, 3, 5), 1, (0, 1, 2)),
        ((7, 100), -1, (1, 0)),
        ((2, 40, 50), 1, (0, 1, 2)),
        ((2, 17000), -1, (0, 1)),
        ((600, 40), 0, (0, 1)),
    ],
)
def test_lines_along_any_axis(
    op: type[Softmax | LogSoftmax], shape: tuple[int, ...], axis: int, order: tuple[int, ...]
) -> None:
    made = Made()
    made.add(op(axis), made.given(array(*shape), order=order), anchor=True)
    check(made)


@pytest.mark.parametrize("length", [9, 20000])
def test_steps_around_are_part_of_the_kernel(length: int) -> None:
    made = Made()
    x = made.add(Add(), made.given(array(3, length)), made.given(array(3, 1)))
    y = made.add(Softmax(-1), x, anchor=True)
    made.add(Relu(), made.add(Mul(), y, made.given(array(length))))
    assert len(check(made).parameters) == 4


@pytest.mark.parametrize("length", [9, 20000])
def test_infinite_and_missing_numbers(length: int) -> None:
    x = array(4, length)
    x[0, :3], x[1], x[2, 1], x[3, 2] = -np.inf, -np.inf, np.inf, np.nan
    made = Made()
    made.add(Softmax(-1), made.given(x), anchor=True)
    check(made)


def test_floats_of_16_bits_are_computed_in_f32() -> None:
    made = Made()
    made.add(Softmax(-1), made.given(array(5, 33, dtype="f2")), anchor=True)
    check(made, 2e-3)


@EACH_ARCH
def test_all_forms_compile(arch: int) -> None:
    sources = []
    for shape, axis in (((5, 768), -1), ((2, 64, 50), 1), ((2, 17000), -1)):
        made = Made()
        made.add(Softmax(axis), made.given(array(*shape, dtype="f2")), anchor=True)
        sources.append(source_for(made, arch))
    assert all(each.stack == 0 for each in compiled(*sources, arch=arch))
