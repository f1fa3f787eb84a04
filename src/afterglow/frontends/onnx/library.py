"""What of ONNX's library few models need: other forms of tensors, and the types of values."""

from __future__ import annotations

from onnx import helper, numpy_helper, shape_inference

from afterglow.frontends.onnx.messages import ModelProto, TensorProto
from afterglow.types import Array

MOST_INFERRED_BYTES = 2**26
"""The size of a model, without the weights that stay in its file, whose types are inferred."""


def with_types(proto: ModelProto) -> ModelProto:
    """The model with types of values, where ONNX can tell them; itself if it is very large."""
    if proto.ByteSize() > MOST_INFERRED_BYTES:
        return proto
    try:
        return shape_inference.infer_shapes(proto)
    except (shape_inference.InferenceError, RuntimeError, ValueError):
        return proto  # which only makes the text say less


def count_numbers(tensor: TensorProto) -> int:
    """How many numbers the field has that holds elements of such a type."""
    return len(getattr(tensor, helper.tensor_dtype_to_field(tensor.data_type)))


def array_of(tensor: TensorProto) -> Array:
    """The elements of a tensor that holds all of them itself."""
    return numpy_helper.to_array(tensor)
