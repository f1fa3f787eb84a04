"""Integers on small Arm processors: their own instructions give the numbers of all others."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from afterglow.backends.cpu import Target
from afterglow.graph import Op
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.pooling import MaxPool
from afterglow.ops.quantization import QuantizeLinear
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.types import Array
from afterglow.types.dtype import DType, i4, i8, i16, u8
from tests.emulation.bench import EmulatedBench, machine_with
from tests.emulation.make import skip_without_emulator

M4 = "cortex-m4"
M0 = "thumbv6m-unknown-none-gnueabi+cortex-m0"
"""It has neither floats nor products of 64 bits, nor half of the registers in most instructions."""


def run_all(benches: Sequence[EmulatedBench]) -> None:
    """Run benches on one machine; every result is what the definition of the op says."""
    kernels = [bench.kernel() for bench in benches]
    machine = machine_with(kernels, benches[0].target)
    for bench, kernel in zip(benches, kernels, strict=True):
        (result,) = bench.run_on(machine, kernel)
        np.testing.assert_array_equal(result, bench.values[bench.steps[-1].outs[0]])


def quantizing(x: Array, dtype: DType, zero_point: int) -> EmulatedBench:
    bench = EmulatedBench(Target.of(M4))
    zero = np.array(zero_point).astype(dtype.numpy)
    operands = (bench.input(x), bench.constant(np.float32(0.25)), bench.constant(zero))
    bench.steps_of(QuantizeLinear(dtype=dtype), *operands)
    return bench


def test_rounding_to_bytes_takes_the_even_of_two_and_the_nearest_of_what_is_too_large() -> None:
    skip_without_emulator(M4)
    halves = np.arange(-600, 600, dtype=np.float32) / 8
    far = np.array([np.inf, -np.inf, 1e30, -1e30, 2.0**29, -(2.0**29)], np.float32)
    x = np.concatenate([halves, far])
    pairs = ((i8, -3), (u8, 128), (i16, 7), (i4, 0))
    run_all([quantizing(x, dtype, zero) for dtype, zero in pairs])


def product(
    op: Op,
    x: tuple[int, ...],
    weight: tuple[int, ...],
    dtype: DType,
    *,
    gaps: bool = False,
    target: str = M4,
) -> EmulatedBench:
    """A product of bytes with a bias and a scale for each column, quantized again."""
    random = np.random.default_rng(sum((*x, *weight)))
    bench = EmulatedBench(Target.of(target))
    limits = np.iinfo(dtype.numpy)
    bytes_of_x = random.integers(limits.min, limits.max + 1, x).astype(dtype.numpy)
    weights = bench.constant(random.integers(-128, 128, weight).astype(np.int8))
    is_conv = isinstance(op, QuantizedConv)
    columns = weight[0] if is_conv or op.transpose_rhs else weight[-1]
    scale = bench.constant(random.uniform(1e-5, 1e-4, columns).astype(np.float32))
    bias = bench.constant(random.integers(-500, 500, columns).astype(np.int32))
    y = bench.step(op, bench.input(bytes_of_x, gaps=gaps), weights, scale, bias)
    zero = bench.constant(np.array(7, dtype.numpy))
    bench.step(QuantizeLinear(dtype=dtype), y, bench.constant(np.float32(0.02)), zero, stored=True)
    return bench


def conv(
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    zero_point: int = 0,
    *,
    dilation: int = 1,
    groups: int = 1,
) -> QuantizedConv:
    dilations = (dilation,) * len(strides)
    return QuantizedConv(strides, pads, dilations, groups, x_zero_point=zero_point)


CONVOLUTIONS = [
    (conv((1, 1), (2, 2, 2, 2), 9), (1, 9, 11, 1), (8, 5, 5, 1)),
    (conv((1, 1), (1, 1, 1, 1), 9), (2, 5, 6, 3), (7, 3, 3, 3)),
    (conv((2, 2), (1, 0, 0, 1)), (1, 8, 9, 8), (6, 3, 2, 8)),
    (conv((1, 2), (2, 2, 2, 2), -5, dilation=2), (1, 6, 7, 4), (5, 3, 3, 4)),
    (conv((1, 1), (1, 1, 1, 1), groups=2), (1, 4, 5, 6), (4, 3, 3, 3)),
    (conv((1, 1), (0, 0, 0, 0)), (1, 3, 7, 24), (16, 1, 1, 24)),
    (conv((1,), (1, 1)), (1, 13, 5), (3, 3, 5)),
    (conv((1, 1, 1), (0, 1, 1, 0, 1, 1)), (1, 3, 4, 5, 2), (2, 2, 3, 3, 2)),
]
PRODUCTS = [
    (QuantizedMatMul(lhs_zero_point=3), (1, 256), (256, 10)),
    (QuantizedMatMul(), (1, 31), (31, 7)),
    (QuantizedMatMul(transpose_rhs=True), (5, 24), (12, 24)),
    (QuantizedMatMul(lhs_zero_point=-7, transpose_lhs=True), (9, 14), (9, 4)),
    (QuantizedMatMul(), (2, 3, 17), (17, 1)),
    (QuantizedMatMul(), (7, 640), (640, 3)),
]


DEPTHWISE = [
    (conv((1, 1), (1, 1, 1, 1), 9, groups=5), (1, 6, 13, 5), (5, 3, 3, 1)),
    (conv((2, 2), (0, 1, 1, 0), groups=8), (2, 7, 9, 8), (8, 3, 2, 1)),
    (conv((1, 1), (3, 3, 3, 3), 4, groups=2), (1, 5, 6, 2), (2, 7, 7, 1)),
    (conv((1, 1), (0, 0, 0, 0), 4, dilation=2, groups=4), (1, 7, 8, 4), (4, 3, 3, 1)),
    (conv((1,), (1, 1), 2, groups=3), (1, 9, 3), (3, 3, 1)),
]


def test_products_of_odd_extents_are_those_of_the_definition() -> None:
    skip_without_emulator(M4)
    kinds = itertools.cycle((u8, i8))
    benches = [product(*case, next(kinds)) for case in (*CONVOLUTIONS, *PRODUCTS, *DEPTHWISE)]
    apart = [product(*case, i8, gaps=True) for case in (CONVOLUTIONS[1], PRODUCTS[2])]
    run_all([*benches, *apart])


def test_a_processor_without_floats_has_the_same_products() -> None:
    skip_without_emulator(M4)
    cases = ((CONVOLUTIONS[4], u8), (DEPTHWISE[4], i8))
    run_all([product(*case, dtype, target=M0) for case, dtype in cases])


def pooling(dtype: DType, channels: int, *, gaps: bool = False) -> EmulatedBench:
    bench, limits = EmulatedBench(Target.of(M4)), np.iinfo(dtype.numpy)
    random = np.random.default_rng(channels)
    x = random.integers(limits.min, limits.max + 1, (2, 7, 6, channels)).astype(dtype.numpy)
    op = MaxPool((3, 2), (2, 1), (1, 0, 1, 1), (1, 2))
    bench.steps_of(op, bench.input(x, gaps=gaps))
    return bench


def test_the_largest_of_four_bytes_at_a_time_are_those_of_the_definition() -> None:
    skip_without_emulator(M4)
    kinds = itertools.product((i8, u8), (4, 12, 7))
    run_all([*(pooling(*kind) for kind in kinds), pooling(i8, 8, gaps=True)])


def instructions(bench: EmulatedBench) -> int:
    """How many one run of a bench executes."""
    kernel = bench.kernel()
    machine = machine_with([kernel], bench.target)
    bench.run_on(machine, kernel)
    return machine.instructions


def in_floats(op: QuantizedConv | QuantizedMatMul, *shapes: tuple[int, ...]) -> EmulatedBench:
    """The same product of floats, with a bias and a ReLU."""
    bench, random = EmulatedBench(Target.of(M4)), np.random.default_rng(1)
    x, weight = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    columns = weight.shape[0] if isinstance(op, QuantizedConv) else weight.shape[-1]
    bias = bench.constant(np.zeros(columns, np.float32))
    y = bench.step(op.plain, bench.input(x), bench.constant(weight))
    bench.step(Relu(), bench.step(Add(), y, bias), stored=True)
    return bench


@pytest.mark.parametrize(
    ("op", "x", "weight", "share"),
    [
        pytest.param(conv((1, 1), (1, 1, 1, 1)), (1, 8, 8, 8), (16, 3, 3, 8), 0.7, id="conv"),
        pytest.param(conv((1, 1), (0, 0, 0, 0)), (1, 2, 8, 64), (32, 1, 1, 64), 0.7, id="pixels"),
        pytest.param(QuantizedMatMul(), (1, 128), (128, 32), 0.65, id="layer"),
    ],
)
def test_bytes_take_fewer_instructions_than_floats(
    op: Op, x: tuple[int, ...], weight: tuple[int, ...], share: float
) -> None:
    skip_without_emulator(M4)
    floats = instructions(in_floats(op, x, weight))
    assert instructions(product(op, x, weight, i8)) < share * floats
