"""Reductions made of several ops."""

from __future__ import annotations

from afterglow.frontends.common.movement import number_like, reshaped
from afterglow.frontends.definition.context import NodeContext
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops import functions as f
from afterglow.ops import reduction as r


def log_sum_exp(n: NodeContext, x: Value, axes: tuple[int, ...], *, keepdims: bool) -> Value:
    """log(sum(exp(x - peak))) + peak: no exponential overflows.

    The peak is 0 where the largest is infinite or there is none, as a difference would be NaN.
    """
    peak = n.emit(r.ReduceMax(axes), x)
    peak = n.emit(e.Where(), n.emit(e.IsInf(), peak), number_like(n, 0.0, x), peak)
    exponentials = n.emit(f.Exp(), n.emit(e.Sub(), x, peak))
    total = n.emit(f.Log(), n.emit(r.ReduceSum(axes), exponentials))
    result = n.emit(e.Add(), total, peak)
    if keepdims:
        return result
    return reshaped(n, result, r.ReduceSum(axes, keepdims=False).infer(x.type).shape)
