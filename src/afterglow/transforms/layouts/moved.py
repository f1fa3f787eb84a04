"""How nodes work on operands that lie in another layout."""

from __future__ import annotations

from dataclasses import replace
from itertools import dropwhile

from afterglow.graph import Constant, Node, Op, Value
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.quantization import DequantizeLinear
from afterglow.ops.reduction import Reduction
from afterglow.ops.search import ArgExtreme
from afterglow.support.lazy_dataclass import dataclass
from afterglow.transforms.layouts.layout import Layout
from afterglow.transforms.layouts.permutations import Perm, swaps_last_two


@dataclass(frozen=True)
class Moved:
    """A node in another layout: its op there, where each operand must lie, where the result lies.

    None for an operand that is taken as it is.
    """

    op: Op
    operands: tuple[Layout | None, ...]
    result: Layout


def transposition(node: Node) -> Perm | None:
    """How the node permutes axes, if it does nothing else; a reshape may move those of extent 1."""
    match node:
        case Node(Transpose(perm)):
            return perm
        case Node(Reshape(shape), [Value() as x]) if x.type.shape != shape:
            return _moved_ones(x.type.shape, shape)
    return None


def _moved_ones(before: tuple[int, ...], after: tuple[int, ...]) -> Perm | None:
    long = [axis for axis, extent in enumerate(before) if extent != 1]
    short = [axis for axis, extent in enumerate(before) if extent == 1]
    if len(before) != len(after) or [before[axis] for axis in long] != [n for n in after if n != 1]:
        return None
    rest = {True: iter(short), False: iter(long)}
    return tuple(next(rest[extent == 1]) for extent in after)


def moved_by_operand(node: Node, index: int, layout: Layout) -> Moved | None:
    """How the node works if that operand lies in `layout`; None if it cannot."""
    operand, result = node.operands[index], node.results[0].type
    if operand is None or _stays(node, index) or (index and multiplies_rows(node)):
        return None
    if isinstance(node.op, Reshape):
        carried = layout.carried(result.shape)
        return None if carried is None else Moved(Reshape(carried.shape), (layout,), carried)
    is_plain = layout.factors == operand.type.shape
    if node.op.results_along_axis:
        return _permuted(node, layout.perm) if is_plain else None
    if is_plain and _dropped_axes(node.op):
        return _reduced(node, layout.perm)
    if is_plain and operand.type.rank == result.rank:
        return _permuted(node, layout.perm)
    if operand.type.shape == result.shape and is_pointwise(node):
        return _refactored(node, layout)
    return None


def moved_by_result(node: Node, layout: Layout) -> Moved | None:
    """How the node works so that its result lies in `layout`; None if it cannot."""
    if isinstance(node.op, Reshape):
        carried = layout.carried(node.given[0].type.shape)
        if carried is None:
            return None
        operand = None if carried.is_identity else carried
        return Moved(Reshape(layout.shape), (operand,), layout)
    if _dropped_axes(node.op) or node.op.results_along_axis:
        return None
    if layout.factors == node.result.type.shape:
        return _permuted(node, layout.perm)
    return _refactored(node, layout) if is_pointwise(node) else None


def is_pointwise(node: Node) -> bool:
    """Whether an element of the result depends on no element elsewhere, nor on where it is."""
    op = node.op
    along = [node.operand(name) for name in op.along_axis]
    return op.elementwise or (bool(along) and all(v is None or not v.type.rank for v in along))


def _stays(node: Node, index: int) -> bool:
    """Whether an operand runs along the op's own axis, or is a scalar."""
    operand = node.operands[index]
    if operand is None or not operand.type.rank:
        return True
    return operand.type.rank == 1 and any(
        operand is node.operand(name) for name in node.op.along_axis
    )


def _permuted(node: Node, perm: Perm) -> Moved | None:
    if multiplies_rows(node):
        return _rows_permuted(node, perm)
    op = node.op.permuted(perm)
    if op is None:
        return None
    operands = tuple(
        None if value is None or _stays(node, index) else _aligned(value, perm)
        for index, value in enumerate(node.operands)
    )
    shape = node.results[0].type.shape
    kept = node.op.results_along_axis
    return Moved(op, operands, Layout.own(shape) if kept else Layout(shape, perm))


