"""Merge and drop bounds: clips, rectifiers, and maxima and minima with a number.

`RAISE_CLIPS` is for before lowering, which may decompose clips; `SIMPLIFY_CLIPS` introduces no new
kind of op.
"""

from __future__ import annotations

import math

from afterglow.graph import Builder, Node, Op, Value
from afterglow.ops.activation import Clip, HardSigmoid, Relu, Sigmoid, Softplus
from afterglow.ops.elementwise import Abs, Max, Min
from afterglow.ops.functions import Cos, Erf, Exp, Sin, Sqrt, Tanh
from afterglow.ops.movement import Expand, Reshape, Slice, Transpose
from afterglow.ops.pooling import MaxPool
from afterglow.ops.softmax import Softmax
from afterglow.passes import RewritePass, rewrite
from afterglow.support.lazy_dataclass import dataclass
from afterglow.transforms.matching.values import has_one_use, uniform

LOOK_BACK = 4
"""The number of data-movement nodes that a range is traced through."""


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included; NaN is in every range."""

    low: float = -math.inf
    high: float = math.inf

    def after(self, inner: Range) -> Range:
        """The range that clipping to `inner` and then to this one amounts to."""
        first = min(inner.low, inner.high)  # where they cross, `high` wins
        return Range(self._clipped(first), self._clipped(inner.high))

    def _clipped(self, number: float) -> float:
        return min(max(number, self.low), self.high)

    def contains(self, other: Range) -> bool:
        """Whether clipping changes nothing of `other`."""
        return self.low <= other.low and other.high <= self.high


RANGES: dict[type[Op], Range] = {
    Relu: Range(low=0.0),
    Abs: Range(low=0.0),
    Exp: Range(low=0.0),
    Sqrt: Range(low=0.0),
    Softplus: Range(low=0.0),
    Sigmoid: Range(0.0, 1.0),
    HardSigmoid: Range(0.0, 1.0),
    Softmax: Range(0.0, 1.0),
    Tanh: Range(-1.0, 1.0),
    Erf: Range(-1.0, 1.0),
    Sin: Range(-1.0, 1.0),
    Cos: Range(-1.0, 1.0),
}
"""The ranges of results that hold for all operands."""


def range_of(op: Op) -> Range:
    """The range of the results of `op`."""
    if isinstance(op, Clip):
        return Range().after(_bounds(op))
    return RANGES.get(type(op), Range())


def _bounds(op: Clip | Relu) -> Range:
    if isinstance(op, Relu):
        return RANGES[Relu]
    return Range(
        -math.inf if op.low is None else op.low,
        math.inf if op.high is None else op.high,
    )


def _known_range(value: Value) -> Range:
    for _ in range(LOOK_BACK):
        match value:
            case Value(
                Node(Reshape() | Transpose() | Slice() | Expand() | MaxPool(), [Value() as x])
            ):
                value = x
    return range_of(value.producer.op) if value.producer is not None else Range()


@rewrite(Max, Min)
def bound_by_clip(node: Node, b: Builder) -> Value | None:
    """max(x, c)  ->  clip(x, c, inf);  min(x, c)  ->  clip(x, -inf, c);  c one number."""
    match node.operands:
        case [Value() as x, Value() as c] if x.type == node.result.type:
            number = uniform(c)
            if number is None or math.isnan(number):
                return None
            return b.emit(Clip(number, None) if isinstance(node.op, Max) else Clip(None, number), x)
    return None


@rewrite(Clip)
def rectify(node: Node, b: Builder) -> Value | None:
    """clip(x, 0, inf)  ->  relu(x)."""
    match node:
        case Node(Clip() as op, [x]) if _bounds(op) == RANGES[Relu]:
            return b.emit(Relu(), x)
    return None


@rewrite(Clip, Relu)
def drop_idle_clip(node: Node, b: Builder) -> Value | None:
    """clip(x, low, high)  ->  x,  if all that x may hold is in between."""
    match node:
        case Node(Clip() | Relu() as op, [Value() as x]) if _bounds(op).contains(_known_range(x)):
            return x
    return None


@rewrite(Clip, Relu)
def clip_at_once(node: Node, b: Builder) -> Value | None:
    """clip(clip(x, a, b), c, d)  ->  clip(x, e, f)  with e, f = a, b clipped to c, d."""
    match node:
        case Node(
            Clip() | Relu() as outer,
            [Value(Node(Clip() | Relu() as first, [Value() as x])) as inner],
        ) if has_one_use(inner):
            return b.emit(_one_clip(outer, first), x)
    return None


def _one_clip(outer: Clip | Relu, first: Clip | Relu) -> Op:
    bounds = _bounds(outer).after(_bounds(first))
    for op in (outer, first):
        if _bounds(op) == bounds:
            return op
    return Clip(
        bounds.low if bounds.low > -math.inf else None,
        bounds.high if bounds.high < math.inf else None,
    )


RAISE_CLIPS = RewritePass("raise-clips", (bound_by_clip, rectify))
SIMPLIFY_CLIPS = RewritePass("simplify-clips", (drop_idle_clip, clip_at_once))
