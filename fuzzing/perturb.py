"""Tiny changes of the floats in models and inputs, to see which results depend on rounding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
RELATIVE = {2: 2e-3, 4: 1e-6, 8: 1e-6}
"""How much floats of so many bytes are changed at most, relative to their size."""


def perturbed_inputs(inputs: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Inputs with all floats changed a little."""
    return {name: perturbed(array, rng) for name, array in inputs.items()}


def perturbed_model(model: bytes, rng: np.random.Generator) -> bytes:
    """The model with all floats changed a little: weights, constants, and results of nodes."""
    proto = onnx.load_from_string(model)
    tensors = [*proto.graph.initializer]
    for node in proto.graph.node:
        tensors += [attribute.t for attribute in node.attribute if attribute.HasField("t")]
    for tensor in tensors:
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind == "f":
            tensor.CopyFrom(numpy_helper.from_array(perturbed(array, rng), tensor.name))
    _perturb_results(proto, rng)
    return proto.SerializeToString()


def _perturb_results(proto: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Multiply the results of nodes that are known to be floats by random numbers near one."""
    graph = onnx.shape_inference.infer_shapes(proto).graph
    infos = [*graph.value_info, *graph.output]
    floats = {info.name for info in infos if info.type.tensor_type.elem_type in FLOATS}
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    for node in nodes:
        outputs = list(node.output)
        del node.output[:]
        node.output.extend(f"{name} exact" if name in floats else name for name in outputs)
        proto.graph.node.append(node)
        for name in floats.intersection(outputs):
            proto.graph.node.extend(_nearly(f"{name} exact", name, float(rng.random())))


def _nearly(exact: str, name: str, seed: float) -> list[onnx.NodeProto]:
    """Nodes that multiply a value by random numbers near one, of whatever shape it has."""
    share = RELATIVE[4]
    near = onnx.helper.make_node(
        "RandomUniformLike", [exact], [f"{name} near 1"], low=1 - share, high=1 + share, seed=seed
    )
    return [near, onnx.helper.make_node("Mul", [exact, f"{name} near 1"], [name])]


def perturbed(array: Any, rng: np.random.Generator) -> Any:
    """An array with its floats changed a little; others as they are."""
    if array.dtype.kind != "f":
        return array
    share = RELATIVE.get(array.dtype.itemsize, 1e-6)
    with np.errstate(all="ignore"):
        return (array * (1 + share * rng.uniform(-1, 1, array.shape))).astype(array.dtype)
