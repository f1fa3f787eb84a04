"""TFLite's choosing among boxes."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Builder, Value
from afterglow.ops.control import Values, emit_scan
from afterglow.ops.elementwise import (
    Add,
    Div,
    Equal,
    Less,
    LessEqual,
    Max,
    Min,
    Mul,
    Or,
    Sub,
    Where,
    scalar,
)
from afterglow.ops.functions import Exp
from afterglow.ops.indexing import Gather, Iota
from afterglow.ops.movement import Reshape, slice_axis
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.search import ArgMax
from afterglow.support.errors import ModelError
from afterglow.types.dtype import i32, i64


@tflite_op("NON_MAX_SUPPRESSION_V4")
def hard(n: TfliteNode) -> tuple[Value, Value]:
    """Boxes that overlap a better one are left out; zeros behind those that are chosen."""
    chosen, _, count = _Suppression(n, 0.0).run()
    return chosen, count


@tflite_op("NON_MAX_SUPPRESSION_V5")
def soft(n: TfliteNode) -> tuple[Value, Value, Value]:
    """Others that overlap a better one count for less."""
    sigma = float(n.known_number(5)) if n.get(5) is not None else 0.0
    return _Suppression(n, sigma).run()


class _Suppression:
    """Boxes chosen one after the other, each time the best that is left."""

    def __init__(self, n: TfliteNode, sigma: float) -> None:
        boxes, scores = n[0], n[1]
        if n.extents(boxes, 2)[1] != 4 or n.extents(scores, 1)[0] != boxes.type.shape[0]:
            raise ModelError(f"boxes {boxes.type} and scores {scores.type} do not belong together")
        self.n = n
        self.most = n.known_int(2)
        if not 0 <= self.most < 2**20:
            raise ModelError(f"it cannot choose {self.most} boxes")
        self.overlap, self.least = reshaped(n, n[3], ()), reshaped(n, n[4], ())
        self.decay = -0.5 / sigma if sigma > 0 else 0.0

    def run(self) -> tuple[Value, Value, Value]:
        """The numbers of those chosen, their scores, and how many they are."""
        n = self.n
        if not self.most or not n[0].type.shape[0]:
            none = np.zeros(self.most, np.int32)
            return n.constant(none), n.constant(none.astype(np.float32)), n.full(0, i32)
        captured = [n[0], self.overlap, self.least]
        results = emit_scan(n.builder, self.most, self._step, [n[1]], [], captured)
        _, chosen, scores, counted = results
        count = n.emit(ReduceSum((0,), keepdims=False), as_dtype(n, counted, i32))
        return as_dtype(n, chosen, i32), scores, count

    def _step(
        self, b: Builder, states: Values, parts: Values, read: Values
    ) -> tuple[Values, Values]:
        (scores,), (boxes, overlap, least) = states, read
        best = b.emit(ArgMax(0, False), scores)
        top = b.emit(Gather(0), scores, best)
        found = b.emit(Less(), least, top)
        shared = _overlaps(b, boxes, b.emit(Gather(0), boxes, best))
        places = b.emit(Iota(scores.type.shape, 0, i64))
        gone = b.emit(Or(), b.emit(LessEqual(), overlap, shared), b.emit(Equal(), places, best))
        left = scores
        if self.decay:
            squares = b.emit(Mul(), shared, shared)
            factor = b.emit(Exp(), b.emit(Mul(), squares, scalar(b, self.decay, squares)))
            left = b.emit(Mul(), scores, factor)
        left = b.emit(Where(), gone, scalar(b, -np.inf, scores), left)
        number = b.emit(Where(), found, best, scalar(b, 0, best))
        score = b.emit(Where(), found, top, scalar(b, 0, top))
        return [b.emit(Where(), found, left, scores)], [number, score, found]


def _overlaps(b: Builder, boxes: Value, box: Value) -> Value:
    """The area that a box shares with each box, as a part of what both cover together."""

    def column(index: int) -> Value:
        return _flat(b, b.emit(slice_axis(boxes.type, 1, index, 1), boxes), (boxes.type.shape[0],))

    def corner(index: int) -> Value:
        return _flat(b, b.emit(slice_axis(box.type, 0, index, 1), box), ())

    zero = scalar(b, 0, box)
    sides, areas, own = [], [], []
    for low, high in ((0, 2), (1, 3)):
        first = b.emit(Max(), column(low), corner(low))
        last = b.emit(Min(), column(high), corner(high))
        sides.append(b.emit(Max(), b.emit(Sub(), last, first), zero))
        areas.append(b.emit(Sub(), column(high), column(low)))
        own.append(b.emit(Sub(), corner(high), corner(low)))
    shared, area, mine = (b.emit(Mul(), *pair) for pair in (sides, areas, own))
    whole = b.emit(Sub(), b.emit(Add(), area, mine), shared)
    is_empty = b.emit(LessEqual(), b.emit(Min(), area, mine), zero)
    return b.emit(Where(), is_empty, zero, b.emit(Div(), shared, whole))


def _flat(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    return b.emit(Reshape(shape), x)
