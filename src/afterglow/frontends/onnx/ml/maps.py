"""Maps: dictionaries that a model takes or returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.definition.context import KnownMap, NodeContext, RowMaps
from afterglow.frontends.onnx.importers.text import text_array
from afterglow.frontends.onnx.ml.features import DOMAIN
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.support.errors import ModelError
from afterglow.types import Array, DType
from afterglow.types.dtype import f32, i64, string

_CASTS: dict[str, DType] = {"TO_FLOAT": f32, "TO_INT64": i64, "TO_STRING": string}


@onnx_op("ZipMap", domain=DOMAIN)
def zip_map(n: NodeContext) -> RowMaps:
    """A map from labels to scores for each row."""
    strings = n.texts("classlabels_strings", ())
    keys: tuple[int | str, ...] = strings or n.integers("classlabels_int64s")
    rows = n[0] if n[0].type.rank == 2 else reshaped(n, n[0], (1, n[0].type.size))
    if rows.type.shape[1] != len(keys):
        raise ModelError(f"{len(keys)} labels do not fit {rows.type}")
    return RowMaps(keys, rows)


@onnx_op("DictVectorizer", domain=DOMAIN)
def dict_vectorizer(n: NodeContext) -> Value:
    """The value of each word of a vocabulary, in its order; 0 for one that the map lacks."""
    entries = _known_map(n)
    words = n.attribute("string_vocabulary") or n.attribute("int64_vocabulary") or ()
    unknown = [key for key in entries if key not in words]
    if unknown:
        raise ModelError(f"the map has the key {unknown[0]!r}, which is not in the vocabulary")
    values = _values(list(entries.values()))
    zero = "" if values.dtype == object else values.dtype.type(0)
    found = dict(zip(entries, values, strict=True))
    return n.constant(np.array([found.get(word, zero) for word in words], values.dtype))


@onnx_op("CastMap", domain=DOMAIN)
def cast_map(n: NodeContext) -> Value:
    """The values by ascending keys, as one row; if it is sparse, each at the place of its key."""
    entries = _known_map(n)
    keys = sorted(entries)
    values = _values([entries[key] for key in keys])
    if n.text("map_form", "DENSE") == "SPARSE":
        places = np.full(n.integer("max_map", 1), "" if values.dtype == object else 0, values.dtype)
        places[np.array(keys, np.int64)] = values
        values = places
    row = n.constant(values.reshape(1, -1))
    return as_dtype(n, row, n.choice("cast_to", _CASTS, "TO_FLOAT"))


def _known_map(n: NodeContext) -> dict[Any, Any]:
    operand = n.operands[0] if n.operands else None
    if not isinstance(operand, KnownMap):
        raise ModelError("input 0 must be a map")
    return dict(operand.entries)


def _values(values: list[Any]) -> Array:
    """As an array: Python's floats are the standard's, of 32 bits."""
    if any(isinstance(value, str) for value in values):
        return text_array(values)
    array = np.array(values)
    return array.astype(np.float32) if all(type(v) is float for v in values) else array
