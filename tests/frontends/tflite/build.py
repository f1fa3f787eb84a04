"""Writes small TFLite files, and runs them by LiteRT."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite
from ai_edge_litert.interpreter import Interpreter, OpResolverType

Array = np.ndarray[Any, Any]

TYPES = {
    "float32": tflite.TensorType.FLOAT32,
    "float16": tflite.TensorType.FLOAT16,
    "int32": tflite.TensorType.INT32,
    "uint8": tflite.TensorType.UINT8,
    "int64": tflite.TensorType.INT64,
    "bool": tflite.TensorType.BOOL,
    "int16": tflite.TensorType.INT16,
    "complex64": tflite.TensorType.COMPLEX64,
    "int8": tflite.TensorType.INT8,
    "float64": tflite.TensorType.FLOAT64,
    "uint32": tflite.TensorType.UINT32,
    "uint16": tflite.TensorType.UINT16,
    "uint64": tflite.TensorType.UINT64,
    "resource": tflite.TensorType.RESOURCE,
    "string": tflite.TensorType.STRING,
    "int4": tflite.TensorType.INT4,
}


@dataclass
class Tensor:
    """A tensor of a subgraph; with data, a constant."""

    name: str
    shape: Sequence[int] = ()
    dtype: str = "float32"
    data: Array | bytes | None = None
    scale: Sequence[float] = ()
    zero_point: Sequence[int] = ()
    axis: int = 0
    signature: Sequence[int] = ()
    variable: bool = False
    sparsity: Mapping[str, Any] | None = None


def constant(name: str, data: Any, **others: Any) -> Tensor:
    """A tensor with elements."""
    array = np.asarray(data)
    return Tensor(name, array.shape, array.dtype.name, array, **others)


@dataclass
class Operator:
    """An op on tensors by their names; an empty name for none."""

    op: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    options: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    custom: bytes = b""
    version: int = 1


@dataclass
class Graph:
    """A subgraph."""

    tensors: Sequence[Tensor]
    operators: Sequence[Operator]
    inputs: Sequence[str]
    outputs: Sequence[str]
    name: str = ""


@dataclass
class Signature:
    """Names of inputs and outputs: name by name of tensor."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    subgraph: int = 0


def write(*graphs: Graph, signatures: Sequence[Signature] = (), outside: bool = False) -> bytes:
    """The bytes of a file; `outside`, those of tensors follow behind the flatbuffer."""
    if not outside:
        return _Writer(graphs, signatures).run()
    size = len(_Writer(graphs, signatures, 2**30).run())
    writer = _Writer(graphs, signatures, size)
    return writer.run() + b"".join(writer.buffers)


def one_op(
    op: str,
    inputs: Sequence[Tensor | None],
    outputs: Sequence[Tensor],
    options: str = "",
    *,
    version: int = 1,
    custom: bytes = b"",
    **fields: Any,
) -> bytes:
    """A file of one op, whose inputs are those tensors that have no elements."""
    given = [tensor for tensor in inputs if tensor is not None]
    names = ["" if tensor is None else tensor.name for tensor in inputs]
    results = [tensor.name for tensor in outputs]
    node = Operator(op, names, results, options, fields, custom, version)
    feeds = [t.name for t in given if t.data is None and not t.variable]
    unique = list({tensor.name: tensor for tensor in given}.values())
    return write(Graph([*unique, *outputs], [node], list(dict.fromkeys(feeds)), results))


