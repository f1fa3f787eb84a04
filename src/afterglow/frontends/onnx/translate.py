"""From protobuf to plain values: an ONNX model as `definition/model.py` has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from afterglow.frontends.definition.model import (
    AttributeDef,
    AttributeKind,
    DeclaredExtent,
    FunctionDef,
    GraphDef,
    ModelDef,
    NodeDef,
    TensorDef,
    TypeDef,
    ValueDef,
)
from afterglow.frontends.onnx.external import DataFiles
from afterglow.frontends.onnx.masks import with_masks
from afterglow.frontends.onnx.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    SparseTensorProto,
    TensorProto,
    TensorShapeProto,
    ValueInfoProto,
)
from afterglow.frontends.onnx.registry import ONNX, normal_domain
from afterglow.frontends.onnx.tensors import dense_array, tensor_array
from afterglow.support.errors import AfterglowError
from afterglow.types import TensorType
from afterglow.types.onnx_elements import DTYPE_OF_ONNX, dtype_of

_NAMELESS = ("", "?")
"""How exporters spell a dynamic dimension without a name; several may have several extents."""

_KINDS: dict[int, AttributeKind] = {
    AttributeProto.FLOAT: AttributeKind.FLOAT,
    AttributeProto.INT: AttributeKind.INT,
    AttributeProto.STRING: AttributeKind.STRING,
    AttributeProto.TENSOR: AttributeKind.TENSOR,
    AttributeProto.SPARSE_TENSOR: AttributeKind.SPARSE_TENSOR,
    AttributeProto.GRAPH: AttributeKind.GRAPH,
    AttributeProto.FLOATS: AttributeKind.FLOATS,
    AttributeProto.INTS: AttributeKind.INTS,
    AttributeProto.STRINGS: AttributeKind.STRINGS,
    AttributeProto.GRAPHS: AttributeKind.GRAPHS,
}


def translate_model(proto: ModelProto, files: DataFiles, warn: Callable[[str], None]) -> ModelDef:
    """A model; its tensors are read from the files when someone asks for their elements."""
    translator = _Translator(files)
    return ModelDef(
        ONNX,
        with_masks(translator.main(proto.graph)),
        tuple(map(translator.function, proto.functions)),
        _opsets(proto.opset_import),
        proto.ir_version,
        " ".join(filter(None, map(_text, (proto.producer_name, proto.producer_version)))),
        warn,
    )


def translate_function(proto: FunctionProto) -> FunctionDef:
    """A function whose tensors are all in the message itself."""
    return _Translator(DataFiles.none()).function(proto)


def translate_attribute(proto: AttributeProto) -> AttributeDef:
    """An attribute whose tensors are all in the message itself."""
    return _Translator(DataFiles.none()).attribute(proto)


class _Translator:
    """Translates messages of one model."""

    def __init__(self, files: DataFiles) -> None:
        self.files = files

    def main(self, proto: GraphProto) -> GraphDef:
        """The main graph, whose inputs and outputs are the model's."""
        inputs = tuple(_declared(info, "input") for info in proto.input)
        outputs = tuple(_declared(info, "output") for info in proto.output)
        return replace(self.graph(proto), input=inputs, output=outputs)

    def graph(self, proto: GraphProto) -> GraphDef:
        sparse = proto.sparse_initializer
        return GraphDef(
            proto.name,
            tuple(map(self.node, proto.node)),
            tuple(map(_value, proto.input)),
            tuple(map(_value, proto.output)),
            (*map(self.tensor, proto.initializer), *map(self.sparse_tensor, sparse)),
            {info.name: type for info in proto.value_info if (type := _inner_type(info))},
        )

    def function(self, proto: FunctionProto) -> FunctionDef:
        return FunctionDef(
            proto.name,
            normal_domain(proto.domain),
            proto.overload,
            tuple(proto.input),
            tuple(proto.output),
            tuple(map(self.node, proto.node)),
            {attribute.name: self.attribute(attribute) for attribute in proto.attribute_proto},
            _opsets(proto.opset_import),
        )

    def node(self, proto: NodeProto) -> NodeDef:
        attributes = {attribute.name: self.attribute(attribute) for attribute in proto.attribute}
        return NodeDef(
            proto.op_type,
            normal_domain(proto.domain),
            proto.name,
            tuple(proto.input),
            tuple(proto.output),
            attributes,
            proto.overload,
        )

    def attribute(self, proto: AttributeProto) -> AttributeDef:
        kind = _KINDS.get(proto.type, AttributeKind.OTHER)
        if proto.ref_attr_name:
            return AttributeDef(kind, None, proto.ref_attr_name)
        content = self._contents.get(kind)
        return AttributeDef(kind, None if content is None else content(proto))

    @cached_property
    def _contents(self) -> dict[AttributeKind, Callable[[AttributeProto], Any]]:
        """How the value of each kind of attribute is read."""
        return {
            AttributeKind.FLOAT: lambda proto: proto.f,
            AttributeKind.INT: lambda proto: proto.i,
            AttributeKind.STRING: lambda proto: _text(proto.s),
            AttributeKind.TENSOR: lambda proto: self.tensor(proto.t),
            AttributeKind.SPARSE_TENSOR: lambda proto: self.sparse_tensor(proto.sparse_tensor),
            AttributeKind.GRAPH: lambda proto: self.graph(proto.g),
            AttributeKind.GRAPHS: lambda proto: tuple(map(self.graph, proto.graphs)),
            AttributeKind.FLOATS: lambda proto: tuple(proto.floats),
            AttributeKind.INTS: lambda proto: tuple(proto.ints),
            AttributeKind.STRINGS: lambda proto: tuple(map(_text, proto.strings)),
        }

    def tensor(self, proto: TensorProto) -> TensorDef:
        place = "" if not proto.external_data else str(proto)
        read = partial(tensor_array, proto, self.files)
        return TensorDef(proto.name, read, place, _tensor_type(proto))

    def sparse_tensor(self, proto: SparseTensorProto) -> TensorDef:
        return TensorDef(proto.values.name, partial(dense_array, proto, self.files))


