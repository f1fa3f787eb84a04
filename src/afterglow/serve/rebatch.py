"""ONNX models that were exported for one row: the same model for a dynamic number of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper

BATCH = "batch"
"""What the number of rows is called in models that have no name for it."""
LARGEST = 1 << 30
"""Bytes of a model that is rewritten in memory at most."""


def first_dims(path: Path) -> list[list[Any]]:
    """The first extent of each input and of each output: a number, a name, or None."""
    graph = onnx.load(str(path), load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    return [[_first(value) for value in values] for values in (inputs, graph.output)]


def _first(value: Any) -> Any:
    dims = value.type.tensor_type.shape.dim
    if not value.type.HasField("tensor_type") or not dims:
        return None
    return dims[0].dim_param or (dims[0].dim_value if dims[0].HasField("dim_value") else BATCH)


def with_free_batch(path: Path) -> Any | None:
    """The model with `batch` as the first extent of its inputs and outputs; None if too large.

    Shapes that reshapes have as constants say 0, which copies the extent, where they said 1.
    Whether the rows are computed independently of each other is for the caller to check.
    """
    model = onnx.load(str(path))
    if model.ByteSize() > LARGEST:
        return None
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    for value in (*graph.input, *graph.output):
        if value.name not in weights:
            value.type.tensor_type.shape.dim[0].dim_param = BATCH
    del graph.value_info[:]
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {
        node.output[0]: attribute.t
        for node in graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
    }
    for node in graph.node:
        if node.op_type == "Reshape" and not any(
            a.name == "allowzero" and a.i for a in node.attribute
        ):
            _free_first(constants.get(node.input[1]))
    return model


def _free_first(shape: Any) -> None:
    """Have a constant shape copy its first extent instead of being 1 there."""
    values = None if shape is None else numpy_helper.to_array(shape).copy()
    if values is not None and values.ndim == 1 and values.size > 1 and values[0] == 1:
        values[0] = 0
        shape.CopyFrom(numpy_helper.from_array(values, shape.name))
