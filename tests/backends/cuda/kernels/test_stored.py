"""Products with stored matrices give what the op says, whatever blocks share a scale."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cuda.kernels.families import ANCHORS
from afterglow.graph import Op
from afterglow.ops.activation import Relu
from afterglow.ops.stored import StoredMatMul
from afterglow.testing.cases import Case
from afterglow.testing.cases.stored import CASES
from tests.backends.cuda.kernels.jobs import (
    EACH_ARCH,
    TARGET,
    Made,
    array,
    check,
    compiled,
    source_for,
)


def _made(op: Op, *arrays: np.ndarray | None) -> Made:
    made = Made()
    operands = [None if each is None else made.given(each) for each in arrays]
    made.add(Relu(), made.add(op, *operands, anchor=True))
    return made


def _is_own(case: Case) -> bool:
    bytes_only = all(type is None or type.dtype.bits >= 8 for type in case.types)
    return isinstance(case.op, StoredMatMul) and bytes_only


@pytest.mark.parametrize("case", [case for case in CASES if _is_own(case)], ids=str)
def test_cases_of_the_op(case: Case) -> None:
    made = _made(case.op, *case.inputs())
    assert made.anchor is not None
    found = ANCHORS.find(made.anchor, TARGET)
    if found is not None:
        check(made, 1e-4)


@pytest.mark.parametrize("rows", [1, 5, 19])
@pytest.mark.parametrize("block", [0, 32, 512])
def test_long_rows(block: int, rows: int) -> None:
    depth, columns = 1100, 21
    shape = (columns, -(-depth // block)) if block else (columns,)
    scale, minimum = np.abs(array(*shape)) / 100, array(*shape)
    stored = array(columns, depth, dtype="u1")
    zero = array(*shape, dtype="u1")
    op = StoredMatMul(block)
    check(_made(op, array(rows, depth), stored, scale.astype("f4"), zero, minimum), 1e-3)


@EACH_ARCH
def test_all_forms_compile(arch: int) -> None:
    scale, stored = np.ones((24, 4), "f4"), array(24, 128, dtype="i1")
    few = _made(StoredMatMul(32), array(1, 128), stored, scale)
    many = _made(StoredMatMul(), array(9, 128), stored, np.ones(24, "f4"))
    found = compiled(source_for(few, arch), source_for(many, arch), arch=arch)
    assert all(each.stack == 0 for each in found)
