"""Kernels of decoders: rows written to caches, attention over these, rotary embeddings."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cuda.kernels.families import ANCHORS
from afterglow.ops.activation import Relu
from afterglow.ops.cached_attention import CachedAttention, WriteRows
from afterglow.testing.cases import Case
from afterglow.testing.cases.cached_attention import CASES
from afterglow.testing.cases.rotary import CASES as ROTARY
from afterglow.types.dtype import f64
from tests.backends.cuda.kernels.jobs import (
    EACH_ARCH,
    TARGET,
    Made,
    array,
    check,
    compiled,
    plans,
    source_for,
)

_CASES = [
    case
    for case in (*CASES, *ROTARY)
    if all(type is None or type.size for type in case.types)
    and (case.results()[0].dtype is not f64 or not isinstance(case.op, CachedAttention))
]


def _made(case: Case) -> Made:
    made = Made()
    operands = [None if each is None else made.given(each) for each in case.inputs()]
    made.add(case.op, *operands, anchor=True)
    return made


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_cases_of_the_ops(case: Case) -> None:
    made = _made(case)
    assert made.anchor is not None
    assert ANCHORS.find(made.anchor, TARGET) is not None
    check(made, max(case.tolerance, 1e-5 if case.results()[0].dtype.bits == 32 else 2e-2))


def _cached(tokens: int, op: CachedAttention, dtype: str = "f4", heads: int = 6) -> Made:
    made = Made()
    random = np.random.default_rng(0)
    positions = made.given(random.integers(0, 150, tokens).astype("i4"))
    sequences = made.given(random.integers(0, 3, tokens).astype("i4"))
    q, k, v = array(tokens, heads, 16, dtype=dtype), array(3, 2, 150, 16, dtype=dtype), None
    v = array(3, 2, 150, 24, dtype=dtype)
    operands = [made.given(each) for each in (q, k, v)]
    made.add(Relu(), made.add(op, *operands, positions, sequences, anchor=True))
    return made


@pytest.mark.parametrize("window", [0, 40])
def test_programs_share_the_keys_of_a_token(window: int) -> None:
    made = _cached(2, CachedAttention(0.2, window))
    number = next(n for n, plan in enumerate(plans(made)) if "shares" in plan.settings)
    check(made, number=number)
    check(made)


@pytest.mark.parametrize("window", [0, 40])
def test_blocks_of_tokens_of_several_sequences(window: int) -> None:
    check(_cached(37, CachedAttention(0.2, window)))


def test_rows_are_written_where_the_cache_lies() -> None:
    made = Made()
    cache, rows = array(2, 3, 7, 4), array(5, 3, 4)
    positions, sequences = np.array([3, 4, 3, 6, 5], "i4"), np.array([1, 1, 1, 0, 1], "i4")
    held = made.given(cache)
    made.add(WriteRows(), held, *map(made.given, (rows, positions, sequences)), anchor=True)
    made.into(held)
    check(made)


@EACH_ARCH
def test_all_forms_compile(arch: int) -> None:
    forms = [_cached(n, CachedAttention(0.2, softcap=2.0), "f2") for n in (2, 37)]
    sources = [source_for(made, arch) for made in forms]
    assert all(each.stack == 0 for each in compiled(*sources, arch=arch))
