"""ONNX's reductions."""

from __future__ import annotations

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.reduction import log_sum_exp
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.importers.movement import axes_of
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops import functions as f
from afterglow.ops import reduction as r
from afterglow.ops.rules import normal_axes
from afterglow.types.dtype import f64

_PLAIN: dict[str, type[r.Reduction]] = {
    "ReduceSum": r.ReduceSum,
    "ReduceMean": r.ReduceMean,
    "ReduceMax": r.ReduceMax,
    "ReduceMin": r.ReduceMin,
    "ReduceProd": r.ReduceProd,
}


@onnx_op(*_PLAIN)
def plain(n: NodeContext) -> Value:
    """A reduction that we have as such."""
    return _reduce(n, _PLAIN[n.proto.op_type], n[0])


@onnx_op("ReduceL1")
def reduce_l1(n: NodeContext) -> Value:
    """sum(|x|)."""
    return _reduce(n, r.ReduceSum, n.emit(e.Abs(), n[0]))


@onnx_op("ReduceSumSquare")
def reduce_sum_square(n: NodeContext) -> Value:
    """sum(x x)."""
    return _reduce(n, r.ReduceSum, n.emit(e.Mul(), n[0], n[0]))


@onnx_op("ReduceL2")
def reduce_l2(n: NodeContext) -> Value:
    """sqrt(sum(x x))."""
    x = _floats(n)
    root = n.emit(f.Sqrt(), _reduce(n, r.ReduceSum, n.emit(e.Mul(), x, x)))
    return as_dtype(n, root, n[0].type.dtype)


@onnx_op("ReduceLogSum")
def reduce_log_sum(n: NodeContext) -> Value:
    """log(sum(x))."""
    logarithm = n.emit(f.Log(), _reduce(n, r.ReduceSum, _floats(n)))
    return as_dtype(n, logarithm, n[0].type.dtype)


@onnx_op("ReduceLogSumExp")
def reduce_log_sum_exp(n: NodeContext) -> Value:
    """log(sum(exp(x)))."""
    x, axes = _floats(n), _axes(n)
    keepdims = bool(n.integer("keepdims", 1))
    return as_dtype(n, log_sum_exp(n, x, axes, keepdims=keepdims), n[0].type.dtype)


def _floats(n: NodeContext) -> Value:
    """The operand; integers, which may be large, as doubles."""
    return n[0] if n[0].type.dtype.is_float else as_dtype(n, n[0], f64)


def _reduce(n: NodeContext, op: type[r.Reduction], x: Value) -> Value:
    axes = _axes(n)
    if not axes:  # each element by itself is its own sum, mean, product and extreme
        return x
    return n.emit(op(axes, bool(n.integer("keepdims", 1))), x)


def _axes(n: NodeContext) -> tuple[int, ...]:
    """None given means all, unless the node says that it means none."""
    x = n[0].type
    axes = axes_of(n, 1) or ()
    if not axes and not n.integer("noop_with_empty_axes", 0):
        axes = tuple(range(x.rank))
    return normal_axes(axes, x)
