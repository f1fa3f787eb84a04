"""Functions that stand for nodes: the model's own, and those that the standard gives for ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import onnx
from onnx import defs

from afterglow.frontends.onnx.context import (
    Imported,
    KnownMap,
    NodeContext,
    RowMaps,
    StaticSequence,
)
from afterglow.frontends.onnx.elements import ONNX_OF_DTYPE
from afterglow.frontends.onnx.frame import Frame, normal_domain, shown_domain
from afterglow.graph import Value
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError

Schema: TypeAlias = Any
"""An `onnx.defs.OpSchema`, whose own type says nothing of functions."""


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
        help="add it to the model as a function, or replace it by standard ops",
    )


@cache
def _standard_domains() -> frozenset[str]:
    return frozenset(normal_domain(schema.domain) for schema in defs.get_all_schemas())


def standard_function(n: NodeContext, schema: Schema) -> onnx.FunctionProto:
    """The function that the standard gives for a node, which may depend on its operands."""
    if schema.has_function:
        version = _newest(schema.function_opset_versions, n.opset)
        data = schema.get_function_with_opset_version(version)
    else:
        version = _newest(schema.context_dependent_function_opset_versions, n.opset)
        types = [_type_of(operand).SerializeToString() for operand in n.operands]
        node = onnx.NodeProto()
        node.CopyFrom(n.proto)
        del node.attribute[:]
        node.attribute.extend(_renamed(proto, name) for name, proto in n.attributes.items())
        try:
            data = schema.get_context_dependent_function_with_opset_version(
                version, node.SerializeToString(), types
            )
        except (RuntimeError, ValueError) as error:  # which ONNX raises of what is malformed
            raise ModelError(f"the standard's definition refuses it: {error}") from None
    function: onnx.FunctionProto = onnx.FunctionProto.FromString(data)
    if not function.node:
        raise UnsupportedError("this op is not supported for such operands")
    return function


def _newest(versions: Sequence[int], opset: int) -> int:
    return max((version for version in versions if version <= opset), default=max(versions))


def _renamed(attribute: onnx.AttributeProto, name: str) -> onnx.AttributeProto:
    copy = onnx.AttributeProto()
    copy.CopyFrom(attribute)
    copy.name = name
    return copy


def _type_of(operand: Imported | None) -> onnx.TypeProto:
    match operand:
        case None:
            return onnx.TypeProto()
        case StaticSequence():
            element = _type_of(operand[0]) if operand else onnx.TypeProto()
            element.tensor_type.ClearField("shape")
            return onnx.helper.make_sequence_type_proto(element)
        case RowMaps() | KnownMap():
            raise UnsupportedError("functions of maps are not supported")
        case Value(type=type):
            return onnx.helper.make_tensor_type_proto(ONNX_OF_DTYPE[type.dtype], type.shape)


def schema_defaults(schema: Schema) -> dict[str, onnx.AttributeProto]:
    """The attributes that a node of the op has unless it says otherwise."""
    defaults = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    undefined = onnx.AttributeProto.UNDEFINED
    return {name: proto for name, proto in defaults.items() if proto.type != undefined}


def call_frame(
    n: NodeContext,
    frame: Frame,
    function: onnx.FunctionProto,
    defaults: Mapping[str, onnx.AttributeProto],
) -> Frame:
    """The frame in which a node's function is imported."""
    name = f"{shown_domain(n.proto.domain)}.{n.proto.op_type}"
    key = f"{name} version {n.opset}"
    if key in frame.calls:
        cycle = " -> ".join((*frame.calls[frame.calls.index(key) :], key))
        raise ModelError(f"the function calls itself: {cycle}")
    declared = {attribute.name: attribute for attribute in function.attribute_proto}
    results = zip(function.output, n.proto.output, strict=False)
    opsets = {normal_domain(entry.domain): entry.version for entry in function.opset_import}
    inner = frame.inside(
        f"function {name} of {n.builder.origin!r}",
        opsets={**frame.opsets, **opsets},
        attributes={**defaults, **declared, **n.attributes},
        names={inner: frame.name(outer) for inner, outer in results if outer},
        prefix=f"{n.builder.name}.",
        origin=n.builder.origin,
        calls=(*frame.calls, key),
        is_expanded=True,
    )
    return inner