def _text(data: bytes | str) -> str:
    """A text; protobuf gives bytes where it is none in UTF-8."""
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else data


def _tensor_type(proto: TensorProto) -> TensorType | None:
    """What a tensor says that it is, if it can be that."""
    dtype, shape = DTYPE_OF_ONNX.get(proto.data_type), tuple(proto.dims)
    return None if dtype is None or any(n < 0 for n in shape) else TensorType(dtype, shape)


def _opsets(entries: Iterable[OperatorSetIdProto]) -> tuple[tuple[str, int], ...]:
    return tuple((normal_domain(entry.domain), entry.version) for entry in entries)


def _declared(info: ValueInfoProto, role: str) -> ValueDef:
    """An input or output of the model, whose element type must be one that there is."""
    number = info.type.tensor_type.elem_type
    if info.type.WhichOneof("value") == "tensor_type" and (number or role == "input"):
        try:
            dtype_of(number)
        except AfterglowError as error:
            raise type(error)(f"{role} {info.name!r}: {error.what}") from None
    return _value(info)


def _value(info: ValueInfoProto) -> ValueDef:
    kind = info.type.WhichOneof("value")
    if kind is None:
        return ValueDef(info.name)
    if kind != "tensor_type":
        return ValueDef(info.name, TypeDef(kind.removesuffix("_type")))
    type = info.type.tensor_type
    shape = tuple(map(_extent, type.shape.dim)) if type.HasField("shape") else None
    return ValueDef(info.name, TypeDef("tensor", DTYPE_OF_ONNX.get(type.elem_type), shape))


def _inner_type(info: ValueInfoProto) -> TypeDef | None:
    """What is declared of a value inside, without the names that type inference makes up."""
    type = _value(info).type
    if type is None or type.shape is None:
        return type
    shape = (None if isinstance(e, str) and e.startswith("unk__") else e for e in type.shape)
    return replace(type, shape=tuple(shape))


def _extent(dim: TensorShapeProto.Dimension) -> DeclaredExtent:
    """Exporters write -1 as well as nothing for an extent that they leave open."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return dim.dim_value
    return None if dim.dim_param in _NAMELESS else dim.dim_param
