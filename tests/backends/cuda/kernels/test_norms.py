"""Norm kernels give what the ops say, whatever the lines are like, and compile."""

from __future__ import annotations

import pytest

from afterglow.graph import Op
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.normalization import GroupNorm, LayerNorm, RMSNorm
from tests.backends.cuda.kernels.jobs import EACH_ARCH, Made, array, check, compiled, source_for


def _made(op: Op, *shapes: tuple[int, ...] | None, dtype: str = "f4", around: bool = False) -> Made:
    made = Made()
    given = [None if shape is None else made.given(array(*shape, dtype=dtype)) for shape in shapes]
    if around:
        given[0] = made.add(Add(), given[0], made.given(array(*(shapes[0] or ()), dtype=dtype)))
    result = made.add(op, *given, anchor=True)
    if around:
        made.add(Relu(), result)
    return made


@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        (LayerNorm(-1), ((5, 768), (768,), (768,))),
        (LayerNorm(1), ((3, 5, 7), (5, 7), None)),
        (LayerNorm(-1), ((2, 20000), (20000,), (1,))),
        (RMSNorm(-1), ((5, 300), (300,))),
        (RMSNorm(-1), ((5, 300),)),
        (GroupNorm(4, axis=1), ((2, 12, 5, 5), (12,), (12,))),
        (GroupNorm(4, axis=-1), ((2, 5, 5, 12), (12,), (12,))),
        (GroupNorm(12, axis=-1), ((2, 30, 31, 12), (12,), (12,))),
    ],
    ids=str,
)
def test_numbers(op: Op, shapes: tuple[tuple[int, ...] | None, ...], around: bool) -> None:
    check(_made(op, *shapes, around=around), 2e-5)


def test_floats_of_16_bits_are_computed_in_f32() -> None:
    check(_made(RMSNorm(-1), (5, 300), (300,), dtype="f2", around=True), 4e-3)


@EACH_ARCH
def test_all_forms_compile(arch: int) -> None:
    forms = [
        _made(LayerNorm(-1), (5, 768), (768,), (768,), dtype="f2", around=True),
        _made(LayerNorm(-1), (2, 20000), (20000,), None, dtype="f2"),
        _made(GroupNorm(4, axis=-1), (2, 5, 5, 12), (12,), (12,)),
    ]
    sources = [source_for(made, arch) for made in forms]
    assert all(each.stack == 0 for each in compiled(*sources, arch=arch))
