"""Facts about a model, read from its file without importing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx

from afterglow.frontends.onnx import ModelFile, Signature, model_signature
from afterglow.frontends.onnx.elements import DTYPE_OF_ONNX
from afterglow.frontends.onnx.registry import ONNX, normal_domain, shown_domain
from afterglow.types import TensorType


@dataclass(frozen=True)
class Survey:
    """Facts about a model, read from its file."""

    producer: str
    ir_version: int
    opsets: dict[str, int]
    signature: Signature
    ops: dict[str, int]
    """Number of nodes per op, including those in bodies and functions; most frequent first."""
    unknown_ops: tuple[str, ...]
    """The ops that Afterglow cannot import."""
    element_types: tuple[str, ...]
    weight_bytes: int
    free_dimensions: tuple[str, ...]
    """The dynamic dimensions of inputs; `?` for one without a name."""
    nodes: tuple[tuple[str, str], ...]
    """Names and ops of nodes, including those in bodies, but not those in functions."""

    def data(self) -> dict[str, Any]:
        """The JSON representation."""
        return {
            "producer": self.producer,
            "ir_version": self.ir_version,
            "opsets": self.opsets,
            "inputs": [_parameter_data(p) for p in self.signature.inputs],
            "outputs": [_parameter_data(p) for p in self.signature.outputs],
            "nodes": sum(self.ops.values()),
            "ops": self.ops,
            "unknown_ops": list(self.unknown_ops),
            "element_types": list(self.element_types),
            "weight_bytes": self.weight_bytes,
            "free_dimensions": list(self.free_dimensions),
        }


def _parameter_data(parameter: Any) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "kind": parameter.kind.value,
        "element_type": None if parameter.dtype is None else parameter.dtype.name,
        "shape": None if parameter.shape is None else list(parameter.shape),
    }


def survey(file: ModelFile) -> Survey:
    """Collect the facts about a model."""
    proto = file.proto
    signature = model_signature(file.definition)
    nodes = list(_all_nodes(proto))
    tensors = [*proto.graph.initializer, *_constants(nodes)]
    types = [DTYPE_OF_ONNX[t.data_type] for t in tensors if t.data_type in DTYPE_OF_ONNX]
    declared = [p.dtype for p in (*signature.inputs, *signature.outputs) if p.dtype is not None]
    ops = Counter(_op_name(node) for node in nodes)
    return Survey(
        producer=" ".join(filter(None, map(_text, (proto.producer_name, proto.producer_version)))),
        ir_version=proto.ir_version,
        opsets={shown_domain(_text(o.domain)): o.version for o in proto.opset_import},
        signature=signature,
        ops=dict(sorted(ops.items(), key=lambda entry: (-entry[1], entry[0]))),
        unknown_ops=tuple(dict.fromkeys(_unknown(proto, nodes))),
        element_types=tuple(sorted({dtype.name for dtype in (*types, *declared)})),
        weight_bytes=sum(map(_nbytes, tensors)),
        free_dimensions=_free_dimensions(signature),
        nodes=tuple((_label(node), _op_name(node)) for node in _nodes(proto.graph.node)),
    )


def _free_dimensions(signature: Signature) -> tuple[str, ...]:
    extents = [e for p in signature.inputs for e in (p.shape if p.shape is not None else ("…",))]
    return tuple(dict.fromkeys(e or "?" for e in extents if not isinstance(e, int)))


def _all_nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Every node of the graph, of the bodies in it, and of the model's own functions."""
    yield from _nodes(proto.graph.node)
    for function in proto.functions:
        yield from _nodes(function.node)


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    pending = list(reversed(list(nodes)))
    while pending:
        node = pending.pop()
        yield node
        for attribute in node.attribute:
            pending.extend(attribute.g.node)
            pending.extend(inner for graph in attribute.graphs for inner in graph.node)


def _constants(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        if node.op_type == "Constant":
            yield from (a.t for a in node.attribute if a.type == onnx.AttributeProto.TENSOR)


def _nbytes(tensor: onnx.TensorProto) -> int:
    dtype = DTYPE_OF_ONNX.get(tensor.data_type)
    shape = tuple(tensor.dims)
    return 0 if dtype is None or any(n < 0 for n in shape) else TensorType(dtype, shape).nbytes


def _op_name(node: onnx.NodeProto) -> str:
    domain, op = normal_domain(_text(node.domain)), _text(node.op_type)
    return f"{domain}.{op}" if domain else op


def _label(node: onnx.NodeProto) -> str:
    """The origin of nodes that are imported from this one."""
    return _text(node.name or next((output for output in node.output if output), ""))


def _text(field: str | bytes) -> str:
    """A string field; protobuf returns bytes if it is not UTF-8."""
    return field.decode("utf-8", "replace") if isinstance(field, bytes) else field


def _unknown(proto: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """The ops that have no importer, and no function in the model or in the ONNX standard."""
    versions = {normal_domain(o.domain): o.version for o in proto.opset_import}
    own = {(normal_domain(f.domain), f.name) for f in proto.functions}
    for node in nodes:
        domain = normal_domain(node.domain)
        version = versions.get(domain, 1)
        if (domain, node.op_type) not in own and not ONNX.knows(domain, node.op_type, version):
            yield _op_name(node)
