"""Items of a batch are computed apart, or are not: what the ops along the way say."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Value, run_function
from afterglow.lowering.batch_items import items_are_apart
from afterglow.ops.activation import Relu
from afterglow.ops.attention import Attention
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Div
from afterglow.ops.extents import Extents
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, Expand, Reshape, Slice, Transpose
from afterglow.ops.normalization import LayerNorm
from afterglow.ops.pooling import MaxPool
from afterglow.ops.random import RandomUniform
from afterglow.ops.reduction import CumSum, ReduceMean
from afterglow.ops.softmax import Softmax
from afterglow.testing.arrays import random_inputs
from afterglow.types.dtype import f32, i64
from afterglow.types.extent import Dim, is_ranged, ranged
from tests.lowering.networks import Network, network

BATCH = Dim("batch", 1, 9)
B = ranged(BATCH)


def classifier(n: Network) -> Value:
    x = n.emit(Relu(), n.conv(n.input(B, 8, 8, 3), 4, bias=True))
    x = n.emit(Add(), n.conv(x, 4), x)
    x = n.emit(MaxPool((2, 2), (2, 2), (0, 0, 0, 0), (1, 1)), x)
    flat = n.emit(Reshape((B, 4)), n.emit(ReduceMean((1, 2), keepdims=False), x))
    return n.emit(Add(), n.emit(MatMul(), flat, n.constant(4, 5)), n.constant(5))


def channels_first(n: Network) -> Value:
    return n.conv(n.emit(Transpose((0, 2, 3, 1)), n.input(B, 3, 8, 8)), 2)


def rows_of_all_items(n: Network) -> Value:
    rows = n.emit(Reshape((B * 6, 4)), n.input(B, 6, 4))
    rows = n.emit(LayerNorm(1), n.emit(MatMul(), rows, n.constant(4, 4)))
    return n.emit(Softmax(2), n.emit(Reshape((B, 6, 4)), rows))


def attention(n: Network) -> Value:
    q, k, v = (n.input(B, 2, 5, 4) for _ in range(3))
    return n.emit(Attention(0.5), q, k, v)


def same_token_in_front(n: Network) -> Value:
    row = n.emit(Expand((B, 1, 4)), n.constant(1, 1, 4))
    table = n.b.constant(np.tile(np.arange(4, dtype=np.float32), (9, 1, 1)), "table")
    first = n.emit(Slice((0, 0, 0), (B, 1, 4), (1, 1, 1)), table)
    return n.emit(Concat(1), row, first, n.input(B, 6, 4))


def shared_input(n: Network) -> Value:
    return n.emit(Add(), n.input(B, 6, 4), n.input(6, 4))


APART = [
    *(classifier, channels_first, rows_of_all_items),
    *(attention, same_token_in_front, shared_input),
]


@pytest.mark.parametrize("build", APART, ids=lambda build: build.__name__)
def test_items_that_are_apart_are_what_a_smaller_batch_computes(build) -> None:
    function = network(build)
    assert items_are_apart(function, BATCH)
    whole, part = (function.module.bind({"batch": items}).main for items in (9, 2))
    inputs = random_inputs(whole)
    own = [
        x[6:8] if is_ranged(value.type.shape[0]) else x
        for value, x in zip(function.inputs, inputs, strict=True)
    ]
    for wanted, found in zip(run_function(whole, inputs), run_function(part, own), strict=True):
        np.testing.assert_allclose(found, wanted[6:8], rtol=1e-5, atol=1e-6)


def compared_with_the_mean(n: Network) -> Value:
    x = n.input(B, 4)
    return n.emit(Add(), x, n.emit(ReduceMean((0,), keepdims=True), x))


def running_sum(n: Network) -> Value:
    return n.emit(CumSum(0), n.input(B, 4))


def backwards(n: Network) -> Value:
    return n.emit(Slice((B - 1, 0), (B, 4), (-1, 1)), n.input(B, 4))


def compared_with_the_first(n: Network) -> Value:
    x = n.input(B, 4)
    return n.emit(Add(), x, n.emit(Slice((0, 0), (1, 4), (1, 1)), x))


def divided_by_their_number(n: Network) -> Value:
    count = n.emit(Cast(f32), n.emit(Extents((B,), (1,))))
    return n.emit(Div(), n.input(B, 4), count)


def with_a_number_of_its_own(n: Network) -> Value:
    table = n.b.constant(np.arange(9, dtype=np.float32).reshape(9, 1), "table")
    return n.emit(Add(), n.input(B, 4), n.emit(Slice((0, 0), (B, 1), (1, 1)), table))


def noisy(n: Network) -> Value:
    x, run = n.input(B, 4), n.input(dtype=i64)
    return n.emit(Add(), x, n.emit(RandomUniform((B, 4)), run))


def items_last(n: Network) -> Value:
    return n.emit(Relu(), n.input(4, B))


def items_against_each_other(n: Network) -> Value:
    x = n.input(B, 4)
    return n.emit(MatMul(), x, n.emit(Transpose((1, 0)), x))


def mixed_rows(n: Network) -> Value:
    return n.emit(Reshape((B, 6)), n.emit(Transpose((1, 0)), n.input(B, 6)))


def only_a_mean(n: Network) -> Value:
    return n.emit(ReduceMean((0,), keepdims=False), n.input(B, 4))


TOGETHER = [
    *(compared_with_the_mean, running_sum, backwards, compared_with_the_first),
    *(divided_by_their_number, with_a_number_of_its_own, noisy, items_last),
    *(items_against_each_other, mixed_rows, only_a_mean),
]


@pytest.mark.parametrize("build", TOGETHER, ids=lambda build: build.__name__)
def test_items_that_depend_on_others_are_not_apart(build) -> None:
    assert not items_are_apart(network(build), BATCH)
