"""Random numbers, which follow from a seed and the run's number.

A node without a seed gets one from its name, so that compiling a model twice gives the same.
"""

from __future__ import annotations

import math
from hashlib import blake2b

import numpy as np

from afterglow.frontends.common.movement import number_like
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.problems import NeedsInliningError
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops.functions import Cos, Log, Sqrt
from afterglow.ops.random import RandomUniform
from afterglow.types import DType
from afterglow.types.dtype import f32, f64


def drawn(n: NodeContext, shape: tuple[int, ...], dtype: DType, stream: int = 0) -> Value:
    """Uniform numbers from 0 to 1; f64 only if that is asked for."""
    if n.graph.frame.is_body:
        raise NeedsInliningError("a body that draws random numbers must be copied")
    wide = f64 if dtype is f64 else f32
    op = RandomUniform(shape, wide, _seed(n), stream)
    return n.emit(op, n.graph.session.run_number())


def drawn_normal(n: NodeContext, shape: tuple[int, ...], dtype: DType) -> Value:
    """Normal numbers of mean 0 and deviation 1: sqrt(-2 log(1 - u)) cos(2 pi v)."""
    u, v = (drawn(n, shape, dtype, stream) for stream in (0, 1))
    log = n.emit(Log(), n.emit(e.Sub(), number_like(n, 1.0, u), u))
    radius = n.emit(Sqrt(), n.emit(e.Mul(), log, number_like(n, -2.0, u)))
    angle = n.emit(Cos(), n.emit(e.Mul(), v, number_like(n, 2 * math.pi, v)))
    return n.emit(e.Mul(), radius, angle)


def _seed(n: NodeContext) -> int:
    """The node's seed, or one of its own; copies of a node have others than the node."""
    given = n.attribute("seed")
    if given is None:
        return _hashed(n.builder.name)
    seed = given % 2**64 if isinstance(given, int) else int(np.float32(given).view(np.uint32))
    prefix = n.graph.frame.prefix
    return _hashed(f"{seed}:{prefix}") if prefix else seed


def _hashed(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
