"""Ensembles of trees: three ways to write them down, one table of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.ml.features import DOMAIN, as_floats
from afterglow.frontends.onnx.ml.scores import (
    TRANSFORMS,
    best_label,
    both_classes,
    class_labels,
    label_at,
    number,
    transformed,
)
from afterglow.frontends.onnx.ml.tree_tables import TreeTable, legacy_table, member_table
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.elementwise import Add, Less
from afterglow.ops.movement import Concat
from afterglow.ops.trees import Aggregate, TreeEnsemble
from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import f32, i64

OptionT = TypeVar("OptionT")

_AGGREGATES = (Aggregate.AVERAGE, Aggregate.SUM, Aggregate.MIN, Aggregate.MAX)
"""In the order in which TreeEnsemble numbers them."""
_BY_NAME = {aggregate.value.upper(): aggregate for aggregate in Aggregate}


@onnx_op("TreeEnsemble", domain=DOMAIN, since=5)
def tree_ensemble(n: NodeContext) -> Value:
    """The newest way: nodes and leaves apart, by their positions."""
    aggregate = _numbered(n, "aggregate_function", _AGGREGATES, 1)
    op = TreeEnsemble(n.integer("n_targets"), aggregate)
    scores = _voted(n, n[0], op, member_table(n))
    return transformed(n, scores, _numbered(n, "post_transform", TRANSFORMS, 0))


def _numbered(n: NodeContext, name: str, options: Sequence[OptionT], default: int) -> OptionT:
    """What an attribute counts off."""
    number = n.integer(name, default)
    if not 0 <= number < len(options):
        raise ModelError(f"attribute {name!r} must be below {len(options)}, it is {number}")
    return options[number]


@onnx_op("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(n: NodeContext) -> Value:
    """Nodes by their names, votes in a list."""
    op = TreeEnsemble(n.integer("n_targets"), n.choice("aggregate_function", _BY_NAME, "SUM"))
    targets = n.integers("target_ids")
    scores = _voted(n, as_floats(n, n[0]), op, legacy_table(n, "target", targets))
    scores = _with_base(n, scores)
    return as_dtype(n, transformed(n, scores, n.text("post_transform", "NONE")), f32)


def _voted(n: NodeContext, x: Value, op: TreeEnsemble, table: TreeTable) -> Value:
    table.check(x.type.shape[-1], op.targets)
    dtype = x.type.dtype.numpy
    operands = (
        table.nodes,
        table.thresholds.astype(dtype),
        table.roots,
        table.votes,
        table.weights.astype(dtype),
    )
    return n.emit(op, x, *map(n.constant, operands))


def _with_base(n: NodeContext, scores: Value) -> Value:
    base = _base_values(n)
    if not base.size:
        return scores
    return n.emit(Add(), scores, n.constant(base.astype(scores.type.dtype.numpy)))


def _base_values(n: NodeContext) -> Array:
    if n.has("base_values_as_tensor"):
        return n.tensor("base_values_as_tensor").reshape(-1)
    return np.array(n.numbers("base_values", ()), np.float32)


@dataclass(frozen=True)
class _Choice:
    """How a classifier decides: which classes have votes, and what it does with the scores."""

    voted: Sequence[int]
    labels: Value
    transform: str
    is_positive: bool
    """Whether no vote is negative, so that a score is a probability if it is not transformed."""


@onnx_op("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(n: NodeContext) -> tuple[Value, Value]:
    """The class with the most votes; where one of two classes has them all, a threshold decides."""
    ids = n.integers("class_ids")
    labels = class_labels(n, "classlabels_int64s")
    transform = n.text("post_transform", "NONE")
    voted = sorted({*ids})
    is_binary = labels.type.size == 2 and len(voted) == 1
    table = legacy_table(n, "class", [0] * len(ids) if is_binary else ids)
    choice = _Choice(voted, labels, transform, is_positive=not np.any(table.weights < 0))
    op = TreeEnsemble(1 if is_binary else labels.type.size)
    scores = _voted(n, as_floats(n, n[0]), op, table)
    if is_binary:
        label, scores = _one_of_two(n, scores, choice)
    elif labels.type.size == 1:
        scores = _with_base(n, scores)
        label = _above(n, scores, 0.0)
    else:
        scores = _with_base(n, scores)
        label = best_label(n, scores, labels)
    return label, as_dtype(n, transformed(n, scores, transform), f32)


def _one_of_two(n: NodeContext, score: Value, choice: _Choice) -> tuple[Value, Value]:
    """The label, and the scores of both: what the standard does not say is as others do it.

    The votes count for the second label, whichever of the two they name.
    """
    base = _base_values(n)
    if base.size:
        score = n.emit(Add(), score, number(n, float(base[-1]), score))
    is_probability = choice.is_positive and choice.transform in ("NONE", "PROBIT")
    best = _above(n, score, 0.5 if is_probability else 0.0)
    if choice.voted[0] == 0:
        both = both_classes(n, score, is_probability=is_probability)
    else:
        zero = n.constant(np.zeros(score.type.shape, score.type.dtype.numpy))
        both = n.emit(Concat(1), zero, score)
    return label_at(n, best, choice.labels), both


def _above(n: NodeContext, score: Value, threshold: float) -> Value:
    """Whether each score of a column is above a threshold, as a vector of zeros and ones."""
    if score.type.shape[1] != 1:
        raise ModelError(f"one score is needed, got {score.type}")
    above = n.emit(Less(), number(n, threshold, score), score)
    return reshaped(n, as_dtype(n, above, i64), score.type.shape[:1])
