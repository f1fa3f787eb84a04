"""Kernels that serve all backends, against the definitions of their ops."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.items.families import SHARED
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.activation import Gelu
from afterglow.ops.convolution import Conv, ConvTranspose
from afterglow.ops.elementwise import Add, Not, Where
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import Gather, GatherElements, Iota, ScatterND, ScatterReduction
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Expand, Transpose
from afterglow.ops.normalization import LayerNorm, RMSNorm
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.ops.reduction import CumProd, CumSum, ReduceMax, ReduceSum
from afterglow.ops.search import ArgMax, ArgMin, TopK
from afterglow.ops.softmax import LogSoftmax, Softmax
from afterglow.testing.cases import CASES as ALL
from afterglow.testing.cases.case import (
    bf16,
    boolean,
    case,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    u8,
)
from afterglow.types import dtype as dtypes
from tests.backends.items.emulated import MODES, check, compiled, kernel_of, run, works_of

ROWS = np.array([[4], [-1], [0]])
CASES = [
    case(Add(), f32(33, 65), f32(65)),
    case(Add(), f16(3, 1, 7), f16(5, 1)),
    case(Add(), i8(2, 1030), i8(2, 1030)),
    case(Add(), f64(7), f64(1)),
    case(Where(), boolean(3, 1), bf16(3, 5), bf16(5)),
    case(Gelu(), bf16(3, 400)),
    case(Transpose((2, 0, 1)), f16(3, 5, 7)),
    case(Transpose((0, 2, 1)), boolean(2, 30, 50)),
    case(Expand((4, 3, 5)), u8(3, 1)),
    case(Fill((3, 50), 1.5, dtypes.bf16)),
    case(Iota((3, 5), 1, dtypes.f32)),
    case(Gather(1), f16(3, 5, 7), i64(2, 2), given={1: np.array([[-1, 0], [4, -5]])}),
    case(GatherElements(0), u8(4, 3), i32(2, 3), low=-4, high=3),
    case(ScatterND(ScatterReduction.ADD), f32(5, 4), i64(3, 1), f32(3, 4), given={1: ROWS}),
    case(ScatterND(), f16(5, 4), i64(3, 1), f16(3, 4), given={1: ROWS}),
    case(ArgMax(1), f32(2, 5)),
    case(ArgMin(-1, last_index=True), u8(30, 50)),
    case(TopK(3), f32(40, 9)),
    case(TopK(2, largest=False), i64(7)),
    case(CumSum(0, reverse=True), f16(5, 30)),
    case(CumProd(1, exclusive=True), f64(5, 3)),
    case(ReduceSum((0, 2)), bf16(3, 5, 40)),
    case(ReduceMax((1,)), i8(3, 5)),
    case(Softmax(), f32(3, 21)),
    case(LogSoftmax(1), f16(3, 5, 2)),
    case(LayerNorm(), f32(3, 20), f32(20), f32(20)),
    case(RMSNorm(), bf16(3, 20), bf16(20)),
    case(MaxPool((3, 2), (2, 1), (1, 0, 1, 1), (1, 1)), f16(2, 5, 6, 3)),
    case(AvgPool((3, 2), (2, 1), (1, 0, 1, 1), (1, 1)), f32(2, 5, 6, 3)),
    case(MatMul(), bf16(3, 7, 30), bf16(30, 2)),
    case(MatMul(transpose_lhs=True, transpose_rhs=True), f64(5, 3), f64(2, 5)),
    case(Conv((2, 1), (1, 0, 0, 1), (1, 2), 2), f16(1, 5, 6, 4), f16(6, 3, 2, 2), f16(6)),
    case(ConvTranspose((2, 3), (1, 0, 0, 1), (1, 2), 2), f32(1, 3, 5, 4), f32(4, 2, 3, 3), f32(6)),
    case(QuantizedMatMul(lhs_zero_point=7), u8(5, 60), i8(60, 20), f32(20), i32(20)),
    case(QuantizedConv((1, 1), (1, 1, 1, 1), (1, 1), 2), u8(1, 4, 5, 6), i8(10, 3, 3, 3)),
    case(QuantizedConv((1, 1), (1, 1, 1, 1), (1, 1), 6), i8(1, 4, 5, 6), i8(6, 3, 3, 1), f32(6)),
]
"""Odd extents, all element types, and a case of every kernel."""


@pytest.mark.parametrize("mode", MODES)
def test_kernels_compute_what_the_ops_are_defined_to(mode):
    found = [check(work) for each in CASES for _, work in works_of(each, [mode])]
    assert sum(source is not None for source in found) >= 5


def test_every_shared_kernel_has_a_case():
    covered = {type(each.op) for each in CASES}
    assert all(covered.intersection(entry.ops) for entry in SHARED)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_kernels_compute_all_cases_of_the_ops(mode):
    for each in ALL:
        for _, work in works_of(each, [mode]):
            check(work)


@pytest.mark.parametrize(
    "modes", [("plain",), pytest.param(MODES, marks=pytest.mark.slow, id="all")]
)
def test_the_compiler_takes_the_kernels(modes):
    for each in CASES:
        for _, work in works_of(each, modes):
            source = kernel_of(work.step)
            assert source is None or compiled(source)


def test_an_index_out_of_range_raises_an_alarm():
    given = {1: np.array([0, 7, -2])}
    ((_, work),) = works_of(case(Gather(0), f32(3, 2), i64(3), given={1: np.arange(3)}), ["plain"])
    work.memory[work.step.ins[1]] = given[1]
    work.memory[work.results[0]] = np.zeros((3, 2), np.float32)
    source = kernel_of(work.step)
    (alarm,) = run(source, work.memory)
    assert alarm.tolist() == [1, 7]
    data = work.memory[work.step.ins[0]]
    np.testing.assert_array_equal(work.memory[work.results[0]], data[[0, 2, 1]])


def test_the_compiler_takes_kernels_of_more_elements_than_32_bits_count():
    x, y = (Buffer(name, u8(3, 2**31), Region.INPUT) for name in "xy")
    for step in (OpInstr(Not(), (y,), (x,)), OpInstr(CumSum(0), (y,), (x,))):
        source = kernel_of(step)
        assert "tl.int64" in source.text
        assert compiled(source)