def multiplies_rows(node: Node) -> bool:
    """Whether a node multiplies every row of its left operand by the same matrix."""
    match node:
        case Node(MatMul(transpose_lhs=False), [Value(), Value() as matrix]):
            return matrix.type.rank == 2
    return False


def _rows_permuted(node: Node, perm: Perm) -> Moved | None:
    """The same product of the rows in another order; elements of a row stay in theirs."""
    if perm[-1] != len(perm) - 1:
        return None
    lhs, shape = node.given[0], node.result.type.shape
    return Moved(node.op, (Layout(lhs.type.shape, perm), None), Layout(shape, perm))


def _aligned(value: Value, perm: Perm) -> Layout | None:
    """The layout of an operand that is broadcast to as many axes; None if it may stay as it is."""
    shape = value.type.shape
    layout = Layout((1,) * (len(perm) - len(shape)) + shape, perm)
    same = layout.keeps_order and _without_leading_ones(layout.shape) == _without_leading_ones(
        shape
    )
    return None if same else layout


def _without_leading_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dropwhile(lambda extent: extent == 1, shape))


def _refactored(node: Node, layout: Layout) -> Moved:
    """The same op on operands of which each axis is cut into its factors."""
    shape = node.result.type.shape
    operands = tuple(
        None if value is None or _stays(node, index) else _cut(value, shape, layout)
        for index, value in enumerate(node.operands)
    )
    return Moved(node.op, operands, layout)


def _cut(value: Value, shape: tuple[int, ...], layout: Layout) -> Layout:
    """The layout of an operand that is broadcast to `shape`, of which `layout` has the factors."""
    own = (1,) * (len(shape) - value.type.rank) + value.type.shape
    factors = [1] * len(layout.factors)
    for axis, group in enumerate(layout.axes(shape)):
        for index in group:
            factors[index] = layout.factors[index] if own[axis] == shape[axis] else 1
    return Layout(tuple(factors), layout.perm)


def _dropped_axes(op: Op) -> tuple[int, ...]:
    """The axes that the result does not have."""
    match op:
        case Reduction(axes, False):
            return axes
        case ArgExtreme(axis, False):
            return (axis,)
    return ()


def _reduced(node: Node, perm: Perm) -> Moved | None:
    """The same reduction of the axes at their new places; the others stay in their new order."""
    op = node.op
    if not isinstance(op, Reduction | ArgExtreme):
        return None
    kept_op = replace(op, keepdims=True).permuted(perm)
    if not isinstance(kept_op, Reduction | ArgExtreme):
        return None
    dropped = {axis % len(perm) for axis in _dropped_axes(op)}
    moved = [axis for axis in perm if axis not in dropped]
    places = sorted(moved)
    result = Layout(node.result.type.shape, tuple(places.index(axis) for axis in moved))
    operand = Layout(node.given[0].type.shape, perm)
    return Moved(replace(kept_op, keepdims=False), (operand,), result)


def is_absorbed(node: Node, index: int, layout: Layout) -> bool:
    """Whether a node that does not move takes an operand in `layout` at no cost nevertheless.

    A matrix product has flags for transposed matrices, and the rows of constant weights can be
    put in the order in which the columns of the other operand come.
    """
    match node:
        case Node(MatMul(transpose_lhs=flipped), [Value() as lhs, Value() as rhs]):
            value = (lhs, rhs)[index]
            if layout.factors == value.type.shape and swaps_last_two(layout.perm):
                return True
            if index or flipped or not has_constant_rows(node):
                return False
            return layout.within_last_axis(value.type.shape) is not None
    return False


def has_constant_rows(node: Node) -> bool:
    """Whether the right operand of a matrix product is a constant whose rows can be reordered.

    It may be dequantized, but with the same scale in every row.
    """
    match node:
        case Node(MatMul(_, transposed), [_, Value() as weights]) if weights.type.rank == 2:
            match weights:
                case Constant():
                    return weights.type.quantization is None
                case Value(Node(DequantizeLinear(axis, _, 0), [Constant(), Value() as scale, *_])):
                    return not scale.type.rank or axis % 2 != int(transposed)
    return False
