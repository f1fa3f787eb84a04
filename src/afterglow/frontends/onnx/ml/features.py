"""Preparing features: scaling, filling in, encoding, picking and joining columns."""

from __future__ import annotations

import math

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.importers.text import text_array
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Op, Value
from afterglow.ops import elementwise as e
from afterglow.ops.functions import Sqrt
from afterglow.ops.indexing import Gather
from afterglow.ops.movement import Concat, Pad, slice_axis
from afterglow.ops.reduction import ReduceMax, ReduceSum
from afterglow.support.errors import ModelError
from afterglow.types.dtype import f32, f64, i64, string

DOMAIN = "ai.onnx.ml"


def as_floats(n: NodeContext, x: Value) -> Value:
    """Numbers as the float type to compute in: double precision only if x has it."""
    return as_dtype(n, x, f64 if x.type.dtype is f64 else f32)


@onnx_op("Scaler", domain=DOMAIN)
def scaler(n: NodeContext) -> Value:
    """(x - offset) * scale."""
    x = as_floats(n, n[0])
    for name, op in (("offset", e.Sub()), ("scale", e.Mul())):
        numbers = n.numbers(name, ())
        if numbers:
            x = n.emit(op, x, n.constant(np.array(numbers, x.type.dtype.numpy)))
    return as_dtype(n, x, f32)


@onnx_op("Normalizer", domain=DOMAIN)
def normalizer(n: NodeContext) -> Value:
    """Each row over its largest element, or over its norm; rows of zeros stay as they are."""
    x, norm = as_floats(n, n[0]), n.text("norm", "MAX")
    last = (x.type.rank - 1,)
    if norm == "MAX":
        size = n.emit(ReduceMax(last, keepdims=True), x)
    elif norm == "L1":
        size = n.emit(ReduceSum(last, keepdims=True), n.emit(e.Abs(), x))
    else:
        size = n.emit(Sqrt(), n.emit(ReduceSum(last, keepdims=True), n.emit(e.Mul(), x, x)))
    zero, one = (n.constant(np.array(c, x.type.dtype.numpy)) for c in (0, 1))
    divisor = n.emit(e.Where(), n.emit(e.Equal(), size, zero), one, size)
    return as_dtype(n, n.emit(e.Div(), x, divisor), f32)


@onnx_op("Binarizer", domain=DOMAIN)
def binarizer(n: NodeContext) -> Value:
    """Whether each number is greater than the threshold, which may be a fraction."""
    x = n[0]
    numbers = x if x.type.dtype.is_float else as_dtype(n, x, f64)
    limit = n.constant(np.array(n.number("threshold", 0.0), numbers.type.dtype.numpy))
    return as_dtype(n, n.emit(e.Less(), limit, numbers), x.type.dtype)


@onnx_op("Imputer", domain=DOMAIN)
def imputer(n: NodeContext) -> Value:
    """Fill in what is missing: what equals one value, which may be NaN."""
    x, dtype = n[0], n[0].type.dtype.numpy
    if n[0].type.dtype.is_float:
        filler, missing = n.numbers("imputed_value_floats"), n.number("replaced_value_float", 0.0)
    else:
        filler, missing = (
            n.integers("imputed_value_int64s"),
            n.integer("replaced_value_int64", 0),
        )
    if math.isnan(missing):
        is_missing = n.emit(e.IsNaN(), x)
    else:
        is_missing = n.emit(e.Equal(), x, n.constant(np.array(missing, dtype)))
    return n.emit(e.Where(), is_missing, n.constant(np.array(filler, dtype)), x)


@onnx_op("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(n: NodeContext) -> Value:
    """A new last axis with a one where the category is; an unknown one has zeros alone.

    The standard lets an unknown category be an error, which nothing that is compiled can raise.
    """
    x = n[0]
    if x.type.dtype is string:
        categories = n.constant(text_array(n.texts("cats_strings")))
    else:
        x = as_dtype(n, x, i64)
        categories = n.constant(np.array(n.integers("cats_int64s"), np.int64))
    column = reshaped(n, x, (*x.type.shape, 1))
    return as_dtype(n, n.emit(e.Equal(), column, categories), f32)


@onnx_op("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(n: NodeContext) -> Value:
    """Columns by their numbers; a vector is taken for one row."""
    x, indices = n[0], n[1]
    row = x if x.type.rank > 1 else reshaped(n, x, (1, x.type.size))
    return n.emit(Gather(row.type.rank - 1), row, reshaped(n, indices, (indices.type.size,)))


@onnx_op("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(n: NodeContext) -> Value:
    """Columns side by side, each operand cut or filled up with zeros to its declared width."""
    widths = n.integers("inputdimensions", [x.type.shape[-1] for x in n.values()])
    if len(widths) != len(n):
        raise ModelError(f"it has {len(n)} inputs, but {len(widths)} widths")
    parts = [_as_wide(n, x, width) for x, width in zip(n.values(), widths, strict=True)]
    return n.emit(Concat(1), *parts)


def _as_wide(n: NodeContext, x: Value, width: int) -> Value:
    x = as_dtype(n, x, f32)
    if x.type.rank == 1:
        x = reshaped(n, x, (1, x.type.size))
    missing = width - x.type.shape[1]
    op: Op = Pad((0, 0), (0, missing)) if missing > 0 else slice_axis(x.type, 1, 0, width)
    return n.emit(op, x) if missing else x
