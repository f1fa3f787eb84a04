"""The tensors of an entry as C sees them: names, types, sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.names import NameScope
from afterglow.types import FillLevel, Interface, Port, TensorType
from afterglow.types.dtype import DType, Kind, f32, f64

_RESERVED = frozenset(
    [
        "alignas",
        "alignof",
        "and",
        "asm",
        "auto",
        "bitand",
        "bitor",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "class",
        "compl",
        "const",
        "constexpr",
        "continue",
        "default",
        "delete",
        "do",
        "double",
        "else",
        "enum",
        "explicit",
        "export",
        "extern",
        "false",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "mutable",
        "namespace",
        "new",
        "not",
        "nullptr",
        "operator",
        "or",
        "private",
        "protected",
        "public",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "template",
        "this",
        "throw",
        "true",
        "try",
        "typedef",
        "typeid",
        "typename",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "wchar_t",
        "while",
        "xor",
    ]
)
"""Words of C and C++ that name nothing else."""


class BundledProgram(Protocol):
    """A program of a bundle, with the names that the model has for what it takes and gives."""

    @property
    def interface(self) -> Interface:
        """What it takes and gives."""

    @property
    def input_names(self) -> Sequence[str]:
        """The names of its inputs."""

    @property
    def output_names(self) -> Sequence[str]:
        """The names of its outputs."""


@dataclass(frozen=True)
class Field:
    """A member of a struct of pointers: `role` is input, output or state."""

    role: str
    name: str
    """As the model calls it."""
    member: str
    type: TensorType
    written: bool
    level: FillLevel | None = None
    """How far a state is filled that grows."""

    @property
    def count(self) -> int:
        """How many elements it has, at most."""
        return self.type.nbytes // self.type.dtype.itemsize

    @property
    def c_type(self) -> str:
        """The type of an element in C."""
        return c_type(self.type.dtype)

    @property
    def macro(self) -> str:
        """The middle of the macros about it: INPUT_X."""
        return f"{self.role}_{self.member}".upper()

    @property
    def shape(self) -> str:
        """Element type and extents: f32[1, 10]."""
        return f"{self.type.dtype}[{', '.join(in_comment(str(n)) for n in self.type.shape)}]"


def fields_of(entry: BundledProgram) -> list[Field]:
    """Inputs, outputs, states, in the order of the struct."""
    scope = NameScope()
    found = []
    for role, name, port in _ports(entry):
        written = role != "input" or port.donated
        member = scope.claim(identifier(name))
        found.append(Field(role, name, member, port.type, written, port.level))
    return found


def _ports(entry: BundledProgram) -> Iterator[tuple[str, str, Port]]:
    interface = entry.interface
    for name, port in zip(entry.input_names, interface.inputs, strict=True):
        yield "input", name, port
    for name, port in zip(entry.output_names, interface.outputs, strict=True):
        yield "output", name, port
    for port in interface.states:
        yield "state", port.name, port


def identifier(name: str) -> str:
    """A name that C, C++ and linkers take."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    if not plain or plain[0].isdigit():
        plain = f"t_{plain}" if plain else "t"
    return f"{plain}_" if plain in _RESERVED else plain


def in_comment(text: str) -> str:
    """A text as a comment of C can hold it."""
    return re.sub(r"[^ -~]", "?", text).replace("*/", "* /").replace("/*", "/ *")


def name_in_model(name: str, member: str) -> str:
    """A remark about a member that the model calls by another name."""
    return "" if in_comment(name) == member else f', "{in_comment(name)}" in the model'


def c_type(dtype: DType) -> str:
    """The type of C that holds an element; narrow floats are held as their bits."""
    if dtype is f32:
        return "float"
    if dtype is f64:
        return "double"
    sign = "" if dtype.kind is Kind.INT else "u"
    return f"{sign}int{dtype.itemsize * 8}_t"
