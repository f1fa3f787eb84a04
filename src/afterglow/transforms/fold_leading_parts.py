"""Constant folding over ranged axes: what is a leading part of a constant becomes a slice of it."""

from __future__ import annotations

from afterglow.graph import Builder, Node, Op, Value
from afterglow.ops.movement import Slice
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.fold_constants import grows
from afterglow.transforms.matching.leading import computed_at_largest


@rewrite(Op)
def fold_leading_part(node: Node, b: Builder) -> Value | None:
    """op(constants, slices of constants)  ->  slice(constant),  if longer axes only add elements.

    Like other results that are much larger than what they come from, such constants are not made.
    """
    if len(node.results) != 1 or isinstance(node.op, Slice) or not node.result.type.is_ranged:
        return None
    if node.result.type.quantization is not None or grows(node):
        return None
    array = computed_at_largest(node)
    if array is None:
        return None
    rank = node.result.type.rank
    whole = Slice((0,) * rank, node.result.type.shape, (1,) * rank)
    return b.emit(whole, b.constant(array, node.name))


FOLD_LEADING_PARTS = RewritePass("fold-leading-parts", (fold_leading_part,))
