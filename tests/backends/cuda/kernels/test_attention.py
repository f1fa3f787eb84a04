"""Attention kernels give what the op says: masks, shared heads, few queries of many keys."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cuda.kernels.kernel import KernelSource
from afterglow.instr import KernelPlan
from afterglow.ops.activation import Relu
from afterglow.ops.attention import Attention
from afterglow.testing.cases import Case
from afterglow.testing.cases.attention import CASES
from afterglow.types import Array
from afterglow.types.dtype import f64
from tests.backends.cuda.kernels.jobs import (
    EACH_ARCH,
    Made,
    array,
    check,
    compiled,
    plans,
    source_for,
)

_SMALL = [
    (case.op, case)
    for case in CASES
    if isinstance(case.op, Attention) and case.results()[0].dtype is not f64
    if case.results()[0].size
]


def _made(op: Attention, *arrays: Array | None) -> Made:
    made = Made()
    operands = [None if each is None else made.given(each) for each in arrays]
    made.add(Relu(), made.add(op, *operands, anchor=True))
    return made


def _shared(made: Made) -> int:
    """The number of the first plan by which programs share keys."""
    return next(n for n, plan in enumerate(plans(made)) if "shares" in plan.settings)


@pytest.mark.parametrize(("op", "case"), _SMALL, ids=str)
def test_cases_of_the_op(op: Attention, case: Case) -> None:
    tolerance = 1e-5 if case.results()[0].dtype.bits == 32 else 2e-2
    check(_made(op, *case.inputs()), tolerance)


@pytest.mark.parametrize("shape", [(1, 2, 4, 8), (2, 3, 16, 24)])
def test_weights_of_few_keys_are_not_rounded(shape: tuple[int, ...]) -> None:
    q, k, v = (np.abs(array(*shape, dtype="f2")) for _ in range(3))
    check(_made(Attention(scale=0.5, causal=False), q, k, v), 6e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_blocks_of_queries_and_keys(dtype: str, causal: bool) -> None:
    q, k, v = (array(1, 2, n, 24, dtype=dtype) for n in (37, 70, 70))

    def narrow(plan: KernelPlan) -> KernelPlan:
        settings = {name: plan.settings[name] for name in plan.settings if name != "shares"}
        return KernelPlan(plan.algorithm, {**settings, "tile": (16, 32)})

    check(_made(Attention(0.2, causal=causal), q, k, v), 1e-5 if dtype == "f4" else 4e-3, narrow)


def test_operands_whose_heads_lie_side_by_side() -> None:
    made = Made()
    q, k, v = (made.given(array(1, 3, 20, 16), order=(0, 2, 1, 3)) for _ in range(3))
    made.add(Attention(0.3), q, k, v, anchor=True)
    check(made)


@pytest.mark.parametrize("causal", [False, True])
def test_programs_share_the_keys_of_few_queries(causal: bool) -> None:
    q, k, v = array(2, 4, 3, 16), array(2, 2, 150, 16), array(2, 2, 150, 24)
    made = _made(Attention(0.2, causal=causal), q, k, v)
    check(made, number=_shared(made))


@pytest.mark.parametrize("is_boolean", [False, True])
def test_rows_that_see_nothing_in_a_share_or_at_all(is_boolean: bool) -> None:
    q, k, v = array(1, 1, 3, 16), array(1, 1, 150, 16), array(1, 1, 150, 16)
    seen = np.ones((3, 150), np.bool_)
    seen[:, :70], seen[1] = False, False
    made = _made(
        Attention(0.2), q, k, v, seen if is_boolean else np.where(seen, 0, -np.inf).astype("f4")
    )
    check(made, number=_shared(made))
    check(made)


def _unchecked(arch: int, op: Attention, *arrays: Array) -> KernelSource:
    """The kernel of an attention that is too long to emulate."""
    made = Made()
    made.add(op, *map(made.given, arrays), anchor=True, computed=False)
    return source_for(made, arch)


@EACH_ARCH
def test_all_forms_compile_without_spills(arch: int) -> None:
    many = [np.zeros((8, 12, 256, 64), np.float16)] * 3
    few = [np.zeros((1, 12, n, 64), np.float16) for n in (1, 512, 512)]
    mask = np.zeros((1, 1, 1, 256), np.float16)
    forms = [
        _unchecked(arch, Attention(0.1, causal=True), *many),
        _unchecked(arch, Attention(0.1), *many, mask),
        _unchecked(arch, Attention(0.1), *few),
    ]
    assert all(each.stack == 0 for each in compiled(*forms, arch=arch))
