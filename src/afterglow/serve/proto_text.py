"""Message classes from the text of a .proto file, without a code generator.

What is read is the part of the language that the server's own file uses: messages, enums, fields
that are repeated, maps or of a oneof, and services.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]  # ships no types
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

from afterglow.support.lazy_dataclass import dataclass

_TOKEN = re.compile(r"//[^\n]*|\s+|\"[^\"]*\"|[A-Za-z_][\w.]*|\d+|[{}()<>=;,]")
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    name: getattr(_FIELD, f"TYPE_{name.upper()}")
    for name in ("bool", "int32", "int64", "uint32", "uint64", "float", "double", "string", "bytes")
}


@dataclass(frozen=True)
class Method:
    """A method of a service: the classes of its messages, and whether they are streams."""

    name: str
    request: Any
    response: Any
    is_stream: bool


@dataclass
class ProtoFile:
    """The messages and the service of a .proto file."""

    service: str
    messages: Mapping[str, Any]
    methods: tuple[Method, ...]
    nested: tuple[Any, ...]
    """The classes of messages within messages, which nothing else keeps alive.

    Protobuf makes such a class when the first of its messages is read, and forgets it with the
    last; while the garbage collector does that, a message that is read crashes the process.
    """


def read_proto(name: str, text: str) -> ProtoFile:
    """The classes of a file, in a pool of their own: other files may have the same names."""
    reader = _Reader([t for t in _TOKEN.findall(text) if not t.isspace() and t[:2] != "//"])
    file = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto3")
    reader.read_file(file)
    _resolve_all(file)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindFileByName(name)
    messages = {
        each: message_factory.GetMessageClass(descriptor)
        for each, descriptor in found.message_types_by_name.items()
    }
    methods = tuple(
        Method(m.name, messages[_last(m.input_type)], messages[_last(m.output_type)], s)
        for m, s in reader.methods
    )
    nested = tuple(_nested(found.message_types_by_name.values()))
    return ProtoFile(f"{file.package}.{reader.service}", messages, methods, nested)


def _nested(descriptors: Iterable[Any]) -> Iterator[Any]:
    """The classes of all messages within messages, those of maps too."""
    for descriptor in descriptors:
        for inner in descriptor.nested_types:
            yield message_factory.GetMessageClass(inner)
        yield from _nested(descriptor.nested_types)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


@dataclass
class _Reader:
    """Reads declarations from tokens."""

    tokens: list[str]
    place: int = 0
    service: str = ""
    methods: list[tuple[Any, bool]] = field(default_factory=list)

    def next(self) -> str:
        """The next token."""
        self.place += 1
        return self.tokens[self.place - 1]

    def skip(self, *expected: str) -> None:
        """Read tokens that must come now."""
        for each in expected:
            found = self.next()
            if found != each:
                raise ValueError(f"expected {each!r}, found {found!r}, token {self.place}")

    def read_file(self, file: Any) -> None:
        """Read all declarations of a file."""
        while self.place < len(self.tokens):
            match self.next():
                case "syntax":
                    self.place += 3
                case "package":
                    file.package = self.next()
                    self.skip(";")
                case "message":
                    self.read_message(file.message_type.add())
                case "enum":
                    self.read_enum(file.enum_type.add())
                case "service":
                    self.read_service()
                case other:
                    raise ValueError(f"unexpected {other!r}, token {self.place}")

    def read_message(self, message: Any) -> None:
        """Read a message, after its keyword."""
        message.name = self.next()
        self.skip("{")
        while (token := self.next()) != "}":
            match token:
                case "message":
                    self.read_message(message.nested_type.add())
                case "enum":
                    self.read_enum(message.enum_type.add())
                case "oneof":
                    message.oneof_decl.add(name=self.next())
                    self.skip("{")
                    while (inner := self.next()) != "}":
                        made = self.read_field(message, inner)
                        made.oneof_index = len(message.oneof_decl) - 1
                case _:
                    self.read_field(message, token)

    def read_field(self, message: Any, token: str) -> Any:
        """Read a field, of which the first token is read already."""
        label = _FIELD.LABEL_OPTIONAL
        if token in ("repeated", "map"):
            label = _FIELD.LABEL_REPEATED
        if token == "map":
            kind = self.read_map(message)
        else:
            kind = self.next() if token == "repeated" else token
        made = message.field.add(name=self.next(), label=label)
        self.skip("=")
        made.number = int(self.next())
        self.skip(";")
        if token == "map":
            entry = message.nested_type[-1]
            entry.name = "".join(part.capitalize() for part in made.name.split("_")) + "Entry"
            kind = entry.name
        _set_type(made, kind)
        return made

    def read_map(self, message: Any) -> str:
        """Read the types of a map, which is a message of a key and a value."""
        self.skip("<")
        key = self.next()
        self.skip(",")
        value = self.next()
        self.skip(">")
        entry = message.nested_type.add()
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            made = entry.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
            _set_type(made, kind)
        return value

    def read_enum(self, enum: Any) -> None:
        """Read an enumeration, after its keyword."""
        enum.name = self.next()
        self.skip("{")
        while (name := self.next()) != "}":
            self.skip("=")
            enum.value.add(name=name, number=int(self.next()))
            self.skip(";")

    def read_service(self) -> None:
        """Read the methods of a service."""
        self.service = self.next()
        self.skip("{")
        while (token := self.next()) != "}":
            assert token == "rpc"
            method = descriptor_pb2.MethodDescriptorProto(name=self.next())
            method.input_type, is_stream = self.read_type()
            self.skip("returns")
            method.output_type, _ = self.read_type()
            self.skip(";")
            self.methods.append((method, is_stream))

    def read_type(self) -> tuple[str, bool]:
        """Read the type of a method's messages, and whether they are a stream."""
        self.skip("(")
        name = self.next()
        is_stream = name == "stream"
        if is_stream:
            name = self.next()
        self.skip(")")
        return name, is_stream


def _set_type(made: Any, kind: str) -> None:
    if kind in _SCALARS:
        made.type = _SCALARS[kind]
    else:
        made.type_name = kind


def _resolve_all(file: Any) -> None:
    """Write the names of types in full."""
    root = f".{file.package}"
    names = _Names()
    names.add_enums(file.enum_type, root)
    for message in file.message_type:
        names.add(message, root)
    for message in file.message_type:
        names.resolve(message, root)


@dataclass
class _Names:
    """The full names of messages and enumerations."""

    messages: set[str] = field(default_factory=set)
    enums: set[str] = field(default_factory=set)

    def add(self, message: Any, prefix: str) -> None:
        """Note a message, and what is declared in it."""
        full = f"{prefix}.{message.name}"
        self.messages.add(full)
        self.add_enums(message.enum_type, full)
        for inner in message.nested_type:
            self.add(inner, full)

    def add_enums(self, enums: Any, prefix: str) -> None:
        """Note enumerations."""
        self.enums.update(f"{prefix}.{enum.name}" for enum in enums)

    def resolve(self, message: Any, prefix: str) -> None:
        """Write the names of the types of a message's fields in full: the innermost counts."""
        full = f"{prefix}.{message.name}"
        scopes = [full.rsplit(".", depth)[0] for depth in range(full.count("."))]
        for each in (each for each in message.field if each.type_name):
            candidates = [f"{scope}.{each.type_name}" for scope in scopes]
            each.type_name = next(c for c in candidates if c in self.messages | self.enums)
            is_enum = each.type_name in self.enums
            each.type = _FIELD.TYPE_ENUM if is_enum else _FIELD.TYPE_MESSAGE
        for inner in message.nested_type:
            self.resolve(inner, full)
