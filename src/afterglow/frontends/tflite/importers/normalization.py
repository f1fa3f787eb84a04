"""TFLite's normalizations."""

from __future__ import annotations

from afterglow.frontends.tflite.importers.activation import activated
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Value
from afterglow.ops.elementwise import Div, Max, Mul
from afterglow.ops.functions import Sqrt
from afterglow.ops.normalization import LRN
from afterglow.ops.reduction import ReduceSum
from afterglow.support.errors import ModelError

_LEAST_NORM = 1e-6


@tflite_op("L2_NORMALIZATION")
def l2_normalization(n: TfliteNode) -> Value:
    """x by the root of the sum of its squares along the last axis."""
    x = n[0]
    if not x.type.rank:
        raise ModelError("a number without axes cannot be normalized")
    total = n.emit(ReduceSum((x.type.rank - 1,)), n.emit(Mul(), x, x))
    norm = n.emit(Max(), n.emit(Sqrt(), total), n.full(_LEAST_NORM, x.type.dtype))
    return activated(n, n.emit(Div(), x, norm))


@tflite_op("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(n: TfliteNode) -> Value:
    """By the squares of so many channels to both sides; ours divides alpha by their number."""
    radius = n.count("radius")
    if not 0 <= radius < 2**16:
        raise ModelError(f"the radius is {radius}")
    size = 2 * radius + 1
    return n.emit(LRN(size, n.real("alpha") * size, n.real("beta"), n.real("bias")), n[0])
