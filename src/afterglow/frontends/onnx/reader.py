"""Model files: from a path, bytes or a parsed model to something whose tensors can be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types

from afterglow.frontends.content import Content
from afterglow.frontends.definition.model import ModelDef
from afterglow.frontends.onnx.external import DataFiles
from afterglow.frontends.onnx.messages import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
)
from afterglow.frontends.onnx.rows import proto_graphs, with_rows
from afterglow.frontends.onnx.tensors import dense_array, tensor_array
from afterglow.frontends.onnx.translate import translate_model
from afterglow.frontends.onnx.wire import OWN_FILE, without_weights
from afterglow.support.container import is_container
from afterglow.support.errors import ModelError, UsageError, warn
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

ModelSource: TypeAlias = "str | Path | bytes | Content | ModelProto"

_ZIP = b"PK\x03\x04"


@dataclass(frozen=True)
class ModelFile:
    """A model without the data of its large tensors, and the files in which those lie."""

    proto: ModelProto
    files: DataFiles
    _warned: set[str] = field(default_factory=set, compare=False, repr=False)

    def warn(self, text: str) -> None:
        """Warn of something about the model, once however often it is imported."""
        if text not in self._warned:
            self._warned.add(text)
            warn(text)

    @cached_property
    def definition(self) -> ModelDef:
        """The model as plain values."""
        return translate_model(self.proto, self.files, self.warn)

    def array(self, tensor: TensorProto) -> Array:
        """The elements of a tensor of this model; not to be written."""
        return tensor_array(tensor, self.files)

    def external_files(self) -> list[str]:
        """Locations that the model names for the data of its tensors, as they stand there."""
        names = (
            entry.value
            for tensor in tensors_of(self.proto)
            for entry in tensor.external_data
            if entry.key == "location" and entry.value not in ("", OWN_FILE)
        )
        return [str(name) for name in dict.fromkeys(names)]

    def dense(self, tensor: SparseTensorProto) -> Array:
        """The elements of a sparse tensor of this model."""
        return dense_array(tensor, self.files)


def read_model(source: ModelSource) -> ModelFile:
    """Read a model. Large tensors stay in the file (or the bytes) until someone looks at them."""
    match source:
        case ModelProto():
            return _checked(source, DataFiles.none())
        case Content():
            return _read(source)
        case bytes() | str() | Path():
            return _read(Content.of(source))
    raise UsageError(f"a model is a path, bytes or an onnx.ModelProto, not {type(source).__name__}")


def _read(content: Content) -> ModelFile:
    with content.located():
        if content.is_folder:
            raise UsageError("cannot read the model: is a directory")
        return _parse(content.data, None if content.path is None else content.path.parent)


def _parse(data: memoryview, folder: Path | None) -> ModelFile:
    if not len(data):
        raise ModelError("the file is empty")
    if bytes(data[:4]) == _ZIP:
        raise ModelError(
            "the file is not an ONNX model but a zip archive",
            help="if PyTorch wrote it, export the model with torch.onnx.export",
        )
    if is_container(data):
        raise ModelError(
            "the file is not an ONNX model but a compiled one", help="afterglow.load reads it"
        )
    try:
        proto = ModelProto.FromString(without_weights(data))
    except DecodeError as error:
        if "MaxDepth" in str(error):
            raise ModelError(
                "graphs in the file are nested deeper than protobuf can read"
            ) from None
        raise ModelError("the file is not an ONNX model: a message in it is malformed") from None
    return _checked(proto, DataFiles(data, folder))


def _checked(proto: ModelProto, files: DataFiles) -> ModelFile:
    if not proto.HasField("graph"):
        raise ModelError("the file is not an ONNX model: it has no graph")
    graphs = [_names_in_graph(proto.graph), *map(_names_in_function, proto.functions)]
    for name in chain(*graphs, (entry.domain for entry in proto.opset_import)):
        if not isinstance(name, str):  # what protobuf gives instead of failing
            raise ModelError(f"a name in the model is not UTF-8 text: {name!r}")
    return ModelFile(with_rows(proto), files)


def _names_in_graph(graph: GraphProto) -> Iterator[str]:
    yield graph.name
    for info in chain(graph.input, graph.output):
        yield info.name
        yield from (dim.dim_param for dim in info.type.tensor_type.shape.dim)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        yield from _names_in_node(node)


def _names_in_function(function: FunctionProto) -> Iterator[str]:
    yield from (function.name, function.domain, function.overload)
    yield from chain(function.input, function.output, function.attribute)
    yield from (entry.domain for entry in function.opset_import)
    for node in function.node:
        yield from _names_in_node(node)


def _names_in_node(node: NodeProto) -> Iterator[str]:
    yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
    for attribute in node.attribute:
        yield from (attribute.name, attribute.ref_attr_name)
    for graph in proto_graphs(node):
        yield from _names_in_graph(graph)


def tensors_of(proto: ModelProto) -> Iterator[TensorProto]:
    """Every tensor of a model: those of its graphs, of their nodes, and of functions."""
    yield from _tensors_in_graph(proto.graph)
    for function in proto.functions:
        for node in function.node:
            yield from _tensors_in_node(node)


def _tensors_in_graph(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _tensors_in_node(node)


def _tensors_in_node(node: NodeProto) -> Iterator[TensorProto]:
    for attribute in node.attribute:
        yield from (attribute.t, *attribute.tensors)
        yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
    for graph in proto_graphs(node):
        yield from _tensors_in_graph(graph)
