"""Support vector machines: kernels against the support vectors, then products."""

from __future__ import annotations

from itertools import accumulate, combinations

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.ml.features import DOMAIN
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
from afterglow.ops import elementwise as e
from afterglow.ops.activation import Clip, Sigmoid
from afterglow.ops.coupling import PairwiseCoupling
from afterglow.ops.functions import Exp, Tanh
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.power import Pow
from afterglow.ops.reduction import ReduceSum
from afterglow.support.errors import ModelError
from afterglow.types import Array
from afterglow.types.dtype import f32, f64

_LEAST = 1e-7
"""A probability of a pair is at least this, and so at most 1 less it."""


@onnx_op("SVMRegressor", domain=DOMAIN)
def svm_regressor(n: NodeContext) -> Value:
    """A weighted sum of kernels; as a detector of outliers, only its sign."""
    x, supports = _rows(n), n.integer("n_supports", 0)
    coefficients = np.array(n.numbers("coefficients"))
    if supports:
        x = _kernel(n, x, np.array(n.numbers("support_vectors")).reshape(supports, -1))
    score = _product(n, x, coefficients.reshape(1, -1), np.array(n.numbers("rho", (0.0,)))[:1])
    if n.integer("one_class", 0):
        inside = n.emit(e.Less(), number(n, 0.0, score), score)
        score = n.emit(e.Where(), inside, number(n, 1.0, score), number(n, -1.0, score))
    return as_dtype(n, transformed(n, score, n.text("post_transform", "NONE")), f32)


@onnx_op("SVMClassifier", domain=DOMAIN)
def svm_classifier(n: NodeContext) -> tuple[Value, Value]:
    """A vote of every pair of classes; without support vectors, a score of each class."""
    labels = class_labels(n, "classlabels_ints")
    transform = n.text("post_transform", "NONE")
    if not any(n.integers("vectors_per_class", ())):
        scores = _linear_scores(n, labels.type.size)
        label = best_label(n, scores, labels)
        return label, as_dtype(n, transformed(n, scores, transform), f32)
    scores = _pair_scores(n, labels.type.size)
    label = label_at(n, _most_votes(n, scores, labels.type.size), labels)
    if n.numbers("prob_a", ()):
        scores = _probabilities(n, scores, labels.type.size)
    elif scores.type.shape[1] == 1:
        scores = both_classes(n, scores, is_probability=False)
    return label, as_dtype(n, transformed(n, scores, transform), f32)


def _rows(n: NodeContext) -> Value:
    """In double precision, as kernels take differences of large numbers; a vector is one row."""
    x = as_dtype(n, n[0], f64)
    return x if x.type.rank == 2 else reshaped(n, x, (1, x.type.size))


def _product(n: NodeContext, x: Value, weights: Array, offsets: Array) -> Value:
    """x times the weights of each score, plus its offset."""
    if weights.shape[1] != x.type.shape[1]:
        raise ModelError(f"{weights.shape[1]} coefficients of a score do not fit {x.type}")
    scores = n.emit(MatMul(), x, n.constant(weights.T.astype(np.float64)))
    return n.emit(e.Add(), scores, n.constant(offsets.astype(np.float64)))


def _kernel(n: NodeContext, x: Value, vectors: Array) -> Value:
    """The kernel of each row and each support vector."""
    kind = n.text("kernel_type", "LINEAR")
    gamma, offset, degree = n.numbers("kernel_params", (0.0, 0.0, 0.0))
    products = n.emit(MatMul(), x, n.constant(vectors.T.astype(np.float64)))
    if kind == "LINEAR":
        return products
    if kind == "RBF":
        norms = n.emit(ReduceSum((1,), keepdims=True), n.emit(e.Mul(), x, x))
        own = n.constant((vectors.astype(np.float64) ** 2).sum(1))
        doubled = n.emit(e.Mul(), products, number(n, 2.0, x))
        distance = n.emit(e.Sub(), n.emit(e.Add(), norms, own), doubled)
        return n.emit(Exp(), n.emit(e.Mul(), distance, number(n, -gamma, x)))
    scaled = n.emit(e.Mul(), products, number(n, gamma, x))
    shifted = n.emit(e.Add(), scaled, number(n, offset, x))
    if kind == "SIGMOID":
        return n.emit(Tanh(), shifted)
    if kind == "POLY":
        return n.emit(Pow(), shifted, number(n, float(int(degree)), x))
    raise ModelError(f"there is no kernel {kind!r}")


