"""Random expressions of smooth ops: gradients of both orders against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from afterglow.graph import Builder, Function, Op, Value
from afterglow.ops.activation import Gelu, Sigmoid, Softplus, Swish
from afterglow.ops.elementwise import Add, Div, Mul, Neg, Sub
from afterglow.ops.functions import Atan, Cos, Erf, Sin, Tanh
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, Reshape, Slice, Transpose
from afterglow.ops.normalization import LayerNorm
from afterglow.ops.reduction import CumSum, ReduceMean, ReduceSum
from afterglow.ops.softmax import LogSoftmax, Softmax
from afterglow.types import TensorType
from afterglow.types.dtype import f64
from tests.autodiff.differences import assert_gradients

Draw: TypeAlias = st.DrawFn
Step: TypeAlias = Callable[[Draw, Builder, list[Value]], Value]

UNARY: list[Op] = [
    *(Atan(), Cos(), CumSum(0), Erf(), Gelu(), LayerNorm(epsilon=0.1), LogSoftmax(), Neg()),
    *(ReduceMean((0,)), ReduceSum((1,)), Sigmoid(), Sin(), Softmax(0), Softplus(), Swish(), Tanh()),
]


def unary(draw: Draw, b: Builder, values: list[Value]) -> Value:
    return b.emit(draw(st.sampled_from(UNARY)), draw(st.sampled_from(values)))


def is_repeated(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return all(m in (1, n) for m, n in zip(shape, wanted, strict=True))


def binary(draw: Draw, b: Builder, values: list[Value]) -> Value:
    lhs = draw(st.sampled_from(values))
    rhs = draw(st.sampled_from([v for v in values if is_repeated(v.type.shape, lhs.type.shape)]))
    return b.emit(draw(st.sampled_from([Add(), Mul(), Sub()])), *draw(st.permutations([lhs, rhs])))


def quotient(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = draw(st.sampled_from(values))
    one = b.constant(np.array(1.0))
    return b.emit(Div(), x, b.emit(Add(), b.emit(Mul(), x, x), one))


def product(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = draw(st.sampled_from(values))
    turned = b.emit(Transpose((1, 0)), x)
    return b.emit(MatMul(), *draw(st.permutations([x, turned])))


def moved(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = draw(st.sampled_from(values))
    rows, columns = x.type.shape
    part = Slice((rows - 1, 0), (rows, (columns + 1) // 2), (-1, 2))
    ops: list[Op] = [Reshape((columns, rows)), part]
    return b.emit(draw(st.sampled_from(ops)), x)


def joined(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = draw(st.sampled_from(values))
    return b.emit(Concat(0), x, b.emit(Tanh(), x))


STEPS: list[Step] = [unary, unary, binary, binary, quotient, product, moved, joined]
MOST_ELEMENTS = 24


@st.composite
def expressions(draw: Draw) -> Function:
    f = Function("main")
    b = Builder(f)
    values: list[Value] = [f.input("x", TensorType(f64, (rows, 3))) for rows in (2, 1)]
    for _ in range(draw(st.integers(1, 6))):
        value = draw(st.sampled_from(STEPS))(draw, b, values)
        if value.type.size <= MOST_ELEMENTS:
            values.append(value)
    f.output("y", values[-1])
    return f


@settings(max_examples=60, deadline=None)
@given(expressions(), st.integers(0, 99))
def test_gradients_of_expressions(f: Function, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = [rng.uniform(-1, 1, x.type.shape) for x in f.inputs]
    assert_gradients(f, inputs, order=2)