class _Writer:
    def __init__(
        self, graphs: Sequence[Graph], signatures: Sequence[Signature], behind: int = 0
    ) -> None:
        self.graphs = graphs
        self.behind = behind
        self.signatures = signatures
        self.b = flatbuffers.Builder(1024)
        self.buffers: list[bytes] = [b""]
        self.codes: list[tuple[str, int]] = []

    def run(self) -> bytes:
        b = self.b
        graphs = [self.graph(graph) for graph in self.graphs]
        codes = self.vector([self.code(*code) for code in self.codes])
        buffers = self.vector([self.buffer(data) for data in self.buffers])
        subgraphs = self.vector(graphs)
        signatures = self.vector([self.signature(each) for each in self.signatures])
        tflite.ModelStart(b)
        tflite.ModelAddVersion(b, 3)
        tflite.ModelAddOperatorCodes(b, codes)
        tflite.ModelAddSubgraphs(b, subgraphs)
        tflite.ModelAddBuffers(b, buffers)
        if self.signatures:
            tflite.ModelAddSignatureDefs(b, signatures)
        b.Finish(tflite.ModelEnd(b), b"TFL3")
        return bytes(b.Output())

    def vector(self, offsets: Sequence[int]) -> int:
        self.b.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.b.PrependUOffsetTRelative(offset)
        return int(self.b.EndVector())

    def numbers(self, values: Any, dtype: str = "int32") -> int:
        return int(self.b.CreateNumpyVector(np.asarray(values, dtype).reshape(-1)))

    def buffer(self, data: bytes) -> int:
        b = self.b
        place = 0
        if data and self.behind:
            tflite.BufferStart(b)
            tflite.BufferAddOffset(b, self.behind)
            tflite.BufferAddSize(b, len(data))
            self.behind += len(data)
            return int(tflite.BufferEnd(b))
        if data:
            b.StartVector(1, len(data), 16)
            b.head = b.Head() - len(data)
            b.Bytes[b.Head() : b.Head() + len(data)] = data
            place = b.EndVector()
        tflite.BufferStart(b)
        if place:
            tflite.BufferAddData(b, place)
        return int(tflite.BufferEnd(b))

    def code(self, op: str, version: int) -> int:
        b = self.b
        number = getattr(tflite.BuiltinOperator, op, None)
        name = 0 if number is not None else b.CreateString(op)
        tflite.OperatorCodeStart(b)
        number = tflite.BuiltinOperator.CUSTOM if number is None else number
        tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(number, 127))
        tflite.OperatorCodeAddBuiltinCode(b, number)
        tflite.OperatorCodeAddVersion(b, version)
        if name:
            tflite.OperatorCodeAddCustomCode(b, name)
        return int(tflite.OperatorCodeEnd(b))

    def graph(self, graph: Graph) -> int:
        b = self.b
        places = {tensor.name: index for index, tensor in enumerate(graph.tensors)}
        places[""] = -1
        tensors = self.vector([self.tensor(tensor) for tensor in graph.tensors])
        operators = self.vector([self.operator(op, places) for op in graph.operators])
        inputs = self.numbers([places[name] for name in graph.inputs])
        outputs = self.numbers([places[name] for name in graph.outputs])
        name = b.CreateString(graph.name)
        tflite.SubGraphStart(b)
        tflite.SubGraphAddTensors(b, tensors)
        tflite.SubGraphAddInputs(b, inputs)
        tflite.SubGraphAddOutputs(b, outputs)
        tflite.SubGraphAddOperators(b, operators)
        tflite.SubGraphAddName(b, name)
        return int(tflite.SubGraphEnd(b))

    def tensor(self, tensor: Tensor) -> int:
        b = self.b
        number = 0
        if tensor.data is not None:
            data = tensor.data if isinstance(tensor.data, bytes) else tensor.data.tobytes()
            self.buffers.append(data)
            number = len(self.buffers) - 1
        shape = self.numbers(tensor.shape)
        name = b.CreateString(tensor.name)
        signature = self.numbers(tensor.signature) if len(tensor.signature) else 0
        quantization = self.quantization(tensor) if len(tensor.scale) else 0
        sparsity = self.sparsity(tensor.sparsity) if tensor.sparsity else 0
        tflite.TensorStart(b)
        tflite.TensorAddShape(b, shape)
        tflite.TensorAddType(b, TYPES[tensor.dtype])
        tflite.TensorAddBuffer(b, number)
        tflite.TensorAddName(b, name)
        if quantization:
            tflite.TensorAddQuantization(b, quantization)
        if tensor.variable:
            tflite.TensorAddIsVariable(b, True)
        if sparsity:
            tflite.TensorAddSparsity(b, sparsity)
        if signature:
            tflite.TensorAddShapeSignature(b, signature)
        return int(tflite.TensorEnd(b))

    def quantization(self, tensor: Tensor) -> int:
        scale = self.numbers(tensor.scale, "float32")
        points = tensor.zero_point if len(tensor.zero_point) else [0] * len(tensor.scale)
        zero_point = self.numbers(points, "int64")
        tflite.QuantizationParametersStart(self.b)
        tflite.QuantizationParametersAddScale(self.b, scale)
        tflite.QuantizationParametersAddZeroPoint(self.b, zero_point)
        tflite.QuantizationParametersAddQuantizedDimension(self.b, tensor.axis)
        return int(tflite.QuantizationParametersEnd(self.b))

    def sparsity(self, given: Mapping[str, Any]) -> int:
        b = self.b
        axes = self.vector([self.sparse_axis(axis) for axis in given["axes"]])
        order, blocks = self.numbers(given["order"]), self.numbers(given.get("blocks", ()))
        tflite.SparsityParametersStart(b)
        tflite.SparsityParametersAddTraversalOrder(b, order)
        tflite.SparsityParametersAddBlockMap(b, blocks)
        tflite.SparsityParametersAddDimMetadata(b, axes)
        return int(tflite.SparsityParametersEnd(b))

    def sparse_axis(self, axis: int | tuple[Sequence[int], Sequence[int]]) -> int:
        """A dense axis by its extent, a compressed one by segments and indices."""
        b = self.b
        if isinstance(axis, int):
            tflite.DimensionMetadataStart(b)
            tflite.DimensionMetadataAddDenseSize(b, axis)
            return int(tflite.DimensionMetadataEnd(b))
        vectors = []
        for values in map(self.numbers, axis):
            tflite.Int32VectorStart(b)
            tflite.Int32VectorAddValues(b, values)
            vectors.append(tflite.Int32VectorEnd(b))
        tflite.DimensionMetadataStart(b)
        tflite.DimensionMetadataAddFormat(b, 1)
        tflite.DimensionMetadataAddArraySegmentsType(b, 1)
        tflite.DimensionMetadataAddArraySegments(b, vectors[0])
        tflite.DimensionMetadataAddArrayIndicesType(b, 1)
        tflite.DimensionMetadataAddArrayIndices(b, vectors[1])
        return int(tflite.DimensionMetadataEnd(b))

    def operator(self, op: Operator, places: Mapping[str, int]) -> int:
        b = self.b
        key = (op.op, op.version)
        if key not in self.codes:
            self.codes.append(key)
        inputs = self.numbers([places[name] for name in op.inputs])
        outputs = self.numbers([places[name] for name in op.outputs])
        options = self.options(op.options, op.fields) if op.options else 0
        custom = b.CreateByteVector(op.custom) if op.custom else 0
        tflite.OperatorStart(b)
        tflite.OperatorAddOpcodeIndex(b, self.codes.index(key))
        tflite.OperatorAddInputs(b, inputs)
        tflite.OperatorAddOutputs(b, outputs)
        if options and hasattr(tflite.BuiltinOptions, op.options):
            kind = getattr(tflite.BuiltinOptions, op.options)
            tflite.OperatorAddBuiltinOptionsType(b, kind)
            tflite.OperatorAddBuiltinOptions(b, options)
        elif options:
            kind = getattr(tflite.BuiltinOptions2, op.options)
            tflite.OperatorAddBuiltinOptions2Type(b, kind)
            tflite.OperatorAddBuiltinOptions2(b, options)
        if custom:
            tflite.OperatorAddCustomOptions(b, custom)
        return int(tflite.OperatorEnd(b))

    def options(self, name: str, fields: Mapping[str, Any]) -> int:
        b = self.b
        made = {}
        for field_name, value in fields.items():
            if isinstance(value, str):
                value = b.CreateString(value)
            elif isinstance(value, np.ndarray):
                value = self.numbers(value, value.dtype.name)
            elif isinstance(value, (list, tuple)):
                floats = any(isinstance(each, float) for each in value)
                value = self.numbers(value, "float32" if floats else "int32")
            made[_camel(field_name)] = value
        getattr(tflite, f"{name}Start")(b)
        for field_name, value in made.items():
            getattr(tflite, f"{name}Add{field_name}")(b, value)
        return int(getattr(tflite, f"{name}End")(b))

    def signature(self, signature: Signature) -> int:
        b = self.b
        places = {t.name: i for i, t in enumerate(self.graphs[signature.subgraph].tensors)}
        maps = []
        for names in (signature.inputs, signature.outputs):
            entries = []
            for tensor, name in names.items():
                text = b.CreateString(name)
                tflite.TensorMapStart(b)
                tflite.TensorMapAddName(b, text)
                tflite.TensorMapAddTensorIndex(b, places[tensor])
                entries.append(tflite.TensorMapEnd(b))
            maps.append(self.vector(entries))
        key = b.CreateString("serving_default")
        tflite.SignatureDefStart(b)
        tflite.SignatureDefAddInputs(b, maps[0])
        tflite.SignatureDefAddOutputs(b, maps[1])
        tflite.SignatureDefAddSignatureKey(b, key)
        tflite.SignatureDefAddSubgraphIndex(b, signature.subgraph)
        return int(tflite.SignatureDefEnd(b))


def _camel(name: str) -> str:
    return re.sub(r"(?:^|_)([a-z0-9])", lambda match: match[1].upper(), name)


def run_litert(data: bytes, *runs: Sequence[Array]) -> list[Array]:
    """The outputs of LiteRT's reference kernels after the last of some runs."""
    interpreter = Interpreter(
        model_content=data,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    for feeds in runs:
        for detail, array in zip(interpreter.get_input_details(), feeds, strict=True):
            if tuple(detail["shape"]) != array.shape:
                interpreter.resize_tensor_input(detail["index"], array.shape)
        interpreter.allocate_tensors()
        break
    for feeds in runs:
        for detail, array in zip(interpreter.get_input_details(), feeds, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
    return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]
