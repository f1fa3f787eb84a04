"""Losses in the layout in which their operand lies: a sum over all places has no order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from afterglow.graph import Builder, Node, Value
from afterglow.ops.cross_entropy import CrossEntropy
from afterglow.ops.loss import L1, MSE, DifferenceLoss, Huber, LossReduction
from afterglow.ops.movement import Transpose
from afterglow.passes import rewrite
from afterglow.transforms.layouts.permutations import Perm, inverse


@rewrite(CrossEntropy)
def cross_entropy_of_transpose(node: Node, b: Builder) -> Sequence[Value] | None:
    """cross_entropy(transpose(x), labels)  ->  cross_entropy(x, transpose(labels)).

    Log probabilities are transposed back, if anybody needs them in that order.
    """
    match node:
        case Node(
            CrossEntropy(axis, reduction=reduction) as op,
            [Value(Node(Transpose(perm), [Value() as x])), Value() as labels, *weight],
        ) if reduction is not LossReduction.NONE:
            place = axis % len(perm)
            order = inverse(perm) if labels.type.dtype.is_float else _without(perm, place)
            moved = replace(op, axis=perm[place])
            loss, logs = b.emit_all(moved, x, b.emit(Transpose(order), labels), *weight)
            return loss, b.emit(Transpose(perm), logs)
    return None


def _without(perm: Perm, place: int) -> Perm:
    """Which axes of labels, which lack one, are those of x in its own order."""
    axes = [axis for index, axis in enumerate(perm) if index != place]
    return tuple(axes.index(axis) for axis in sorted(axes))


@rewrite(MSE, L1, Huber)
def difference_of_transpose(node: Node, b: Builder) -> Value | None:
    """loss(transpose(x), target)  ->  loss(x, transpose(target)).

    Then nothing is transposed on the way back to x.
    """
    match node:
        case Node(
            DifferenceLoss(reduction=reduction) as op,
            [Value(Node(Transpose(perm), [Value() as x])), Value() as target],
        ) if reduction is not LossReduction.NONE:
            return b.emit(op, x, b.emit(Transpose(inverse(perm)), target))
    return None
