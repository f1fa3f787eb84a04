"""Indices of operands, compared with the ranges that ops tell."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import parse_module, run_op
from afterglow.graph.index_check import check_constants, in_range
from afterglow.graph.op import result_types
from afterglow.ops.indexing import DynamicSlice, Gather, GatherND
from afterglow.ops.recurrent import RNN
from afterglow.ops.regions import MaxRoiPool
from afterglow.ops.vocabulary import NgramCount
from afterglow.support.errors import IndexRangeError
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32

DATA = np.arange(12.0, dtype=np.float32).reshape(3, 4)


def refused(op: object, *operands: Array | None) -> str:
    with pytest.raises(IndexRangeError) as caught:
        in_range(op, operands)  # type: ignore[arg-type]
    return caught.value.what


@pytest.mark.parametrize("wrong", [3, -4, 10**9, 2**63 - 1, -(2**63)])
def test_an_index_beyond_either_end_is_an_error(wrong: int) -> None:
    what = refused(Gather(0), DATA, np.array([0, wrong, -3, 7]))
    assert what == f"gather: indices must be from -3 to 2, got {wrong}"


def test_each_place_of_a_tuple_has_its_range() -> None:
    indices = np.array([[2, 3], [-3, -4], [2, 4]])
    assert refused(GatherND(), DATA, indices) == "gather_nd: indices must be from -4 to 3, got 4"


@pytest.mark.parametrize("wrong", [2.0, -1.0, np.inf, 1e30])
def test_a_number_of_an_image_is_a_float(wrong: float) -> None:
    x, rois = np.zeros((2, 4, 4, 1), np.float32), np.zeros((1, 5), np.float32)
    assert in_range(MaxRoiPool((1, 1)), [x, rois + 1.5]) == [x, pytest.approx(rois + 1.5)]
    rois[0, 0] = wrong
    assert refused(MaxRoiPool((1, 1)), x, rois).startswith("max_roi_pool: rois must be from 0 to 1")


def test_operands_that_are_not_given_are_not_looked_at() -> None:
    x, weight, recurrence = np.zeros((2, 1, 3)), np.zeros((4, 3)), np.zeros((4, 4))
    operands = [x, weight, recurrence, None, None]
    assert in_range(RNN(), operands) == operands
    lengths = np.array([3], np.int32)
    assert refused(RNN(), x, weight, recurrence, None, lengths) == (
        "rnn: lengths must be from 0 to 2, got 3"
    )


def test_an_ngram_is_counted_at_a_place_that_there_is() -> None:
    op = NgramCount(starts=(0,), shortest=1, longest=1, most_skipped=0, size=3)
    words, places = np.array([7, 8]), np.array([0, -129])
    assert refused(op, words, words, places) == "ngram_count: places must be from 0 to 2, got -129"


@pytest.mark.parametrize(("step", "low", "high"), [(1, -3, 1), (-2, -1, 2)])
def test_a_slice_that_moves_starts_where_all_of_it_is_there(step: int, low: int, high: int) -> None:
    op = DynamicSlice(0, 2, step)
    for start in (low, high):
        assert op.evaluate(*in_range(op, [DATA, np.array(start)])).shape == (2, 4)
    for start in (low - 1, high + 1):
        what = f"dynamic_slice: start must be from {low} to {high}, got {start}"
        assert refused(op, DATA, np.array(start)) == what


def test_indices_are_not_looked_at_where_there_is_no_result() -> None:
    empty, indices = np.zeros((3, 0), np.float32), np.array([9])
    (found,) = run_op(Gather(0), [empty, indices], [TensorType(f32, (1, 0))])
    assert found.shape == (1, 0)


def test_of_nothing_nothing_can_be_picked() -> None:
    empty = np.zeros((0, 4), np.float32)
    what = "gather: indices must refer to an existing element, got 0"
    assert refused(Gather(0), empty, np.array([0])) == what
    with pytest.raises(IndexRangeError):
        in_range(Gather(0), [empty, np.array([0])], unchecked=True)
    assert in_range(Gather(0), [empty, np.zeros(0, np.int64)])[0] is empty


def test_unchecked_the_nearest_is_taken() -> None:
    indices = np.array([5, -9, 1, 2**62], np.int64)
    types = result_types(Gather(0).infer(TensorType.of(DATA), TensorType.of(indices)))
    (result,) = run_op(Gather(0), [DATA, indices], types, unchecked=True)
    assert np.array_equal(result, DATA[[2, 0, 1, 2]])
    assert indices[0] == 5, "the operand stays as it is"


def test_constants_are_checked_in_nodes_that_are_used() -> None:
    module = parse_module(
        """
        const @i : i64[2] = [0, 3]
        func @main(%x: f32[3, 4]) {
          %dead = gather(%x, @i) {axis = 0} : f32[2, 4]
          %y = gather(%x, @i) {axis = 1} : f32[3, 2]
          return %y
        }
        """
    )
    check_constants(module.main)
    module.main.output("z", next(iter(module.main.nodes)).result)
    with pytest.raises(IndexRangeError) as caught:
        check_constants(module.main)
    assert str(caught.value).splitlines()[:2] == [
        "error: gather: indices must be from -3 to 2, got 3",
        "  in node 'dead'",
    ]
