"""From nets to a definition: blobs, which operators may overwrite, become single values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np

from afterglow.frontends.caffe2.importers import CAFFE2
from afterglow.frontends.caffe2.messages import Argument, Net, Operator
from afterglow.frontends.definition.model import (
    AttributeDef,
    AttributeKind,
    DeclaredExtent,
    GraphDef,
    ModelDef,
    NodeDef,
    TensorDef,
    TypeDef,
    ValueDef,
)
from afterglow.support.errors import AfterglowError, ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType, TensorType
from afterglow.types import dtype as d

_FILLS: dict[str, DType] = {
    "GivenTensorFill": d.f32,
    "GivenTensorDoubleFill": d.f64,
    "GivenTensorFp16Fill": d.f16,
    "GivenTensorIntFill": d.i32,
    "GivenTensorInt16Fill": d.i16,
    "GivenTensorInt64Fill": d.i64,
    "GivenTensorBoolFill": d.boolean,
    "GivenTensorByteStringToUInt8Fill": d.u8,
    "Int8GivenTensorFill": d.u8,
    "Int8GivenIntTensorFill": d.i32,
}
"""Operators that give a blob elements which stand in the file."""
_MOST_ELEMENTS = 1 << 40

_CONVOLUTIONS = ("Conv", "ConvRelu", "Int8Conv", "Int8ConvRelu")
_LAYERS = {*_CONVOLUTIONS, "FC", "Int8FC", "Int8Quantize", "MaxPool", "AveragePool", "SpatialBN"}
_TABLES = ("", "8BitsRowwise", "Fused8BitRowwise", "Fused4BitRowwise")
_OPERAND_TYPES: dict[tuple[str, int], DType] = {
    **{(f"SparseLengthsSum{kind}", 1): d.i64 for kind in _TABLES},
    **{(f"SparseLengthsSum{kind}", 2): d.i32 for kind in _TABLES},
    **{(f"SparseLengthsWeightedSum{kind}", 2): d.i64 for kind in _TABLES},
    **{(f"SparseLengthsWeightedSum{kind}", 3): d.i32 for kind in _TABLES},
    ("SparseLengthsMean", 1): d.i64,
    ("SparseLengthsMean", 2): d.i32,
    **{(f"Lengths{kind}", 1): d.i32 for kind in ("Sum", "Mean")},
    ("LengthsRangeFill", 0): d.i32,
    ("LengthsToRanges", 0): d.i32,
    ("SparseToDense", 0): d.i32,
    ("BatchSparseToDense", 0): d.i32,
    ("BatchSparseToDense", 1): d.i64,
    ("FillExamplesWithIndicator", 1): d.i32,
    ("SparseToDenseMask", 0): d.i64,
    ("SparseToDenseMask", 3): d.i32,
    ("ScatterAssign", 1): d.i64,
    ("Gather", 1): d.i32,
    ("BatchGather", 1): d.i32,
    ("OneHot", 0): d.i64,
    ("OneHot", 1): d.i64,
    ("Int8Dequantize", 0): d.u8,
    ("Not", 0): d.boolean,
    ("Where", 0): d.boolean,
    **{(op, index): d.boolean for op in ("And", "Or", "Xor") for index in (0, 1)},
}
"""The element types of net inputs, which no file declares, by the operand that they are."""


def translate_nets(init: Net | None, predict: Net, value_info: bytes = b"") -> ModelDef:
    """The model that computes what the second net does, on blobs that the first one fills."""
    declared = _declared(value_info)
    given = _placeholders(init, predict)
    translator = _Translator()
    for operator in () if init is None else init.operators:
        if not given.issuperset(operator.output) or not operator.output:
            translator.add(operator)
    inputs = [*_inputs(translator.versions, predict)]
    for name in inputs:
        translator.versions[name] = name
    for operator in predict.operators:
        translator.add(operator)
    outputs = _outputs(predict)
    last = translator.finish([*inputs], outputs)
    types = _Types(translator, predict, declared)
    return ModelDef(
        CAFFE2,
        GraphDef(
            predict.name or "net",
            tuple(translator.nodes),
            tuple(ValueDef(name, types.of(name)) for name in inputs),
            tuple(map(ValueDef, last)),
            tuple(translator.constants.values()),
        ),
    )


def _placeholders(init: Net | None, predict: Net) -> set[str]:
    """Blobs that the init net fills although they are inputs: with a zero, or with an example.

    No weights are the first operand of a layer, and no constant that nets need is one zero.
    """
    users: dict[str, set[str]] = {}
    for operator in predict.operators:
        for number, name in enumerate(operator.input):
            users.setdefault(name, set()).add("" if number else operator.type)
    found = set()
    for operator in () if init is None else init.operators:
        if operator.type not in ("GivenTensorFill", "ConstantFill") or len(operator.output) != 1:
            continue
        types = users.get(operator.output[0], {""})
        is_example = types <= _LAYERS or ("" not in types and _is_one_zero(operator))
        if is_example and operator.output[0] in predict.external_input:
            found.add(operator.output[0])
    return found


def _is_one_zero(operator: Operator) -> bool:
    shape, values = operator.arguments.get("shape"), operator.arguments.get("values")
    one = shape is None or math.prod(shape.ints) <= 1
    return one and (values is None or not values.floats.any()) and "value" not in operator.arguments


def _inputs(filled: Mapping[str, str], predict: Net) -> Iterator[str]:
    """Blobs that are read before any operator writes them: as the net lists them, then as read."""
    written = set(filled)
    needed: dict[str, None] = {}
    for operator in predict.operators:
        needed.update((name, None) for name in operator.input if name not in written)
        written.update(operator.output)
    listed = dict.fromkeys(name for name in predict.external_input if name in needed)
    yield from (listed | needed)


def _outputs(predict: Net) -> tuple[str, ...]:
    """The blobs that the net lists; without a list, those that are written and not read."""
    if predict.external_output:
        return tuple(dict.fromkeys(predict.external_output))
    unread: dict[str, None] = {}
    for operator in predict.operators:
        for name in operator.input:
            unread.pop(name, None)
        unread.update(dict.fromkeys(operator.output[:1]))
    return tuple(unread)


@dataclass
class _Translator:
    """Operators in their order, each blob under the name of the value that it holds by then."""

    versions: dict[str, str] = field(default_factory=dict)
    nodes: list[NodeDef] = field(default_factory=list)
    constants: dict[str, TensorDef] = field(default_factory=dict)
    quantized: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Scales and zero points of values that are quantized."""
    writes: dict[str, int] = field(default_factory=dict)

    def add(self, operator: Operator) -> None:
        """Take in an operator."""
        inputs = tuple(self.versions.get(name, name) for name in operator.input)
        outputs = tuple(map(self._write, operator.output))
        parameters = _parameters(operator, [self.quantized.get(name) for name in inputs])
        for name in outputs:
            if parameters is not None:
                self.quantized[name] = parameters
        if operator.type in _FILLS and len(outputs) == 1:
            self.constants[outputs[0]] = _constant(operator, outputs[0])
            return
        attributes = {key: _attribute(argument) for key, argument in operator.arguments.items()}
        attributes.update(self._of_operands(inputs))
        node = NodeDef(operator.type, "", operator.name, inputs, outputs, attributes)
        self.nodes.append(node)

    def _write(self, blob: str) -> str:
        """The name of what an operator writes into a blob."""
        count = self.writes.get(blob, 0) + (blob in self.versions and blob not in self.writes)
        self.writes[blob] = count + 1
        name = blob if count == 0 else f"{blob}/{count}"
        self.versions[blob] = name
        return name

    def _of_operands(self, inputs: Sequence[str]) -> dict[str, AttributeDef]:
        """What the operands of a quantized operator stand for, as attributes of its node."""
        found: dict[str, AttributeDef] = {}
        for index, name in enumerate(inputs):
            if name in self.quantized:
                scales, zeros = self.quantized[name]
                found[f"scales.{index}"] = AttributeDef(AttributeKind.FLOATS, scales)
                found[f"zero_points.{index}"] = AttributeDef(AttributeKind.INTS, zeros)
        return found

    def finish(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
        """The names of outputs: the value that each blob holds in the end has its plain name."""
        taken = {*inputs, *self.constants}
        renamed = {}
        for blob in outputs:
            name = self.versions.get(blob, blob)
            if name != blob and blob not in taken:
                renamed[name], renamed[blob] = blob, f"{blob}/0"
        if renamed:
            self.nodes = [_renamed(node, renamed) for node in self.nodes]
        last = (self.versions.get(blob, blob) for blob in outputs)
        return [renamed.get(name, name) for name in last]


def _renamed(node: NodeDef, names: Mapping[str, str]) -> NodeDef:
    inputs = tuple(names.get(name, name) for name in node.input)
    outputs = tuple(names.get(name, name) for name in node.output)
    return NodeDef(node.op_type, node.domain, node.name, inputs, outputs, node.attributes)


def _parameters(
    operator: Operator, operands: Sequence[tuple[Any, ...] | None]
) -> tuple[Any, ...] | None:
    """Scales and zero points of what an operator computes; None if that is not quantized."""
    if not operator.type.startswith("Int8") or operator.type == "Int8Dequantize":
        return None
    for suffix in ("", "s"):
        scale = operator.arguments.get(f"Y_scale{suffix}")
        zero = operator.arguments.get(f"Y_zero_point{suffix}")
        if scale is not None:
            scales = _numbers(scale)
            zeros = tuple(map(int, _numbers(zero))) if zero is not None else (0,) * len(scales)
            return scales, zeros
    return next(iter(operands), None)


def _numbers(argument: Argument) -> tuple[float, ...]:
    single = [argument.single(key) for key in ("f", "i") if argument.single(key) is not None]
    return tuple(single[:1] or argument.floats.tolist() or argument.ints)


def _attribute(argument: Argument) -> AttributeDef:
    """An argument of an operator; of several values that it has, the first kind counts."""
    for key, kind in (("f", AttributeKind.FLOAT), ("i", AttributeKind.INT)):
        if argument.single(key) is not None:
            return AttributeDef(kind, argument.single(key))
    if argument.single("s") is not None:
        return AttributeDef(AttributeKind.STRING, _decoded(argument.single("s")))
    if argument.fields.get("floats"):
        return AttributeDef(AttributeKind.FLOATS, tuple(argument.floats.tolist()))
    if argument.ints:
        return AttributeDef(AttributeKind.INTS, tuple(argument.ints))
    if argument.strings:
        return AttributeDef(AttributeKind.STRINGS, tuple(map(_decoded, argument.strings)))
    return AttributeDef(AttributeKind.OTHER)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _constant(operator: Operator, name: str) -> TensorDef:
    """The elements that stand in the file."""
    dtype = _FILLS[operator.type]
    shape = _shape(operator)
    read = partial(_elements, operator, dtype, shape)
    return TensorDef(name, read, f"{name}", TensorType(dtype, shape))


def _shape(operator: Operator) -> tuple[int, ...]:
    argument = operator.arguments.get("shape")
    if argument is None:
        return ()
    number = argument.single("i")
    shape = tuple(argument.ints) if number is None else (number,)
    if any(extent < 0 for extent in shape) or math.prod(shape) > _MOST_ELEMENTS:
        raise ModelError(f"blob {operator.label!r}: a blob cannot have the shape {shape}")
    return shape


def _elements(operator: Operator, dtype: DType, shape: tuple[int, ...]) -> Array:
    argument = operator.arguments.get("values")
    try:
        elements = np.zeros(0, dtype.numpy) if argument is None else _stored(argument, dtype)
        if elements.size != math.prod(shape):
            raise ModelError(
                f"it has {elements.size:,} elements, its shape {shape} needs {math.prod(shape):,}"
            )
    except AfterglowError as error:
        error.what = f"blob {operator.label!r}: {error.what}"
        raise
    return elements.reshape(shape)


def _stored(argument: Argument, dtype: DType) -> Array:
    """Elements as floats, integers or bytes; a list of one may be a single value."""
    data = argument.single("s") if argument.single("s") is not None else b"".join(argument.strings)
    if data:
        return np.frombuffer(data, dtype.numpy) if len(data) % dtype.itemsize == 0 else np.zeros(0)
    floats, ints = argument.floats, argument.ints
    if argument.single("f") is not None and not floats.size:
        floats = np.array([argument.single("f")], np.float32)
    if argument.single("i") is not None and not ints:
        ints = [argument.single("i")]
    if floats.size:
        return floats.astype(dtype.numpy, copy=False)
    wide = np.array(ints, np.int64)
    if dtype.is_integer and wide.size and not np.array_equal(wide.astype(dtype.numpy), wide):
        raise ModelError(f"its elements do not fit {dtype}")
    return wide.astype(dtype.numpy)


def _declared(value_info: bytes) -> dict[str, TypeDef]:
    """What a file beside the nets says of inputs: `{"data": [1, [1, 3, 224, 224]]}`."""
    if not value_info:
        return {}
    try:
        entries = json.loads(value_info)
        return {
            name: TypeDef("tensor", CAFFE2.element_type(number), tuple(map(int, shape)))
            for name, (number, shape) in entries.items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ModelError(
            "value_info.json does not give an element type and a shape by name"
        ) from None


class _Types:
    """What is known of inputs: as declared, or by the operators that take them."""

    def __init__(
        self, translator: _Translator, predict: Net, declared: Mapping[str, TypeDef]
    ) -> None:
        self.declared = declared
        self.shapes = {name: c.type.shape for name, c in translator.constants.items()}
        self.users: dict[str, list[tuple[NodeDef, int]]] = {}
        for node in translator.nodes:
            for index, name in enumerate(node.input):
                self.users.setdefault(name, []).append((node, index))

    def of(self, name: str) -> TypeDef:
        """The type of an input."""
        if name in self.declared:
            return self.declared[name]
        users = self.users.get(name, [])
        known = (_OPERAND_TYPES.get((node.op_type, index)) for node, index in users)
        element = next((dtype for dtype in known if dtype is not None), d.f32)
        return TypeDef("tensor", element, self._shape(users, name))

    def _shape(
        self, users: Sequence[tuple[NodeDef, int]], name: str
    ) -> tuple[DeclaredExtent, ...] | None:
        """The axes of what a convolution or a dense layer takes; None if that does not tell."""
        for node, index in users:
            weight = self.shapes.get(node.input[1]) if len(node.input) > 1 else None
            if node.op_type == "Int8Quantize":
                return self._shape(self.users.get(node.output[0], []), name)
            if index or weight is None:
                continue
            if (
                node.op_type in ("Conv", "ConvRelu", "Int8Conv", "Int8ConvRelu")
                and len(weight) == 4
            ):
                return _image(node, weight)
            if (
                node.op_type in ("FC", "Int8FC")
                and len(weight) == 2
                and "axis" not in node.attributes
            ):
                return None
        return None


def _image(node: NodeDef, weight: tuple[int, ...]) -> tuple[DeclaredExtent, ...]:
    """An image of a convolution: the number of channels is that of its weights."""
    given = {name: attribute.value for name, attribute in node.attributes.items()}
    groups = given["group"] if isinstance(given.get("group"), int) else 1
    if given.get("order") != "NHWC":
        return ("batch", weight[1] * groups, "height", "width")
    written = given.get("kernels", (given.get("kernel"),) * 2)
    is_first = written == weight[2:] and written != weight[1:3]
    return ("batch", "height", "width", weight[1 if is_first else 3] * groups)
