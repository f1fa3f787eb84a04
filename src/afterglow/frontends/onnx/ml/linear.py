"""Linear models: a product, a sum, and a transform."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.ml.features import DOMAIN, as_floats
from afterglow.frontends.onnx.ml.scores import (
    best_label,
    both_classes,
    class_labels,
    label_at,
    number,
    transformed,
)
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.elementwise import Add, Less
from afterglow.ops.linear import MatMul
from afterglow.support.errors import ModelError
from afterglow.types.dtype import f32, i64


@onnx_op("LinearRegressor", domain=DOMAIN)
def linear_regressor(n: NodeContext) -> Value:
    """One set of coefficients for each target."""
    scores = _linear(n, _rows(n), n.integer("targets", 1))
    return as_dtype(n, transformed(n, scores, n.text("post_transform", "NONE")), f32)


@onnx_op("LinearClassifier", domain=DOMAIN)
def linear_classifier(n: NodeContext) -> tuple[Value, Value]:
    """One set of coefficients for each class; of two classes, the second may have the only one.

    Then the score of the first is 1 less the other without a transform, and the opposite with one.
    """
    labels = class_labels(n, "classlabels_ints")
    transform = n.text("post_transform", "NONE")
    x = _rows(n)
    scores = _linear(n, x, len(n.numbers("coefficients")) // max(x.type.shape[1], 1))
    classes, count = scores.type.shape[1], labels.type.size
    if classes == 1 and count == 2:
        best = as_dtype(n, n.emit(Less(), number(n, 0.0, scores), scores), i64)
        label = label_at(n, reshaped(n, best, (scores.type.shape[0],)), labels)
        is_probability = transform in ("NONE", "PROBIT")
        scores = both_classes(n, scores, is_probability=is_probability)
    elif classes == count:
        label = best_label(n, scores, labels)
    else:
        raise ModelError(f"{count} labels do not fit {classes} sets of coefficients")
    return label, as_dtype(n, transformed(n, scores, transform), f32)


def _linear(n: NodeContext, x: Value, targets: int) -> Value:
    """x times the coefficients of each target, plus its intercept."""
    dtype, features = x.type.dtype.numpy, x.type.shape[1]
    coefficients = n.numbers("coefficients")
    if len(coefficients) != targets * features:
        raise ModelError(
            f"{len(coefficients)} coefficients do not fit {targets} targets of {features} features"
        )
    weight = n.constant(np.array(coefficients, dtype).reshape(targets, features).T)
    scores = n.emit(MatMul(), x, weight)
    intercepts = n.numbers("intercepts", ())
    if not intercepts:
        return scores
    return n.emit(Add(), scores, n.constant(np.array(intercepts, dtype)))


def _rows(n: NodeContext) -> Value:
    """The features as floats; a vector is one row."""
    x = as_floats(n, n[0])
    return x if x.type.rank == 2 else reshaped(n, x, (1, x.type.size))
