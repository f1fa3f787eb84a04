"""What an ONNX file says about itself, read without the library for ONNX files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from afterglow.frontends.content import Content
from afterglow.frontends.protobuf import VARINT, Field, ProtobufReader
from afterglow.onnxruntime.elements import element_text
from afterglow.support.errors import AfterglowError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.onnx_elements import DTYPE_OF_ONNX

UNTOLD = 2**63 - 1
"""The version of a model that says none."""
_DEEPEST = 8
"""How deep types are nested at most."""


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says about itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = UNTOLD
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


def read_metadata(source: Any) -> ModelMetadata:
    """What the model at a path or in bytes says about itself; nothing if it is no ONNX file."""
    try:
        model = _Message.of(source)
        graph = next(model.messages(7))
        entries = {entry.text(1): entry.text(2) for entry in model.messages(14)}
    except (AfterglowError, StopIteration):
        return ModelMetadata()
    return ModelMetadata(
        producer_name=model.text(2),
        graph_name=graph.text(2),
        domain=model.text(4),
        description=model.text(6),
        graph_description=graph.text(10),
        version=model.number(5, UNTOLD),
        custom_metadata_map=entries,
    )


def read_types(source: Any) -> dict[str, str]:
    """The types of a model's inputs and outputs by name, as ONNX Runtime writes them."""
    try:
        graph = next(_Message.of(source).messages(7))
        values = [*graph.messages(11), *graph.messages(12)]
        return {value.text(1): _type(next(value.messages(2), None)) for value in values}
    except (AfterglowError, StopIteration):
        return {}


def _type(type: _Message | None, depth: int = 0) -> str:
    """The text of a `TypeProto`."""
    kind = None if type is None else next(type.fields(), None)
    if type is None or kind is None or depth > _DEEPEST:
        return "undefined"
    inside = type.inside(kind)
    if kind.number == 1:
        return f"tensor({_element(inside)})"
    if kind.number == 5:
        value = _type(next(inside.messages(2), None), depth + 1)
        return f"map({_element(inside)},{value})"
    names = {4: "seq", 8: "sparse_tensor", 9: "optional"}
    element = _type(next(inside.messages(1), None), depth + 1)
    return f"{names.get(kind.number, 'undefined')}({element})"


def _element(message: _Message) -> str:
    return element_text(DTYPE_OF_ONNX.get(message.number(1, 0)))


@dataclass(frozen=True)
class _Message:
    """A message of protobuf, at a place in a file."""

    reader: ProtobufReader
    start: int
    end: int

    @staticmethod
    def of(source: Any) -> _Message:
        """A whole file."""
        data = Content.of(source).data
        return _Message(ProtobufReader(data, "an ONNX model"), 0, len(data))

    def fields(self, number: int | None = None) -> Iterator[Field]:
        """Its fields, all or those with a number."""
        found = self.reader.fields(self.start, self.end, "the model")
        return (item for item in found if number is None or item.number == number)

    def inside(self, item: Field) -> _Message:
        """The message that a field holds."""
        return _Message(self.reader, item.start, item.end)

    def messages(self, number: int) -> Iterator[_Message]:
        """The messages in all fields with a number."""
        return map(self.inside, self.fields(number))

    def text(self, number: int) -> str:
        """The text in the last field with a number; empty if there is none."""
        texts = [bytes(self.reader.data[i.start : i.end]) for i in self.fields(number)]
        return texts[-1].decode(errors="replace") if texts else ""

    def number(self, number: int, default: int) -> int:
        """The integer in the last field with a number."""
        found = default
        for item in self.fields(number):
            if item.wire_type == VARINT:
                found = self.reader.varint(item.start, item.end, "the model")[0]
        return found
