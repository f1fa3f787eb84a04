"""Move data movement of weights before their dequantization.

What moves the elements of a dequantized constant moves the stored ones instead, and that is done
when compiling: the dequantization is then the last thing that happens to a weight.
"""

from __future__ import annotations

import math
from dataclasses import replace

from afterglow.graph import Builder, Constant, Node, Op, Value
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.quantization import DequantizeLinear
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.values import has_one_use


@rewrite(Reshape, Transpose)
def move_stored_weight(node: Node, b: Builder) -> Value | None:
    """move(dequantize(c, …))  ->  dequantize(move(c), …),  c a constant, its scales not blocked."""
    match node:
        case Node(
            Reshape() | Transpose() as move,
            [
                Value(
                    Node(
                        DequantizeLinear(block_size=0) as op,
                        [Constant() as stored, Value() as scale, *rest],
                    )
                ) as weight
            ],
        ) if has_one_use(weight):
            moved = _moved(op, move, stored, scale)
            return None if moved is None else b.emit(moved, b.emit(move, stored), scale, *rest)
    return None


def _moved(
    op: DequantizeLinear, move: Reshape | Transpose, stored: Constant, scale: Value
) -> Op | None:
    """The op with its axis where the move puts it; None if the move takes the axis apart."""
    if isinstance(move, Transpose):
        return op.permuted(move.perm)
    if not scale.type.rank:
        return replace(op, axis=0)
    shape, axis = stored.type.shape, op.axis % stored.type.rank
    for place, extent in enumerate(move.shape):
        same_before = math.prod(move.shape[:place]) == math.prod(shape[:axis])
        if same_before and extent == shape[axis]:
            return replace(op, axis=place)
    return None


MOVE_STORED_WEIGHTS = RewritePass("move-stored-weights", (move_stored_weight,))
