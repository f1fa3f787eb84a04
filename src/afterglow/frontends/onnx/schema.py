"""What the standard says about ops: their schemas, and functions of other ops that define them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, TypeAlias

import onnx
from onnx import defs, helper, numpy_helper

from afterglow.frontends.definition.context import (
    ComplexParts,
    GrownTensor,
    Imported,
    KnownMap,
    NodeContext,
    RowList,
    RowMaps,
    StaticSequence,
)
from afterglow.frontends.definition.model import (
    AttributeDef,
    AttributeKind,
    FunctionDef,
    GraphDef,
    NodeDef,
)
from afterglow.frontends.definition.problems import GrownReadError
from afterglow.frontends.onnx.registry import normal_domain, shown_domain
from afterglow.frontends.onnx.translate import translate_attribute, translate_function
from afterglow.graph import Value
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.types.onnx_elements import ONNX_OF_DTYPE

Schema: TypeAlias = Any
"""An `onnx.defs.OpSchema`, whose own type says nothing of functions."""


def newest_opset() -> int:
    """The newest version of ai.onnx that is known."""
    return defs.onnx_opset_version()


def find_schema(domain: str, op_type: str, opset: int) -> Schema:
    """What the standard says about an op at a version; None if it does not have it."""
    if not 0 < opset < 2**31:
        return None
    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None


def has_function(schema: Schema) -> bool:
    """Whether the standard defines the op by other ops."""
    return bool(schema.has_function or schema.has_context_dependent_function)


def missing_op(domain: str, op_type: str, opset: int) -> AfterglowError:
    """Why there is nothing to import a node with."""
    if find_schema(domain, op_type, opset) is not None:
        return UnsupportedError("this op is not supported", help="replace it by supported ops")
    if domain in _standard_domains():
        return ModelError(f"{shown_domain(domain)} version {opset} has no such op")
    return UnsupportedError(
        f"this op is not supported; its domain is {domain!r}",
        help="declare it with ag.op, add it to the model as a function, or replace it",
    )


@cache
def _standard_domains() -> frozenset[str]:
    return frozenset(normal_domain(schema.domain) for schema in defs.get_all_schemas())


def standard_function(n: NodeContext, schema: Schema) -> FunctionDef:
    """The function that the standard gives for a node, which may depend on its operands."""
    if schema.has_function:
        version = _newest(schema.function_opset_versions, n.opset)
        data = schema.get_function_with_opset_version(version)
    else:
        version = _newest(schema.context_dependent_function_opset_versions, n.opset)
        types = [_type_of(operand).SerializeToString() for operand in n.operands]
        node = _node_proto(n)
        try:
            data = schema.get_context_dependent_function_with_opset_version(
                version, node.SerializeToString(), types
            )
        except (RuntimeError, ValueError) as error:  # which ONNX raises of what is malformed
            raise ModelError(f"the standard's definition refuses it: {error}") from None
    function = _translated(data)
    if not function.node:
        raise UnsupportedError("this op is not supported for such operands")
    return function


@lru_cache(64)
def _translated(data: bytes) -> FunctionDef:
    return translate_function(onnx.FunctionProto.FromString(data))


def _node_proto(n: NodeContext) -> onnx.NodeProto:
    """The node as ONNX has it, with the attributes that it has where it stands."""
    return _node(replace(n.proto, attributes=n.attributes))


def _node(node: NodeDef) -> onnx.NodeProto:
    proto = helper.make_node(node.op_type, node.input, node.output, node.name)
    proto.domain, proto.overload = node.domain, node.overload
    proto.attribute.extend(_attribute(name, each) for name, each in node.attributes.items())
    return proto


def _attribute(name: str, given: AttributeDef) -> onnx.AttributeProto:
    number = getattr(onnx.AttributeProto, given.kind.name, onnx.AttributeProto.UNDEFINED)
    if given.reference:
        return onnx.AttributeProto(name=name, ref_attr_name=given.reference, type=number)
    match given.kind:
        case AttributeKind.OTHER:
            return onnx.AttributeProto(name=name)
        case AttributeKind.TENSOR | AttributeKind.SPARSE_TENSOR:
            return helper.make_attribute(name, numpy_helper.from_array(given.value.read()))
        case AttributeKind.GRAPH:
            return helper.make_attribute(name, _graph(given.value))
        case AttributeKind.GRAPHS:
            return helper.make_attribute(name, list(map(_graph, given.value)), attr_type=number)
    return helper.make_attribute(name, given.value, attr_type=number)


def _graph(graph: GraphDef) -> onnx.GraphProto:
    """A body as ONNX has it; the types that it declares do not matter to the standard."""
    proto = onnx.GraphProto(name=graph.name)
    proto.node.extend(map(_node, graph.node))
    proto.input.extend(onnx.ValueInfoProto(name=each.name) for each in graph.input)
    proto.output.extend(onnx.ValueInfoProto(name=each.name) for each in graph.output)
    arrays = ((tensor.name, tensor.read()) for tensor in graph.constants)
    proto.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays)
    return proto


def _newest(versions: Sequence[int], opset: int) -> int:
    return max((version for version in versions if version <= opset), default=max(versions))


def _type_of(operand: Imported | None) -> onnx.TypeProto:
    match operand:
        case None:
            return onnx.TypeProto()
        case StaticSequence():
            element = _type_of(operand[0]) if operand else onnx.TypeProto()
            element.tensor_type.ClearField("shape")
            return onnx.helper.make_sequence_type_proto(element)
        case RowList(parts):
            element = _type_of(parts[0][0]) if parts else onnx.TypeProto()
            element.tensor_type.ClearField("shape")
            return onnx.helper.make_sequence_type_proto(element)
        case GrownTensor():  # it has no type here: what reads it becomes a body of its own
            raise GrownReadError()
        case RowMaps() | KnownMap() | ComplexParts():
            raise UnsupportedError("functions of maps are not supported")
        case Value(type=type):
            return onnx.helper.make_tensor_type_proto(ONNX_OF_DTYPE[type.dtype], type.shape)


def schema_defaults(schema: Schema) -> dict[str, AttributeDef]:
    """The attributes that a node of the op has unless it says otherwise."""
    defaults = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    undefined = onnx.AttributeProto.UNDEFINED
    return {
        name: translate_attribute(proto)
        for name, proto in defaults.items()
        if proto.type != undefined
    }
