"""What is left of a model behind its cuts, as data that a file can hold, and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from afterglow.frontends.onnx.external import DataFiles
from afterglow.frontends.onnx.order import reads
from afterglow.frontends.onnx.parts import needed_indices
from afterglow.frontends.onnx.reader import ModelFile, tensors_of
from afterglow.frontends.onnx.signature import model_signature
from afterglow.frontends.onnx.wire import LARGE_BYTES, OWN_FILE
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.support.errors import UnsupportedError


@dataclass(frozen=True)
class Remainder:
    """A model without the data of its large tensors, and these data, one after the other."""

    graph: bytes | memoryview
    weights: bytes | memoryview

    def open(self) -> ModelFile:
        """The model; large tensors are views of the data."""
        proto = onnx.ModelProto.FromString(bytes(self.graph))
        return ModelFile(proto, DataFiles(memoryview(self.weights), None))


def remainder_of(
    file: ModelFile, cuts: Sequence[Collection[str]], values: Mapping[str, Any]
) -> Remainder:
    """What computes the outputs of a model once the values that cross one of the cuts are known.

    It takes the same inputs as the model, but for those whose `values` are always the same.
    """
    left = _without_first_parts(file, cuts, values)
    weights = bytearray()
    for tensor in tensors_of(left):
        _move_data(tensor, file.files, weights)
    return Remainder(left.SerializeToString(deterministic=True), bytes(weights))


def _without_first_parts(
    file: ModelFile, cuts: Sequence[Collection[str]], values: Mapping[str, Any]
) -> onnx.ModelProto:
    graph = file.proto.graph
    outputs = [output.name for output in graph.output]
    kept = set().union(*(needed_indices(graph, outputs, cut) for cut in cuts))
    nodes = [node for index, node in enumerate(graph.node) if index in kept]
    names = frozenset(outputs).union(*map(reads, nodes))
    inputs = {parameter.name for parameter in model_signature(file).inputs}.difference(values)
    left = onnx.ModelProto(ir_version=file.proto.ir_version, functions=file.proto.functions)
    left.opset_import.extend(file.proto.opset_import)
    left.graph.name = graph.name
    left.graph.node.extend(nodes)
    left.graph.input.extend(info for info in graph.input if info.name in inputs)
    left.graph.output.extend(graph.output)
    left.graph.initializer.extend(t for t in graph.initializer if t.name in names)
    left.graph.initializer.extend(_constant(n, x) for n, x in values.items() if n in names)
    sparse = graph.sparse_initializer
    left.graph.sparse_initializer.extend(t for t in sparse if t.values.name in names)
    return left


def _constant(name: str, value: Any) -> TensorProto:
    if not isinstance(value, np.ndarray):
        raise UnsupportedError(
            f"input {name!r} is bound to a {type(value).__name__}: such a model cannot be saved",
            help="bind tensors only, and give the others with each call",
        )
    return numpy_helper.from_array(value, name)


def _move_data(tensor: TensorProto, files: DataFiles, weights: bytearray) -> None:
    """Put the data of a large tensor behind the others, and note where it lies."""
    if tensor.data_location == TensorProto.EXTERNAL:
        data = files.bytes_of(tensor)
    elif len(tensor.raw_data) >= LARGE_BYTES:
        data = memoryview(tensor.raw_data)
    else:
        return
    weights.extend(bytes(-len(weights) % ALIGNMENT))
    place = {"location": OWN_FILE, "offset": len(weights), "length": len(data)}
    weights.extend(data)
    tensor.ClearField("raw_data")
    del tensor.external_data[:]
    tensor.external_data.extend(
        onnx.StringStringEntryProto(key=key, value=str(value)) for key, value in place.items()
    )
    tensor.data_location = TensorProto.EXTERNAL