def _linear_scores(n: NodeContext, classes: int) -> Value:
    """The scores of classes that have coefficients for the features themselves."""
    weights = np.array(n.numbers("coefficients")).reshape(max(classes, 1), -1)
    return _product(n, _rows(n), weights, np.array(n.numbers("rho"))[:1])


def _pair_scores(n: NodeContext, classes: int) -> Value:
    """A score for each pair of classes: above 0 for the first, else for the second."""
    counts = n.integers("vectors_per_class")
    if len(counts) != classes:
        raise ModelError(f"there are support vectors of {len(counts)} classes, {classes} labels")
    bounds = [0, *accumulate(counts)]
    vectors = np.array(n.numbers("support_vectors")).reshape(bounds[-1], -1)
    coefficients = np.array(n.numbers("coefficients")).reshape(-1, bounds[-1])
    pairs = [*combinations(range(classes), 2)]
    weights = np.zeros((len(pairs), bounds[-1]))
    for row, (i, j) in zip(weights, pairs, strict=True):
        of_i, of_j = slice(*bounds[i : i + 2]), slice(*bounds[j : j + 2])
        row[of_i] = coefficients[j - 1, of_i]
        row[of_j] = coefficients[i, of_j]
    kernels = _kernel(n, _rows(n), vectors)
    return _product(n, kernels, weights, np.array(n.numbers("rho"))[: len(pairs)])


def _most_votes(n: NodeContext, scores: Value, classes: int) -> Value:
    """The class that wins most pairs; the first of equal ones."""
    pairs = [*combinations(range(classes), 2)]
    gains = np.zeros((len(pairs), classes))
    for row, (i, j) in zip(gains, pairs, strict=True):
        row[i], row[j] = 1, -1
    wins = as_dtype(n, n.emit(e.Less(), number(n, 0.0, scores), scores), f64)
    votes = n.emit(MatMul(), wins, n.constant(gains))
    lost = n.constant((gains < 0).sum(0).astype(np.float64))  # votes if all pairs went that way
    return best_label(n, n.emit(e.Add(), votes, lost), n.constant(np.arange(classes)))


def _probabilities(n: NodeContext, scores: Value, classes: int) -> Value:
    """Platt's sigmoid for each pair, then the probabilities that agree with all of them."""
    a, b = (n.constant(-np.array(n.numbers(name))) for name in ("prob_a", "prob_b"))
    logits = n.emit(e.Add(), n.emit(e.Mul(), scores, a), b)
    first = n.emit(Clip(_LEAST, 1 - _LEAST), n.emit(Sigmoid(), logits))
    rows = scores.type.shape[0]
    place, sign, offset = (np.zeros((classes, classes)) for _ in range(3))
    for index, (i, j) in enumerate(combinations(range(classes), 2)):
        place[i, j] = place[j, i] = index
        sign[i, j], sign[j, i], offset[j, i] = 1, -1, 1
    spread = n.emit(Gather(1), first, n.constant(place.reshape(-1).astype(np.int64)))
    signed = n.emit(e.Mul(), spread, n.constant(sign.reshape(-1)))
    table = n.emit(e.Add(), signed, n.constant(offset.reshape(-1)))
    return n.emit(PairwiseCoupling(), reshaped(n, table, (rows, classes, classes)))
