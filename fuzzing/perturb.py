"""Tiny changes of the floats in models and inputs, to see which results depend on rounding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

RELATIVE = {2: 2e-3, 4: 1e-6, 8: 1e-6}
"""How much floats of so many bytes are changed at most, relative to their size."""


def perturbed_inputs(inputs: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Inputs with all floats changed a little."""
    return {name: perturbed(array, rng) for name, array in inputs.items()}


def perturbed_model(model: bytes, rng: np.random.Generator) -> bytes:
    """The model with all floats of its weights and constants changed a little."""
    proto = onnx.load_from_string(model)
    tensors = [*proto.graph.initializer]
    for node in proto.graph.node:
        tensors += [attribute.t for attribute in node.attribute if attribute.HasField("t")]
    for tensor in tensors:
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind == "f":
            tensor.CopyFrom(numpy_helper.from_array(perturbed(array, rng), tensor.name))
    return proto.SerializeToString()


def perturbed(array: Any, rng: np.random.Generator) -> Any:
    """An array with its floats changed a little; others as they are."""
    if array.dtype.kind != "f":
        return array
    share = RELATIVE.get(array.dtype.itemsize, 1e-6)
    with np.errstate(all="ignore"):
        return (array * (1 + share * rng.uniform(-1, 1, array.shape))).astype(array.dtype)
