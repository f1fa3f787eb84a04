"""Elements put one by one along an axis."""

from __future__ import annotations

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import expanded, reshaped
from afterglow.frontends.torch.importers.elementwise import floor_quotient
from afterglow.frontends.torch.importers.operands import axis_of, number, operand
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops.indexing import ScatterReduction
from afterglow.ops.movement import Slice
from afterglow.ops.scatter import ScatterElements
from afterglow.support.errors import UnsupportedError
from afterglow.types import DType
from afterglow.types.dtype import boolean, i32

_REDUCTIONS = {
    "add": ScatterReduction.ADD,
    "sum": ScatterReduction.ADD,
    "mean": ScatterReduction.ADD,
    "multiply": ScatterReduction.MUL,
    "prod": ScatterReduction.MUL,
    "amax": ScatterReduction.MAX,
    "amin": ScatterReduction.MIN,
}


@aten("scatter.src", "scatter.reduce", "scatter_add")
def scatter_tensor(n: TorchNode) -> Value:
    """Elements of a tensor, replacing what is there or combined with it."""
    reduction = ScatterReduction.NONE
    if n.proto.op_type.startswith("scatter_add"):
        reduction = ScatterReduction.ADD
    elif n.argument("reduce") is not None:
        reduction = _REDUCTIONS[n.argument("reduce")]
    return _scattered(n, n.value("self"), n.value("src"), reduction)


@aten("scatter.value", "scatter.value_reduce")
def scatter_value(n: TorchNode) -> Value:
    """One number at all places."""
    x = n.value("self")
    reduction = n.argument("reduce")
    kind = ScatterReduction.NONE if reduction is None else _REDUCTIONS[reduction]
    value = operand(n, "value", x.type.dtype)
    return _scattered(n, x, expanded(n, value, n.value("index").type.shape), kind)


@aten("scatter_reduce.two")
def scatter_reduce(n: TorchNode) -> Value:
    """Elements combined, with what is there or only among themselves."""
    x, how = n.value("self"), n.argument("reduce")
    if 0 in n.value("index").type.shape:
        return x
    reduction, source = _REDUCTIONS[how], n.value("src")
    if not n.flag("include_self"):
        x = _filled_at(n, x, _neutral(reduction, x.type.dtype))
    total = _scattered(n, x, source, reduction)
    return _mean(n, total) if how == "mean" else total


def _mean(n: TorchNode, total: Value) -> Value:
    """Sums divided by how many were added up."""
    dtype = total.type.dtype
    one = number(n, 1, dtype)
    ones = expanded(n, one, total.type.shape)
    if not n.flag("include_self"):
        ones = _filled_at(n, ones, 0)
    each = expanded(n, one, n.value("index").type.shape)
    count = _scattered(n, ones, each, ScatterReduction.ADD)
    count = n.emit(e.Max(), count, one)
    return n.emit(e.Div(), total, count) if dtype.is_float else floor_quotient(n, total, count)


def _filled_at(n: TorchNode, x: Value, value: float) -> Value:
    filling = expanded(n, number(n, value, x.type.dtype), n.value("index").type.shape)
    return _scattered(n, x, filling, ScatterReduction.NONE)


def _neutral(reduction: ScatterReduction, dtype: DType) -> float:
    """What changes nothing when it is combined with a number."""
    if reduction is ScatterReduction.ADD:
        return 0
    if reduction is ScatterReduction.MUL:
        return 1
    low, high = (float("-inf"), float("inf")) if dtype.is_float else dtype.limits
    return low if reduction is ScatterReduction.MAX else high


def _scattered(n: TorchNode, x: Value, source: Value, reduction: ScatterReduction) -> Value:
    index, shape, dtype = n.value("index"), x.type.shape, x.type.dtype
    rank = max(x.type.rank, 1)
    if 0 in index.type.shape:
        return x
    if dtype is boolean and reduction is not ScatterReduction.NONE:
        raise UnsupportedError("bool cannot be combined by a scatter", help="cast to integers")
    source = as_dtype(n, source, dtype)
    places = index.type.shape or (1,) * rank
    source = reshaped(n, source, source.type.shape or (1,) * rank)
    if source.type.shape != places:
        source = n.emit(Slice((0,) * rank, places, (1,) * rank), source)
    data, index = reshaped(n, x, shape or (1,)), reshaped(n, index, places)
    if dtype is boolean:
        data, source = as_dtype(n, data, i32), as_dtype(n, source, i32)
    op = ScatterElements(axis_of(n, "dim", rank), reduction)
    return reshaped(n, as_dtype(n, n.emit(op, data, index, source), dtype), shape)
