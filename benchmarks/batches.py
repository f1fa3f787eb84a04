"""A model for several items at once, made of one whose file has a fixed batch of 1."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import numpy_helper

SHAPED = ("Reshape", "Expand")
"""Ops whose second operand is a shape, which may begin with the batch."""


class NoBatchError(Exception):
    """A model has no axis of items, or its nodes do not keep it."""


def rebatched(model: onnx.ModelProto, batch: int) -> onnx.ModelProto:
    """The model with a first axis of so many items wherever it had one of 1."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    weights = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if value.name not in weights:
            _widen(value, batch)
    _widen_shapes(graph, batch)
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        made = onnx.shape_inference.infer_shapes(made, check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError as error:
        raise NoBatchError(f"it cannot compute {batch} items at once: {error}") from error
    for value in made.graph.output:
        dims = value.type.tensor_type.shape.dim
        if not dims or dims[0].dim_value != batch:
            raise NoBatchError(f"output {value.name!r} has no axis of items")
    return made


def write_rebatched(path: Path, batch: int, folder: Path) -> Path:
    """A file with the model for so many items."""
    target = folder / f"{path.stem}-{batch}.onnx"
    onnx.save(rebatched(onnx.load(path), batch), target)
    return target


def _widen(value: onnx.ValueInfoProto, batch: int) -> None:
    dims = value.type.tensor_type.shape.dim
    if not dims or (dims[0].HasField("dim_value") and dims[0].dim_value != 1):
        raise NoBatchError(f"input {value.name!r} has no axis of items")
    dims[0].dim_value = batch


def _widen_shapes(graph: onnx.GraphProto, batch: int) -> None:
    """Shapes that begin with 1, where nodes are given them as constants."""
    shapes = {node.input[1] for node in graph.node if node.op_type in SHAPED}
    for tensor in graph.initializer:
        shape = numpy_helper.to_array(tensor).copy() if tensor.name in shapes else None
        if shape is not None and shape.ndim == 1 and shape.size and shape[0] == 1:
            shape[0] = batch
            tensor.CopyFrom(numpy_helper.from_array(shape, tensor.name))
