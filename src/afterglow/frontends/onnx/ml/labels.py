"""Labels: texts and numbers that stand for each other."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.importers.text import text_array
from afterglow.frontends.onnx.ml.features import DOMAIN
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.vocabulary import LookUp
from afterglow.support.errors import ModelError
from afterglow.types import Array
from afterglow.types.dtype import string

_UNKNOWN_TEXT = "_Unused"


@onnx_op("LabelEncoder", domain=DOMAIN)
def label_encoder_1(n: NodeContext) -> Value:
    """The first version maps between texts and their positions in a list."""
    texts = text_array(n.texts("classes_strings"))
    return _between(n, texts, np.arange(texts.size))


@onnx_op("CategoryMapper", domain=DOMAIN)
def category_mapper(n: NodeContext) -> Value:
    """Texts and integers that stand for each other: the operand says which way."""
    numbers = np.array(n.integers("cats_int64s"), np.int64)
    return _between(n, text_array(n.texts("cats_strings")), numbers)


def _between(n: NodeContext, texts: Array, numbers: Array) -> Value:
    if n[0].type.dtype is string:
        return _looked_up(n, texts, numbers, np.array(n.integer("default_int64", -1)))
    unknown = text_array(n.text("default_string", _UNKNOWN_TEXT))
    return _looked_up(n, numbers, texts, unknown)


@onnx_op("LabelEncoder", domain=DOMAIN, since=2)
def label_encoder(n: NodeContext) -> Value:
    """Any keys to any values."""
    values = _listed(n, "values")
    return _looked_up(n, _listed(n, "keys"), values, _default(n, values))


def _looked_up(n: NodeContext, keys: Array, values: Array, default: Array) -> Value:
    return n.emit(LookUp(), n[0], *map(n.constant, (keys, values, default)))


def _listed(n: NodeContext, name: str) -> Array:
    """A list, under one of the names that it has for each element type."""
    if n.has(f"{name}_tensor"):
        return n.tensor(f"{name}_tensor").reshape(-1)
    if n.has(f"{name}_strings"):
        return text_array(n.texts(f"{name}_strings"))
    if n.has(f"{name}_int64s"):
        return np.array(n.integers(f"{name}_int64s"), np.int64)
    if n.has(f"{name}_floats"):
        return np.array(n.numbers(f"{name}_floats"), np.float32)
    raise ModelError(f"it has no {name}")


def _default(n: NodeContext, values: Array) -> Array:
    """What stands for an unknown key: by the element type of the values."""
    if n.has("default_tensor"):
        default = n.tensor("default_tensor")
        if default.size != 1:
            raise ModelError(f"default_tensor must hold one element, it holds {default.size}")
        return default.reshape(())
    match values.dtype.kind:
        case "O":
            return text_array(n.text("default_string", _UNKNOWN_TEXT))
        case "f":
            return np.array(n.number("default_float", -0.0), values.dtype)
    return np.array(n.integer("default_int64", -1), values.dtype)
