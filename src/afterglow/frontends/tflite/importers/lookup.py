"""TFLite's look-ups of embeddings and of keys."""

from __future__ import annotations

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Value
from afterglow.ops.elementwise import Div, Equal, Mul, Where
from afterglow.ops.functions import Sqrt
from afterglow.ops.indexing import Gather, ScatterND, ScatterReduction
from afterglow.ops.movement import Expand, slice_axis
from afterglow.ops.reduction import ReduceMax
from afterglow.ops.search import ArgMax
from afterglow.support.errors import ModelError
from afterglow.types.dtype import boolean, u8


@tflite_op("EMBEDDING_LOOKUP", moves=True)
def embedding_lookup(n: TfliteNode) -> Value:
    """Rows of a table, which is operand 1."""
    return n.emit(Gather(0), n[1], n[0])


@tflite_op("HASHTABLE_LOOKUP")
def hashtable_lookup(n: TfliteNode) -> tuple[Value, Value]:
    """The rows of those keys that are looked up, zeros for others, and which were found."""
    wanted, keys, rows = n[0], n[1], n[2]
    (count,), (size,) = n.extents(wanted, 1), n.extents(keys, 1)
    if not size or not rows.type.rank or rows.type.shape[0] != size:
        raise ModelError(f"keys {keys.type} and rows {rows.type} do not belong together")
    same = as_dtype(n, n.emit(Equal(), reshaped(n, wanted, (count, 1)), keys), u8)
    hits = n.emit(ReduceMax((1,), keepdims=False), same)
    found = n.emit(Gather(0), rows, n.emit(ArgMax(1, keepdims=False), same))
    ones = (1,) * (rows.type.rank - 1)
    is_there = reshaped(n, as_dtype(n, hits, boolean), (count, *ones))
    return n.emit(Where(), is_there, found, n.full(0, rows.type.dtype)), hits


@tflite_op("EMBEDDING_LOOKUP_SPARSE")
def embedding_lookup_sparse(n: TfliteNode) -> Value:
    """Weighted rows of a table, added up where their places agree but for the last index."""
    ids, places, shape, weights, table = n[0], n[1], n.known_extents(2), n[3], n[4]
    count, rank = n.extents(places, 2)
    if rank != len(shape) or rank < 1 or weights.type.shape != (count,) or table.type.rank < 1:
        raise ModelError(f"places {places.type} do not fit weights {weights.type} and {shape}")
    inner = table.type.shape[1:]
    rows = n.emit(Gather(0), table, ids)
    factors = reshaped(n, weights, (count, *(1 for _ in inner)))
    tuples = n.emit(slice_axis(places.type, 1, 0, rank - 1), places)
    total = _added(n, tuples, n.emit(Mul(), rows, factors), (*shape[:-1], *inner))
    combiner = n.word("combiner", "SUM")
    if combiner == "SUM":
        return total
    parts = n.emit(Mul(), weights, weights) if combiner == "SQRTN" else weights
    norm = _added(n, tuples, parts, shape[:-1])
    norm = n.emit(Sqrt(), norm) if combiner == "SQRTN" else norm
    norm = reshaped(n, norm, (*shape[:-1], *(1 for _ in inner)))
    zero = n.full(0, total.type.dtype)
    empty = n.emit(Equal(), norm, zero)
    return n.emit(Where(), empty, zero, n.emit(Div(), total, norm))


def _added(n: TfliteNode, tuples: Value, updates: Value, shape: tuple[int, ...]) -> Value:
    zeros = n.emit(Expand(shape), n.full(0, updates.type.dtype))
    return n.emit(ScatterND(ScatterReduction.ADD), zeros, tuples, updates)
