"""Laws that hold for every case of every op."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, permutations

import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import OPS, Builder, Function, parse_module, print_module, run_function, run_op
from afterglow.graph.function import subgraphs_of
from afterglow.graph.op import result_types
from afterglow.testing.arrays import assert_close
from afterglow.testing.cases import CASES, Case
from afterglow.types import Array, TensorType

each_case = pytest.mark.parametrize("case", CASES, ids=str)


def each_case_that(applies: Callable[[Case], bool]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [c for c in CASES if applies(c)], ids=str)


def has_no_functions(case: Case) -> bool:
    return not subgraphs_of(case.op)


def has_one_rank(case: Case) -> bool:
    rank = case.results()[0].rank
    fits = all(t is None or t.rank in (0, rank) for t in case.types)
    return rank >= 2 and fits and case.op.permuted(tuple(range(rank))) is not None


def has_a_parallel_axis(case: Case) -> bool:
    return any(
        extent > 1 and case.op.parallel(axis, case.results()[0], case.types) is not None
        for axis, extent in enumerate(case.results()[0].shape)
    )


def test_every_op_has_a_case() -> None:
    missing = {cls.mnemonic for cls in OPS.values()} - {case.op.mnemonic for case in CASES}
    assert not missing


@each_case
def test_inference_tells_what_evaluation_gives(case: Case) -> None:
    inputs = case.inputs()
    for array, type in zip(inputs, case.types, strict=True):
        assert (array is None) == (type is None)
        assert array is None or (array.shape, array.dtype) == (type.shape, type.dtype.numpy)
    for result, type in zip(case.wanted(), case.results(), strict=True):
        assert (result.shape, result.dtype) == (type.shape, type.dtype.numpy)


@each_case_that(lambda case: case.decomposes)
def test_lowering_keeps_the_meaning(case: Case) -> None:
    f = Function("main")
    operands = [None if t is None else f.input(f"x{i}", t) for i, t in enumerate(case.types)]
    lowered = case.op.lower(Builder(f), *operands)
    if lowered is None:
        pytest.skip("declines for these operands")
    for index, value in enumerate(lowered if isinstance(lowered, tuple) else (lowered,)):
        f.output(f"y{index}", value)
    got = run_function(f, [x for x in case.inputs() if x is not None])
    assert_close(got, case.wanted(), case.tolerance)


@each_case_that(has_no_functions)
def test_text_reads_back(case: Case) -> None:
    f = Function("main")
    operands = [None if t is None else f.input(f"x{i}", t) for i, t in enumerate(case.types)]
    for index, value in enumerate(Builder(f).emit_all(case.op, *operands)):
        f.output(f"y{index}", value)
    text = print_module(f.module)
    parsed = parse_module(text)
    assert print_module(parsed) == text
    assert [node.op for node in parsed.main.nodes] == [case.op]


@each_case_that(has_one_rank)
def test_permuted_commutes_with_transposes(case: Case) -> None:
    rank = case.results()[0].rank
    for perm in islice(permutations(range(rank)), 24):
        permuted = case.op.permuted(perm)
        if permuted is None:
            continue
        types = [t if t is None or t.rank != rank else transposed(t, perm) for t in case.types]
        inputs = [x if x is None or x.ndim != rank else x.transpose(perm) for x in case.inputs()]
        got = run_op(permuted, inputs, result_types(permuted.infer(*types)))
        assert_close(got, tuple(y.transpose(perm) for y in case.wanted()), 1e-4)


def transposed(type: TensorType, perm: tuple[int, ...]) -> TensorType:
    return type.with_shape([type.shape[axis] for axis in perm])


@each_case_that(has_a_parallel_axis)
def test_a_part_along_a_parallel_axis_needs_only_parts_of_the_operands(case: Case) -> None:
    results, whole, inputs = case.results(), case.wanted(), case.inputs()
    for axis, extent in enumerate(results[0].shape):
        runs = case.op.parallel(axis, results[0], case.types)
        if runs is None or extent < 2:
            continue
        part = slice(1, extent)
        cut = [
            x if x is None else taken(x, along, part) for x, along in zip(inputs, runs, strict=True)
        ]
        types = [None if x is None else TensorType.of(x) for x in cut]
        got = run_op(case.op, cut, result_types(case.op.infer(*types)))
        assert_close(got, tuple(taken(y, axis, part) for y in whole), case.tolerance)


def taken(x: Array, axis: int | None, part: slice) -> Array:
    return x if axis is None else x[(slice(None),) * axis + (part,)]
