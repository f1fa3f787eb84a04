"""Caffe2's reductions."""

from __future__ import annotations

from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op
from afterglow.graph import Op, Value
from afterglow.ops import reduction as r
from afterglow.ops.elementwise import Abs, Mul
from afterglow.ops.functions import Sqrt
from afterglow.ops.movement import Reshape
from afterglow.ops.search import ArgMax, ArgMin, TopK
from afterglow.support.errors import ModelError

_KINDS: dict[str, type[r.ReduceSum | r.ReduceMean | r.ReduceMax | r.ReduceMin]] = {
    "Sum": r.ReduceSum,
    "Mean": r.ReduceMean,
    "Max": r.ReduceMax,
    "Min": r.ReduceMin,
}


def _axes(n: Caffe2Node) -> tuple[int, ...]:
    axes = n.axes(n[0], "axes")
    return tuple(range(n[0].type.rank)) if axes is None else axes


@caffe2_op(*(f"Reduce{kind}" for kind in _KINDS))
def reduced(n: Caffe2Node) -> Value:
    """Along some axes or all, which stay as ones unless told otherwise."""
    op = _KINDS[n.proto.op_type.removeprefix("Reduce")]
    return n.emit(op(_axes(n), n.flag("keepdims", True)), n[0])


@caffe2_op("ReduceL1", "ReduceL2")
def norm(n: Caffe2Node) -> Value:
    """The sum of magnitudes, or the root of the sum of squares."""
    op = r.ReduceSum(_axes(n), n.flag("keepdims", True))
    if n.proto.op_type == "ReduceL1":
        return n.emit(op, n.emit(Abs(), n[0]))
    return n.emit(Sqrt(), n.emit(op, n.emit(Mul(), n[0], n[0])))


@caffe2_op("LpNorm")
def lp_norm(n: Caffe2Node) -> Value:
    """Of all elements: the sum of magnitudes, or that of squares, without a root."""
    x, axes = n[0], tuple(range(n[0].type.rank))
    match n.integer("p", 2):
        case 1:
            powers = n.emit(Abs(), x)
        case 2:
            powers = n.emit(Mul(), x, x)
        case other:
            raise ModelError(f"attribute 'p' must be 1 or 2, it is {other}")
    op: Op = r.ReduceMean(axes, False) if n.flag("average") else r.ReduceSum(axes, False)
    total = n.emit(op, powers)
    return n.emit(Reshape((1,)), total)


@caffe2_op(
    *(f"Reduce{side}{kind}" for side in ("Front", "Back") for kind in ("Sum", "Mean", "Max"))
)
def reduced_ends(n: Caffe2Node) -> Value:
    """Along so many axes in front, or behind, which go."""
    x, count = n[0], n.integer("num_reduce_dim", 1)
    if not 0 <= count <= x.type.rank:
        raise ModelError(f"attribute 'num_reduce_dim' is {count}, x is {x.type}")
    if len(n) > 1:
        raise n.fail("lengths of rows are not supported")
    kind, rank = n.proto.op_type, x.type.rank
    axes = range(count) if kind.startswith("ReduceFront") else range(rank - count, rank)
    op = _KINDS[kind.removeprefix("ReduceFront").removeprefix("ReduceBack")]
    return n.emit(op(tuple(axes), False), x)


@caffe2_op("ArgMax", "ArgMin")
def extremum(n: Caffe2Node) -> Value:
    """The index of the first largest, or smallest, along an axis."""
    op = ArgMax if n.proto.op_type == "ArgMax" else ArgMin
    return n.emit(op(n.axis(n[0], default=-1), n.flag("keepdims", True)), n[0])


@caffe2_op("TopK")
def top_k(n: Caffe2Node) -> tuple[Value, ...]:
    """The k largest along an axis, and their indices."""
    if n.wants(2):
        raise n.fail("flattened indices are not supported")
    x = n[0]
    k = n.known_int(1) if len(n) > 1 else n.integer("k")
    axis = n.axis(x, default=-1)
    if k < 1:
        raise ModelError(f"k must be 1 or more, it is {k}")
    return n.emit_all(TopK(min(k, x.type.shape[axis]), axis), x)
