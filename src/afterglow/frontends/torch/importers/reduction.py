"""Reductions of PyTorch: sums, means, extremes, variances and norms."""

from __future__ import annotations

import math
from functools import partial

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import integer_constant, reshaped
from afterglow.frontends.common.reduction import log_sum_exp
from afterglow.frontends.torch.importers.elementwise import name_of
from afterglow.frontends.torch.importers.operands import as_result, axes_of, axis_of, number
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops import functions as f
from afterglow.ops import reduction as r
from afterglow.ops.power import Pow
from afterglow.ops.search import ArgMax, ArgMin
from afterglow.support.errors import ModelError
from afterglow.types.dtype import boolean, f64, i32

_PLAIN: dict[str, type[r.Reduction]] = {
    "sum": r.ReduceSum,
    "mean": r.ReduceMean,
    "prod": r.ReduceProd,
    "amax": r.ReduceMax,
    "amin": r.ReduceMin,
    "max": r.ReduceMax,
    "min": r.ReduceMin,
}


def reduced(n: TorchNode, op: type[r.Reduction], x: Value, axes: tuple[int, ...]) -> Value:
    """A reduction along axes, if there are any."""
    return n.emit(op(axes, n.flag("keepdim")), x) if axes else x


@aten(
    *("sum", "sum.dim_IntList", "mean", "mean.dim", "prod", "prod.dim_int", "amax", "amin"),
    *("max", "min"),
)
def plain(n: TorchNode) -> Value:
    """A reduction that we have as such, in the type of the result."""
    (x,) = as_result(n, "self")
    op = _PLAIN[name_of(n)]
    return reduced(n, op, x, axes_of(n, "dim", x.type.rank))


@aten("any", "any.dim", "any.dims", "all", "all.dim", "all.dims")
def any_or_all(n: TorchNode) -> Value:
    """Whether some differ from zero, or all do."""
    x = n.value("self")
    dims = n.argument("dim")
    axes = () if dims == () else axes_of(n, "dim", x.type.rank)
    op = r.ReduceMax if name_of(n) == "any" else r.ReduceMin
    return as_dtype(n, reduced(n, op, as_dtype(n, x, boolean), axes), n.result_type())


@aten("max.dim", "min.dim")
def extreme_with_index(n: TorchNode) -> tuple[Value, Value]:
    """The extreme along an axis, and where it first is."""
    x = n.value("self")
    if not x.type.rank:
        return x, integer_constant(n, 0)
    axis = axis_of(n, "dim", x.type.rank)
    is_max = name_of(n) == "max"
    ordered = as_dtype(n, x, i32) if x.type.dtype is boolean else x
    value = reduced(n, r.ReduceMax if is_max else r.ReduceMin, ordered, (axis,))
    index = n.emit((ArgMax if is_max else ArgMin)(axis, n.flag("keepdim")), ordered)
    return as_dtype(n, value, x.type.dtype), index


@aten("aminmax")
def aminmax(n: TorchNode) -> tuple[Value, Value]:
    """Both extremes."""
    x = n.value("self")
    axes = axes_of(n, "dim", x.type.rank)
    return reduced(n, r.ReduceMin, x, axes), reduced(n, r.ReduceMax, x, axes)


@aten("argmax", "argmin")
def index_of_extreme(n: TorchNode) -> Value:
    """Along an axis, or among all elements."""
    x = n.value("self")
    op = ArgMax if name_of(n) == "argmax" else ArgMin
    if not x.type.rank:
        return integer_constant(n, 0)
    if n.argument("dim") is not None:
        return n.emit(op(axis_of(n, "dim", x.type.rank), n.flag("keepdim")), x)
    found = n.emit(op(0, keepdims=False), reshaped(n, x, (x.type.size,)))
    return reshaped(n, found, (1,) * x.type.rank) if n.flag("keepdim") else found


@aten("count_nonzero", "count_nonzero.dim_IntList")
def count_nonzero(n: TorchNode) -> Value:
    """How many differ from zero."""
    x = n.value("self")
    found = as_dtype(n, as_dtype(n, x, boolean), n.result_type())
    return reduced(n, r.ReduceSum, found, axes_of(n, "dim", x.type.rank))


@aten("var.correction", "var.dim", "var", "std.correction", "std.dim", "std")
def variance(n: TorchNode) -> Value:
    """The mean square distance from the mean, or its root."""
    return _moments(n)[0]


@aten("var_mean.correction", "std_mean.correction")
def variance_and_mean(n: TorchNode) -> tuple[Value, Value]:
    """The same, and the mean."""
    return _moments(n)


def _moments(n: TorchNode) -> tuple[Value, Value]:
    x = n.value("self")
    axes = axes_of(n, "dim", x.type.rank)
    mean = n.emit(r.ReduceMean(axes), x) if axes else x
    distance = n.emit(e.Sub(), x, mean)
    total = reduced(n, r.ReduceSum, n.emit(e.Mul(), distance, distance), axes)
    found = n.emit(e.Div(), total, _degrees_of_freedom(n, x, axes))
    if name_of(n).startswith("std"):
        found = n.emit(f.Sqrt(), found)
    return found, reshaped(n, mean, found.type.shape)


def _degrees_of_freedom(n: TorchNode, x: Value, axes: tuple[int, ...]) -> Value:
    """The number of elements less the correction, which is 1 unless it is given."""
    correction = n.argument("correction")
    if correction is None:
        unbiased = n.argument("unbiased")
        correction = 1 if unbiased is None else int(unbiased)
    count = as_dtype(n, integer_constant(n, math.prod(x.type.shape[a] for a in axes)), f64)
    left = n.emit(e.Sub(), count, number(n, correction, f64))
    return as_dtype(n, n.emit(e.Max(), left, number(n, 0, f64)), x.type.dtype)


@aten("logsumexp")
def logsumexp(n: TorchNode) -> Value:
    """log(sum(exp(x)))."""
    (x,) = as_result(n, "self")
    axes = axes_of(n, "dim", x.type.rank)
    return log_sum_exp(n, x, axes, keepdims=n.flag("keepdim"))


@aten("linalg_vector_norm")
def vector_norm(n: TorchNode) -> Value:
    """The p-norm along axes, for any p."""
    (x,) = as_result(n, "self")
    order, dtype = float(n.scalar("ord")), x.type.dtype
    size = n.emit(e.Abs(), x)
    reduce = partial(reduced, n, axes=axes_of(n, "dim", x.type.rank))
    if math.isinf(order):
        if 0 in x.type.shape and not n.flag("keepdim") and order < 0:
            raise ModelError("the smallest of no elements is not defined")
        return reduce(r.ReduceMax if order > 0 else r.ReduceMin, size)
    if order == 0:
        return reduce(r.ReduceSum, as_dtype(n, as_dtype(n, x, boolean), dtype))
    if order == 1:
        return reduce(r.ReduceSum, size)
    if order == 2:
        return n.emit(f.Sqrt(), reduce(r.ReduceSum, n.emit(e.Mul(), x, x)))
    total = reduce(r.ReduceSum, n.emit(Pow(), size, number(n, order, dtype)))
    return n.emit(Pow(), total, number(n, 1 / order, dtype))
