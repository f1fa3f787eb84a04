"""Regions of nodes become bands: the same numbers, band by band."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

from afterglow.graph import Function, Value, print_function, run_function, verify_module
from afterglow.lowering.splitting.region import Region
from afterglow.lowering.splitting.rewrite import split_region
from afterglow.ops.activation import Relu
from afterglow.ops.attention import Attention
from afterglow.ops.convolution import ConvTranspose
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.image import Interpolation, Resize
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, Pad, Reshape, Slice, Transpose
from afterglow.ops.normalization import LayerNorm
from afterglow.ops.pooling import AvgPool, MaxPool, MaxPoolWithIndices
from afterglow.ops.reduction import ReduceMean, ReduceSum
from afterglow.ops.shuffle import DepthToSpace
from afterglow.ops.softmax import Softmax
from afterglow.support.errors import CompileError
from afterglow.types.dtype import boolean, i32
from tests.lowering.networks import Network, network
from tests.transforms.rewriting import assert_same_meaning, random_inputs

Build: TypeAlias = Callable[[Network], Value | tuple[Value, ...]]


def whole_region(function: Function) -> Region:
    return Region(list(function.nodes), function.escaping())


def split_all(function: Function, axis: int, count: int) -> Function:
    """A copy, all of whose nodes run in bands."""
    split = function.module.clone().main
    split_region(split, whole_region(split), axis, count)
    verify_module(split.module)
    return split


def overlapping(n: Network) -> Value:
    x = n.conv(n.input(1, 9, 6, 2), 3, 5, bias=True)
    return n.conv(n.emit(Relu(), x), 2, 3)


def strided(n: Network) -> Value:
    x = n.conv(n.input(1, 17, 6, 2), 3, 3, stride=2)
    return n.conv(x, 2, 3, stride=2, pad=2)


def dilated(n: Network) -> Value:
    return n.conv(n.conv(n.input(1, 12, 7, 2), 3, 3, dilation=3), 2, 2, pad=0, dilation=2)


def pooled(n: Network) -> Value:
    x = n.emit(MaxPool((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)), n.conv(n.input(1, 15, 9, 2), 3))
    return n.emit(AvgPool((2, 2), (1, 1), (1, 1, 0, 0), (1, 1), True, True), x)


def residual(n: Network) -> Value:
    x = n.input(1, 10, 6, 4)
    wide = n.emit(Relu(), n.conv(x, 12, 1))
    deep = n.emit(Relu(), n.conv(wide, 12, 3, groups=12))
    return n.emit(Add(), n.conv(deep, 4, 1), x)


def two_residuals(n: Network) -> Value:
    x = n.conv(n.input(1, 10, 6, 4), 4)
    y = n.emit(Add(), n.conv(x, 4), x)
    return n.emit(Add(), n.conv(y, 4), y)


def concatenated(n: Network) -> Value:
    x = n.emit(Relu(), n.conv(n.input(1, 8, 6, 2), 3, 1))
    parts = [n.conv(x, 2, 1), n.conv(x, 3, 3), n.conv(x, 2, 5)]
    return n.conv(n.emit(Concat(3), *parts), 2)


def moved(n: Network) -> Value:
    x = n.emit(Transpose((0, 2, 3, 1)), n.input(1, 2, 9, 6))
    x = n.emit(Pad((0, 1, 0, 0), (0, 1, 1, 0)), n.conv(x, 3))
    x = n.emit(Slice((0, 9, 0, 0), (1, 5, 7, 3), (1, -2, 1, 1)), x)
    return n.emit(Reshape((1, 5, 21)), x)


def enlarged(n: Network) -> Value:
    x = n.emit(Resize((1, 10, 8, 3), (1.0, 2.0, 2.0, 1.0)), n.conv(n.input(1, 5, 4, 2), 3))
    x = n.emit(Resize((1, 20, 8, 2), (1.0, 2.0, 1.0, 1.0), Interpolation.LINEAR), n.conv(x, 2))
    return n.conv(x, 2)


def spread(n: Network) -> Value:
    x = n.conv(n.input(1, 5, 4, 2), 3)
    x = n.emit(ConvTranspose((2, 2), (1, 1, 0, 0), (1, 1)), x, n.constant(3, 3, 3, 4))
    return n.emit(DepthToSpace(2), x)


def lines(n: Network) -> Value:
    return n.conv(n.emit(Relu(), n.conv(n.input(2, 14, 3), 4, 5)), 2, 3, stride=2)


def volumes(n: Network) -> Value:
    return n.conv(n.conv(n.input(1, 6, 4, 3, 2), 3, 3), 2, 3)


def two_outputs(n: Network) -> tuple[Value, ...]:
    x = n.emit(Relu(), n.conv(n.input(1, 9, 6, 2), 3))
    return n.conv(x, 2), n.emit(MaxPool((3, 3), (1, 1), (1, 1, 1, 1), (1, 1)), x), x


def matrices(n: Network) -> Value:
    x = n.emit(Relu(), n.emit(MatMul(), n.input(6, 5), n.constant(5, 8)))
    return n.emit(MatMul(), x, n.constant(8, 7))


def perceptron(n: Network) -> Value:
    x = n.emit(Add(), n.emit(MatMul(), n.input(6, 5), n.constant(5, 8)), n.constant(8))
    return n.emit(Relu(), x)


def attention(n: Network) -> Value:
    q, k, v = n.input(1, 2, 6, 4), n.input(1, 2, 5, 4), n.input(1, 2, 5, 3)
    x = n.emit(Attention(0.5), n.emit(Mul(), q, n.constant(4)), k, v)
    return n.emit(LayerNorm(-1, 1e-3), x)


def scores(n: Network) -> Value:
    x = n.emit(Softmax(-1), n.emit(MatMul(), n.input(2, 6, 5), n.constant(5, 7)))
    return n.emit(ReduceSum((2,)), x)


def averaged(n: Network) -> Value:
    x = n.emit(Relu(), n.conv(n.input(1, 4, 4, 3), 8, 1))
    return n.emit(ReduceMean((1, 2)), n.conv(x, 8, 3, groups=8))


def located(n: Network) -> tuple[Value, ...]:
    x = n.emit(Relu(), n.input(1, 6, 5, 4))
    return n.b.emit_all(MaxPoolWithIndices((2, 2), (2, 1), (0, 0, 0, 0), (1, 1)), x)


CASES: list[tuple[Build, int]] = [
    (overlapping, 1),
    (overlapping, 2),
    (strided, 1),
    (dilated, 1),
    (pooled, 1),
    (residual, 1),
    (residual, 2),
    (two_residuals, 1),
    (concatenated, 1),
    (moved, 1),
    (enlarged, 1),
    (spread, 1),
    (lines, 1),
    (lines, 0),
    (volumes, 1),
    (two_outputs, 1),
    (matrices, 0),
    (perceptron, 0),
    (perceptron, 1),
    (attention, 1),
    (attention, 2),
    (scores, 0),
    (scores, 1),
    (averaged, 3),
    (located, 3),
]


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize(("build", "axis"), CASES)
def test_bands_compute_the_same(build: Build, axis: int, count: int) -> None:
    function = network(build)
    if function.outputs[0].value.type.shape[axis] < count:
        pytest.skip("there are not so many rows")
    assert_same_meaning(function, split_all(function, axis, count), 1e-5)


def test_integers_are_the_same_to_the_bit() -> None:
    def build(n: Network) -> Value:
        x = n.conv(n.conv(n.input(1, 11, 6, 2, dtype=i32), 3, 3, stride=2), 4, 3, bias=True)
        x = n.emit(Reshape((1, 6, 12)), n.emit(MaxPool((2, 2), (1, 1), (1, 1, 0, 0), (1, 1)), x))
        return n.emit(MatMul(), x, n.constant(12, 5, dtype=i32))

    function = network(build)
    inputs = random_inputs(function)
    (want,) = run_function(function, inputs)
    for count in range(2, 7):
        (got,) = run_function(split_all(function, 1, count), inputs)
        np.testing.assert_array_equal(got, want)


def test_bands_run_one_after_the_other_and_only_the_outer_ones_keep_the_padding() -> None:
    def build(n: Network) -> Value:
        wide = n.conv(n.input(1, 6, 4, 2), 8, 1, name="wide")
        return n.conv(n.emit(Relu(), wide, name="relu"), 2, 3, name="narrow")

    split = split_all(network(build), 1, 2)
    assert print_function(split).strip() == inspect.cleandoc("""
        func @main(%x0: f32[1, 6, 4, 2]) {
          %x0.band0 = slice(%x0) {starts = (0, 0, 0, 0), extents = (1, 4, 4, 2), steps = (1, 1, 1, 1)} : f32[1, 4, 4, 2]
          %wide.band0 = conv(%x0.band0, @weight) {strides = (1, 1), pads = (0, 0, 0, 0), dilations = (1, 1), groups = 1} : f32[1, 4, 4, 8]
          %relu.band0 = relu(%wide.band0) : f32[1, 4, 4, 8]
          %narrow.band0 = conv(%relu.band0, @weight_1) {strides = (1, 1), pads = (1, 1, 0, 1), dilations = (1, 1), groups = 1} : f32[1, 3, 4, 2]
          %x0.band1 = slice(%x0) {starts = (0, 2, 0, 0), extents = (1, 4, 4, 2), steps = (1, 1, 1, 1)} : f32[1, 4, 4, 2]
          %wide.band1 = conv(%x0.band1, @weight) {strides = (1, 1), pads = (0, 0, 0, 0), dilations = (1, 1), groups = 1} : f32[1, 4, 4, 8]
          %relu.band1 = relu(%wide.band1) : f32[1, 4, 4, 8]
          %narrow.band1 = conv(%relu.band1, @weight_1) {strides = (1, 1), pads = (0, 1, 1, 1), dilations = (1, 1), groups = 1} : f32[1, 3, 4, 2]
          %narrow = concat(%narrow.band0, %narrow.band1) {axis = 1} : f32[1, 6, 4, 2]
          return %narrow as "y0"
        }
    """)  # noqa: E501  as the printer writes it


def test_what_a_band_does_not_need_is_left_out() -> None:
    def build(n: Network) -> Value:
        x = n.emit(Relu(), n.input(1, 8, 4), name="whole")
        return n.emit(Slice((0, 0, 0), (1, 4, 4), (1, 1, 1)), x)

    split = split_all(network(build), 1, 2)
    rows = [node.result.type.shape[1] for node in split.nodes if node.op == Relu()]
    assert rows == [2, 2]


def test_a_predicate_stays() -> None:
    def build(n: Network) -> Value:
        n.b.predicate = n.input(dtype=boolean)
        return n.emit(Relu(), n.input(4, 3))

    function = network(build)
    split = split_all(function, 0, 2)
    given = [node.predicate for node in split.nodes if node.op == Relu()]
    assert given == [split.inputs[0], split.inputs[0]]


@pytest.mark.parametrize(
    ("build", "axis"),
    [(averaged, 1), (overlapping, 3), (attention, 3), (matrices, 1), (scores, 2)],
)
def test_what_needs_all_of_an_inner_value_is_refused(build: Build, axis: int) -> None:
    function = network(build)
    assert whole_region(function).band(axis, 0, 2) is None
    with pytest.raises(CompileError, match="cannot be computed in bands along axis"):
        split_region(function, whole_region(function), axis, 2)


def test_a_predicate_from_inside_is_refused() -> None:
    def build(n: Network) -> Value:
        x = n.emit(Relu(), n.input(4))
        flag = n.emit(ReduceSum((0,), keepdims=False), x)
        n.b.predicate = flag
        return n.emit(Relu(), x)

    assert whole_region(network(build)).band(0, 0, 2) is None


def test_bands_that_differ_only_in_their_place_have_one_structure() -> None:
    region = whole_region(network(overlapping))
    bands = [region.band(1, index, 9) for index in range(9)]
    keys = [band.structure() for band in bands if band is not None]
    assert keys[3] == keys[4] == keys[5]
    assert len({keys[0], keys[1], keys[4], keys[8]}) == 4
