"""TFLite's reductions, extremes and running sums."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Op, Value
from afterglow.ops.reduction import (
    CumSum,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    Reduction,
)
from afterglow.ops.search import ArgMax, ArgMin, TopK
from afterglow.types.dtype import boolean, i8

_PLAIN: dict[str, type[Reduction]] = {
    "MEAN": ReduceMean,
    "SUM": ReduceSum,
    "REDUCE_PROD": ReduceProd,
    "REDUCE_MAX": ReduceMax,
    "REDUCE_MIN": ReduceMin,
}
_TRUTH: dict[str, type[Reduction]] = {"REDUCE_ANY": ReduceMax, "REDUCE_ALL": ReduceMin}
_ARGS: dict[str, Callable[[int, bool], Op]] = {"ARG_MAX": ArgMax, "ARG_MIN": ArgMin}


@tflite_op(*_PLAIN)
def plain(n: TfliteNode) -> Value:
    """Along axes that an operand lists."""
    return reduced(n, _PLAIN[n.proto.op_type], n[0])


@tflite_op(*_TRUTH)
def truth(n: TfliteNode) -> Value:
    """Of truth values, the largest or the smallest."""
    found = reduced(n, _TRUTH[n.proto.op_type], as_dtype(n, n[0], i8))
    return as_dtype(n, found, boolean)


def reduced(n: TfliteNode, op: type[Reduction], x: Value) -> Value:
    """A reduction by the axes and options of the node; along no axes, x itself."""
    axes = n.axes(1, x.type.rank)
    return n.emit(op(axes, n.flag("keep_dims")), x) if axes else x


@tflite_op(*_ARGS)
def arg(n: TfliteNode) -> Value:
    """Where the largest or smallest is along an axis."""
    axis = n.axis(n.known_int(1), n[0].type.rank)
    found = n.emit(_ARGS[n.proto.op_type](axis, False), n[0])
    return as_dtype(n, found, n.result_type())


@tflite_op("TOPK_V2")
def top_k(n: TfliteNode) -> tuple[Value, Value]:
    """The largest along the last axis, and where they are."""
    values, places = n.emit_all(TopK(n.known_int(1), n[0].type.rank - 1), n[0])
    return values, as_dtype(n, places, n.result_type(1))


@tflite_op("CUMSUM")
def cum_sum(n: TfliteNode) -> Value:
    """Running sums along an axis."""
    axis = n.axis(n.known_int(1), n[0].type.rank)
    return n.emit(CumSum(axis, n.flag("exclusive"), n.flag("reverse")), n[0])
