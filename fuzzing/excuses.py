"""Reasons for which engines may disagree about a valid model, none of them a fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, ValueInfoProto, numpy_helper
from onnx.reference import ReferenceEvaluator

import afterglow as ag
from fuzzing.compare import compare
from fuzzing.kind import Mismatch, Skipped
from fuzzing.perturb import perturbed_inputs, perturbed_model

Run = Callable[[bytes, Mapping[str, Any]], list[Any]]
PERTURBATIONS = 3


def is_unstable(want: list[Any], model: bytes, inputs: Mapping[str, Any], run: Run) -> bool:
    """Whether a change in the last bits of inputs and weights changes the results as much."""
    for seed in range(PERTURBATIONS):
        rng = np.random.default_rng(seed)
        try:
            found = run(perturbed_model(model, rng), perturbed_inputs(inputs, rng))
            compare("", found, want, 0.3)
        except Mismatch:
            return True
        except (Skipped, ag.AfterglowError):
            continue
    return False


def is_infinite_inside(model: bytes, inputs: Mapping[str, Any], run: Run) -> bool:
    """Whether some value on the way is NaN or infinite: engines differ in what they make of it."""
    proto = onnx.load_from_string(model)
    given = {info.name for info in proto.graph.output}
    made = [name for node in proto.graph.node for name in node.output if name not in given]
    proto.graph.output.extend(ValueInfoProto(name=name) for name in made if name)
    try:
        values = run(proto.SerializeToString(), inputs)
    except (Skipped, ag.AfterglowError):
        return False
    floats = [value for value in values if value.dtype.kind == "f"]
    return not all(np.isfinite(value).all() for value in floats)


def is_as_defined(ours: list[Any], model: bytes, inputs: Mapping[str, Any]) -> bool:
    """Whether ONNX's own reference implementation computes the same."""
    try:
        defined = ReferenceEvaluator(onnx.load_from_string(model)).run(None, dict(inputs))
        compare("", ours, defined)
    except Exception:  # it has gaps of its own
        return False
    return True


def in_single_floats(model: bytes) -> bytes | None:
    """The model in float32 where it is in float16; None if it is nowhere."""
    proto = onnx.load_from_string(model)
    graph = proto.graph
    attributes = [attribute for node in graph.node for attribute in node.attribute]
    tensors = [*graph.initializer, *(a.t for a in attributes if a.HasField("t"))]
    halves = [tensor for tensor in tensors if tensor.data_type == TensorProto.FLOAT16]
    types = [info.type.tensor_type for info in (*graph.input, *graph.output, *graph.value_info)]
    declared = [kind for kind in types if kind.elem_type == TensorProto.FLOAT16]
    casts = [a for a in attributes if a.name == "to" and a.i == TensorProto.FLOAT16]
    if not (halves or declared or casts):
        return None
    for tensor in halves:
        wide = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    for kind in declared:
        kind.elem_type = TensorProto.FLOAT
    for cast in casts:
        cast.i = TensorProto.FLOAT
    return proto.SerializeToString()
