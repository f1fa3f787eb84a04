"""Small ONNX models for tests, written down shortly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
INT64 = TensorProto.INT64
BOOL = TensorProto.BOOL

node = helper.make_node


def tensor(name: str, array: object) -> TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def info(name: str, shape: Sequence[int | str | None] | None = (2, 3), type: int = FLOAT):
    return helper.make_tensor_value_info(name, type, shape)


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto | str] = ("x",),
    outputs: Sequence[onnx.ValueInfoProto | str] = ("y",),
    constants: Mapping[str, object] | None = None,
) -> onnx.GraphProto:
    """A graph; an input or output that is only named is f32[2, 3]."""

    def declared(values: Sequence[onnx.ValueInfoProto | str]) -> list[onnx.ValueInfoProto]:
        return [info(value) if isinstance(value, str) else value for value in values]

    tensors = [tensor(name, array) for name, array in (constants or {}).items()]
    return helper.make_graph(nodes, "test", declared(inputs), declared(outputs), tensors)


def body(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto | str],
    outputs: Sequence[str],
    constants: Mapping[str, object] | None = None,
) -> onnx.GraphProto:
    """A sub-graph, whose outputs need no types."""
    untyped = [onnx.ValueInfoProto(name=name) for name in outputs]
    return graph(nodes, inputs, untyped, constants)


def model(
    main: onnx.GraphProto | Sequence[onnx.NodeProto],
    *,
    opset: int = 17,
    domains: Mapping[str, int] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
    **parts: object,
) -> onnx.ModelProto:
    """A model of a graph, or of nodes and whatever else `graph` takes."""
    main = main if isinstance(main, onnx.GraphProto) else graph(main, **parts)
    versions = {"": opset, **(domains or {})}
    opsets = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    return helper.make_model(main, opset_imports=opsets, functions=functions, ir_version=8)
