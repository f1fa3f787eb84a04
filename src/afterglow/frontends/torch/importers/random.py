"""Random numbers: our own, which follow from the node and the run, not those of PyTorch."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import expanded, number_like, reshaped
from afterglow.frontends.common.random import drawn, drawn_normal
from afterglow.frontends.torch.importers.elementwise import name_of
from afterglow.frontends.torch.importers.operands import number, operand
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops import functions as f
from afterglow.ops.random import Dropout
from afterglow.ops.reduction import CumSum, ReduceSum
from afterglow.ops.rules import broadcast_shape
from afterglow.ops.search import TopK
from afterglow.types import DType
from afterglow.types.dtype import boolean, f32, f64


@aten("rand", "rand_like", "randn", "randn_like")
def rand(n: TorchNode) -> Value:
    """Uniform from 0 to 1, or normal."""
    draw = drawn_normal if name_of(n).startswith("randn") else drawn
    return as_dtype(n, draw(n, _shape(n), n.result_type()), n.result_type())


def _shape(n: TorchNode) -> tuple[int, ...]:
    return n.value("self").type.shape if n.has("self") else n.sizes("size")


@aten("randint", "randint.low", "randint_like", "randint_like.low_dtype")
def randint(n: TorchNode) -> Value:
    """Integers from `low` up to but not including `high`."""
    low = n.scalar("low") if n.argument("low") is not None else 0
    span = number(n, n.scalar("high") - low, f64)
    scaled = n.emit(e.Floor(), n.emit(e.Mul(), drawn(n, _shape(n), f64), span))
    return as_dtype(n, n.emit(e.Add(), scaled, number(n, low, f64)), n.result_type())


@aten("randperm")
def randperm(n: TorchNode) -> Value:
    """The order of random numbers."""
    count = n.size("n")
    _, order = n.emit_all(TopK(count, 0), drawn(n, (count,), f64))
    return as_dtype(n, order, n.result_type())


@aten("uniform", "normal_functional")
def in_place_of(n: TorchNode) -> Value:
    """Numbers in the shape of a tensor."""
    is_normal = name_of(n) == "normal_functional"
    shape, dtype = n.value("self").type.shape, n.result_type()
    unit = (drawn_normal if is_normal else drawn)(n, shape, dtype)
    low, high = (n.scalar(name) for name in (("mean", "std") if is_normal else ("from", "to")))
    scale = high if is_normal else high - low
    scaled = n.emit(e.Mul(), unit, number_like(n, scale, unit))
    return as_dtype(n, n.emit(e.Add(), scaled, number_like(n, low, unit)), dtype)


@aten("exponential")
def exponential(n: TorchNode) -> Value:
    """-log(1 - u) / lambd."""
    dtype = n.result_type()
    unit = drawn(n, n.value("self").type.shape, dtype)
    log = n.emit(f.Log(), n.emit(e.Sub(), number_like(n, 1, unit), unit))
    return as_dtype(n, n.emit(e.Div(), log, number_like(n, -n.scalar("lambd"), unit)), dtype)


@aten("normal.Tensor_Tensor", "normal.Tensor_float", "normal.float_Tensor", "normal.float_float")
def normal(n: TorchNode) -> Value:
    """Of given means and deviations."""
    dtype = n.result_type()
    mean, deviation = (operand(n, name, dtype) for name in ("mean", "std"))
    given = n.sizes("size") if n.has("size") else ()
    shape = given or broadcast_shape(mean=mean.type, std=deviation.type)
    unit = as_dtype(n, drawn_normal(n, shape, dtype), dtype)
    return n.emit(e.Add(), n.emit(e.Mul(), unit, deviation), mean)


@aten("bernoulli", "bernoulli.p", "bernoulli.Tensor")
def bernoulli(n: TorchNode) -> Value:
    """1 with a probability."""
    x = n.value("self")
    wide = _wide(x.type.dtype)
    chance = operand(n, "p", wide) if n.has("p") else as_dtype(n, x, wide)
    hit = n.emit(e.Less(), drawn(n, x.type.shape, wide), chance)
    return as_dtype(n, hit, n.result_type())


def _wide(dtype: DType) -> DType:
    return f64 if dtype is f64 else f32


@aten("multinomial")
def multinomial(n: TorchNode) -> Value:
    """Classes by their weights; without replacement by the order of u ** (1 / weight)."""
    x, count = n.value("self"), n.size("num_samples")
    *outer, classes = x.type.shape
    axis = len(outer)
    if not n.flag("replacement"):
        log = n.emit(f.Log(), drawn(n, x.type.shape, x.type.dtype))
        return n.emit_all(TopK(count, axis), n.emit(e.Div(), log, x))[1]
    total = n.emit(ReduceSum((axis,)), x)
    points = n.emit(e.Mul(), drawn(n, (*outer, count), x.type.dtype), total)
    sums = reshaped(n, n.emit(CumSum(axis), x), (*outer, 1, classes))
    passed = n.emit(e.LessEqual(), sums, reshaped(n, points, (*outer, count, 1)))
    return n.emit(ReduceSum((axis + 1,), keepdims=False), as_dtype(n, passed, n.result_type()))


@aten("dropout", "alpha_dropout", "feature_dropout")
def dropout(n: TorchNode) -> Value:
    """Nothing is dropped in inference; else a share of the elements."""
    x, rate = n.value("input"), float(n.scalar("p"))
    if not n.flag("train") or rate == 0:
        return x
    if name_of(n) != "dropout":
        raise n.fail(f"{name_of(n)} is only supported in inference", help="call model.eval()")
    return _dropped(n, x, rate)[0]


@aten("native_dropout")
def native_dropout(n: TorchNode) -> tuple[Value, Value]:
    """The same, with a mask of what was kept."""
    x, rate = n.value("input"), float(n.scalar("p"))
    if n.flag("train") or n.argument("train") is None:
        return _dropped(n, x, rate)
    kept = expanded(n, n.constant(np.ones((), np.bool_)), x.type.shape)
    return (n.emit(Dropout(rate), x) if rate < 1 else x), kept


def _dropped(n: TorchNode, x: Value, rate: float) -> tuple[Value, Value]:
    """Each element is kept with probability 1 - rate, and then divided by that."""
    unit = drawn(n, x.type.shape, f32)
    kept = n.emit(e.LessEqual(), number(n, rate, f32), unit)
    scale = number(n, 0.0 if rate >= 1 else 1 / (1 - rate), x.type.dtype)
    zero = number(n, 0, x.type.dtype)
    return n.emit(e.Where(), kept, n.emit(e.Mul(), x, scale), zero), as_dtype(n, kept, boolean)
