"""Values that are leading parts of one array, however long their ranged axes are in a run.

Counting along an axis, repeating along it, and anything element by element give the same elements
for any extent, only more or fewer of them. So what is computed from constants that way is known
once it is known at the largest extents.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from afterglow.graph import Constant, Node, Op, Value, run_op
from afterglow.ops.indexing import Gather, Iota
from afterglow.ops.movement import Concat, Expand, Reshape, Slice, Transpose
from afterglow.support.errors import IndexRangeError
from afterglow.types import Array, TensorType
from afterglow.types.extent import RangedExtent, is_ranged, largest

MOST_ELEMENTS = 1 << 24
"""Arrays with more elements are not computed only to look at them."""


def leading_part(value: Value, depth: int = 0) -> Array | None:
    """The array of which a value is the leading part; None if that is not known.

    It is a constant, a slice of one, or computed from such by up to `depth` nodes in a row.
    """
    match value:
        case Constant(data):
            return data
        case Value(Node(Slice() as op, [Value() as x])) if _begins_anywhere(op):
            part = leading_part(x, depth)
            return None if part is None else np.asarray(_at_largest(op).evaluate(part))
        case Value(Node() as node) if depth and largest(value.type.size) <= MOST_ELEMENTS:
            return computed_at_largest(node, depth - 1)
    return None


def computed_at_largest(node: Node, depth: int = 0) -> Array | None:
    """The array of which the result of a node is the leading part, from those of its operands."""
    if len(node.results) != 1 or not node.op.pure or not _keeps_leading_parts(node):
        return None
    operands = [leading_part(operand, depth) for operand in node.given]
    given = [operand for operand in operands if operand is not None]
    if len(given) < len(node.operands):
        return None
    try:
        (array,) = run_op(_at_largest(node.op), given, [_largest_type(node.result.type)])
    except IndexRangeError:  # which tells when it runs
        return None
    return array


def _begins_anywhere(op: Slice) -> bool:
    """Whether a slice begins at the same element in every run."""
    return not any(map(is_ranged, op.starts))


def _keeps_leading_parts(node: Node) -> bool:
    """Whether leading parts of the operands give a leading part of the result."""
    match node:
        case Node(Iota() | Expand() | Transpose()):
            return True
        case Node(Slice() as op):
            return _begins_anywhere(op)
        case Node(Reshape(shape), [Value() as x]):
            return [n for n in x.type.shape if n != 1] == [n for n in shape if n != 1]
        case Node(Gather(), [Value() as data, _]):
            return not data.type.is_ranged
        case Node(Concat(axis)):
            return not any(is_ranged(part.type.shape[axis]) for part in node.given)
    return node.op.elementwise


def _largest_type(type: TensorType) -> TensorType:
    return replace(type, shape=tuple(map(largest, type.shape)))


def _at_largest(op: Op) -> Op:
    own: dict[str, Any] = {name: _largest(value) for name, value in vars(op).items()}
    return replace(op, **own)  # type: ignore[type-var]  # ops are dataclasses


def _largest(attribute: Any) -> Any:
    if isinstance(attribute, tuple):
        return tuple(map(_largest, attribute))
    return largest(attribute) if isinstance(attribute, RangedExtent) else attribute
