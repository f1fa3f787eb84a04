"""What stands behind a model's scores: transforms, and the label of the best."""

from __future__ import annotations

import math

import numpy as np

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.importers.text import text_array
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops.activation import Sigmoid
from afterglow.ops.functions import Exp, Log, Sqrt
from afterglow.ops.indexing import Gather
from afterglow.ops.movement import Concat
from afterglow.ops.reduction import ReduceMax, ReduceSum
from afterglow.ops.search import ArgMax
from afterglow.ops.softmax import Softmax
from afterglow.support.errors import ModelError

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""In the order in which TreeEnsemble numbers them."""

_NEARLY_ZERO = 1e-7
_PROBIT = 0.147
"""The constant of Winitzki's approximation of the inverse error function."""


def transformed(n: NodeContext, scores: Value, transform: str) -> Value:
    """The scores of each row after the transform that `post_transform` names."""
    match transform:
        case "NONE":
            return scores
        case "SOFTMAX":
            return n.emit(Softmax(-1), scores)
        case "LOGISTIC":
            return n.emit(Sigmoid(), scores)
        case "SOFTMAX_ZERO":
            return _softmax_zero(n, scores)
        case "PROBIT":
            return _probit(n, scores)
    raise ModelError(f"there is no post_transform {transform!r}")


def _softmax_zero(n: NodeContext, x: Value) -> Value:
    """A softmax in which zeros stay zeros, and do not count."""
    last = (x.type.rank - 1,)
    peak = n.emit(ReduceMax(last, keepdims=True), x)
    tiny = number(n, _NEARLY_ZERO, x)
    counts = n.emit(e.Less(), tiny, n.emit(e.Abs(), x))
    exponential = n.emit(Exp(), n.emit(e.Sub(), x, peak))
    weights = n.emit(e.Where(), counts, exponential, number(n, 0.0, x))
    return n.emit(e.Div(), weights, n.emit(ReduceSum(last, keepdims=True), weights))


def _probit(n: NodeContext, x: Value) -> Value:
    """sqrt(2) erf_inverse(2 x - 1), as accurate as the approximation is."""
    two_x = n.emit(e.Mul(), x, number(n, 2.0, x))
    sign = n.emit(e.Sign(), n.emit(e.Sub(), two_x, number(n, 1.0, x)))
    left = n.emit(e.Sub(), number(n, 2.0, x), two_x)
    log = n.emit(Log(), n.emit(e.Mul(), two_x, left))  # of 1 - (2 x - 1)**2
    half = n.emit(e.Mul(), log, number(n, 0.5, x))
    a = n.emit(e.Add(), half, number(n, 2 / (math.pi * _PROBIT), x))
    b = n.emit(e.Mul(), log, number(n, 1 / _PROBIT, x))
    root = n.emit(Sqrt(), n.emit(e.Sub(), n.emit(e.Mul(), a, a), b))
    inverse = n.emit(Sqrt(), n.emit(e.Sub(), root, a))
    return n.emit(e.Mul(), n.emit(e.Mul(), sign, inverse), number(n, math.sqrt(2), x))


def number(n: NodeContext, value: float, like: Value) -> Value:
    """A rank-0 constant of the element type of another value."""
    return n.constant(np.array(value, like.type.dtype.numpy))


def both_classes(n: NodeContext, score: Value, *, is_probability: bool) -> Value:
    """The scores of the other class and of this one, from a column of the latter."""
    other = (
        n.emit(e.Sub(), number(n, 1.0, score), score) if is_probability else n.emit(e.Neg(), score)
    )
    return n.emit(Concat(1), other, score)


def class_labels(n: NodeContext, integers: str) -> Value:
    """The labels that a classifier chooses from: texts, or the integers of that attribute."""
    texts = n.texts("classlabels_strings", ())
    if texts:
        return n.constant(text_array(texts))
    return n.constant(np.array(n.integers(integers, ()), np.int64))


def best_label(n: NodeContext, scores: Value, labels: Value) -> Value:
    """The label of the best score in each row; the first of equal ones."""
    return label_at(n, n.emit(ArgMax(1, keepdims=False), scores), labels)


def label_at(n: NodeContext, positions: Value, labels: Value) -> Value:
    """The labels at these positions."""
    return n.emit(Gather(0), labels, positions)
