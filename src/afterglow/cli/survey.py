"""Facts about a model, from its definition: nothing is imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from afterglow.frontends.definition.model import ModelDef, NodeDef, TensorDef
from afterglow.frontends.definition.signature import Signature, model_signature
from afterglow.support.errors import AfterglowError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType


@dataclass(frozen=True)
class Survey:
    """Facts about a model, read from its file."""

    format: str
    """The name of the front end that read it."""
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
            "format": self.format,
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


def survey(model: ModelDef) -> Survey:
    """Collect the facts about a model."""
    signature = model_signature(model)
    nodes = list(_all_nodes(model))
    types = [*filter(None, map(_type_of, _tensors(model, nodes)))]
    declared = [p.dtype for p in (*signature.inputs, *signature.outputs) if p.dtype is not None]
    ops = Counter(map(_op_name, nodes))
    shown = model.dialect.shown_domain
    return Survey(
        format=model.dialect.name,
        producer=model.producer,
        ir_version=model.ir_version,
        opsets={shown(domain): version for domain, version in model.opset_import},
        signature=signature,
        ops=dict(sorted(ops.items(), key=lambda entry: (-entry[1], entry[0]))),
        unknown_ops=tuple(dict.fromkeys(_unknown(model, nodes))),
        element_types=tuple(sorted({d.name for d in (*(t.dtype for t in types), *declared)})),
        weight_bytes=sum(type.nbytes for type in types),
        free_dimensions=_free_dimensions(signature),
        nodes=tuple((node.label, _op_name(node)) for node in _nodes(model.graph.node)),
    )


def _free_dimensions(signature: Signature) -> tuple[str, ...]:
    extents = [e for p in signature.inputs for e in (p.shape if p.shape is not None else ("…",))]
    return tuple(dict.fromkeys(e or "?" for e in extents if not isinstance(e, int)))


def _all_nodes(model: ModelDef) -> Iterator[NodeDef]:
    """Every node of the graph, of the bodies in it, and of the model's own functions."""
    yield from _nodes(model.graph.node)
    for function in model.functions:
        yield from _nodes(function.node)


def _nodes(nodes: Sequence[NodeDef]) -> Iterator[NodeDef]:
    pending = [*reversed(nodes)]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(inner for graph in node.graphs() for inner in graph.node)


def _tensors(model: ModelDef, nodes: Iterable[NodeDef]) -> Iterator[TensorDef]:
    """The constants of the graph, and those that nodes have as attributes."""
    yield from model.graph.constants
    for node in nodes:
        values = (attribute.value for attribute in node.attributes.values())
        yield from (value for value in values if isinstance(value, TensorDef))


def _type_of(tensor: TensorDef) -> TensorType | None:
    """What a tensor is; None if it is malformed, which importing it will tell."""
    try:
        return tensor.type
    except AfterglowError:
        return None


def _op_name(node: NodeDef) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def _unknown(model: ModelDef, nodes: Iterable[NodeDef]) -> Iterator[str]:
    """The ops that have no importer, and no function in the model or in a standard."""
    versions = dict(model.opset_import)
    own = {(function.domain, function.name) for function in model.functions}
    for node in nodes:
        version = versions.get(node.domain, 1)
        known = (node.domain, node.op_type) in own
        if not known and not model.dialect.knows(node.domain, node.op_type, version):
            yield _op_name(node)
