"""TFLite's ops that move elements."""

from __future__ import annotations

import math

from afterglow.frontends.common.bounds import extent_left
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import INTERNAL, tflite_op
from afterglow.graph import Value


@tflite_op("IDENTITY", domain=INTERNAL, moves=True)
def identity(n: TfliteNode) -> Value:
    """Another name."""
    return n[0]


@tflite_op("RESHAPE", moves=True)
def reshape(n: TfliteNode) -> Value:
    """The shape is an operand, or an option of old files; -1 stands for what is left."""
    x = n[0]
    is_operand = n.get(1) is not None and n[1].type.rank == 1
    wanted = list(n.known_extents(1) if is_operand else n.integers("new_shape", ()))
    if -1 in wanted:
        rest = math.prod(extent for extent in wanted if extent != -1)
        wanted[wanted.index(-1)] = extent_left(x.type, rest)
    return reshaped(n, x, wanted)
