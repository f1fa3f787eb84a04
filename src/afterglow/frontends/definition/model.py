"""A model of another format as plain values: what importers read, without the library behind it.

A front end translates a model into it once, which may need the library that reads its files; graph
IR that was saved is read back without (`host_graph.py`). The words are ONNX's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from afterglow.support.digest import digest_of_bytes
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType, TensorType

if TYPE_CHECKING:
    from afterglow.frontends.definition.dialect import Dialect

DeclaredExtent: TypeAlias = "int | str | None"
"""A number, the name of a dynamic dimension, or None for a dynamic one without a name."""

TRAINING_DOMAIN = "ai.onnx.preview.training"
"""Of Gradient and the optimizers."""

_ROWS = "\0rows"
_COUNT = "\0count"


class AttributeKind(Enum):
    """What an attribute of a node holds; the value is how errors call it."""

    FLOAT = "a number"
    INT = "an integer"
    BOOL = "a truth value"
    STRING = "a text"
    TENSOR = "a tensor"
    SPARSE_TENSOR = "a sparse tensor"
    GRAPH = "a graph"
    FLOATS = "numbers"
    INTS = "integers"
    BOOLS = "truth values"
    STRINGS = "texts"
    GRAPHS = "graphs"
    OTHER = "something else"


@dataclass(frozen=True, eq=False)
class TensorDef:
    """A tensor of a model, whose elements are read when someone asks for them.

    `place` tells it from all other tensors of its file; without one, its elements do.
    """

    name: str
    read: Callable[[], Array]
    place: str = ""
    declared: TensorType | None = None
    """Its type, if that is known without its elements."""

    @property
    def type(self) -> TensorType:
        """Its type: declared, or that of its elements."""
        return self.declared or TensorType.of(self.read())

    @cached_property
    def identity(self) -> str:
        """Equal for tensors with the same elements, in one model."""
        if self.place:
            return self.place
        array = self.read()
        elements = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        return f"{array.dtype}{array.shape}{digest_of_bytes(elements)}"


@dataclass(frozen=True, eq=False)
class AttributeDef:
    """An attribute of a node.

    `value` is a number, a text, a tuple of them, a `TensorDef`, a `GraphDef` or a tuple of those.
    `reference` is the attribute of the function call around it that it stands for, if it does.
    """

    kind: AttributeKind
    value: Any = None
    reference: str = ""

    @property
    def graphs(self) -> tuple[GraphDef, ...]:
        """The graphs that it holds."""
        match self.value:
            case GraphDef():
                return (self.value,)
            case tuple() if self.kind is AttributeKind.GRAPHS:
                return self.value
        return ()

    @cached_property
    def identity(self) -> object:
        """Equal for attributes of the same meaning, and hashable."""
        match self.value:
            case TensorDef() | GraphDef():
                meaning: object = self.value.identity
            case tuple() if self.kind is AttributeKind.GRAPHS:
                meaning = tuple(graph.identity for graph in self.value)
            case _:
                meaning = repr(self.value)
        return self.kind.name, meaning, self.reference


@dataclass(frozen=True, eq=False)
class NodeDef:
    """A node: an op by its name, applied to values by their names; an empty name for none."""

    op_type: str
    domain: str
    name: str
    input: tuple[str, ...]
    output: tuple[str, ...]
    attributes: Mapping[str, AttributeDef] = field(default_factory=dict)
    overload: str = ""

    @property
    def label(self) -> str:
        """How errors call it: its name, or that of what it computes."""
        return self.name or next((output for output in self.output if output), self.op_type)

    def graphs(self) -> Iterator[GraphDef]:
        """The graphs that it has as attributes."""
        for attribute in self.attributes.values():
            yield from attribute.graphs

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The names that it reads, with those that its sub-graphs take from outside."""
        names = [*(name for name in self.input if name), *self.named_values]
        for graph in self.graphs():
            names.extend(graph.free_names)
        return tuple(names)

    @property
    def named_values(self) -> list[str]:
        """The values to which attributes refer by name, as those of Gradient do."""
        if (self.domain, self.op_type) != (TRAINING_DOMAIN, "Gradient"):
            return []
        return [name for key in ("xs", "zs", "y") for name in self.names_in(key)]

    def names_in(self, key: str) -> list[str]:
        """The names that an attribute holds."""
        attribute = self.attributes.get(key)
        value = None if attribute is None else attribute.value
        texts = value if isinstance(value, tuple) else (value,)
        return [text for text in texts if text and isinstance(text, str)]

    @cached_property
    def identity(self) -> tuple[object, ...]:
        """Equal for nodes that compute the same: all but the names of the node and its results."""
        attributes = tuple((name, a.identity) for name, a in self.attributes.items())
        results = tuple(map(bool, self.output))
        return self.op_type, self.domain, self.overload, self.input, attributes, results


@dataclass(frozen=True)
class TypeDef:
    """A declared type: a tensor's, or only the kind of something else.

    The element type is None if none is declared, the shape if not even the rank is.
    """

    kind: str
    element: DType | None = None
    shape: tuple[DeclaredExtent, ...] | None = None


@dataclass(frozen=True)
class ValueDef:
    """An input or output as declared; without a type if none is."""

    name: str
    type: TypeDef | None = None


@dataclass(frozen=True, eq=False)
class GraphDef:
    """A graph: the main one of a model, or a body of If, Loop or Scan."""

    name: str
    node: tuple[NodeDef, ...]
    input: tuple[ValueDef, ...]
    output: tuple[ValueDef, ...]
    constants: tuple[TensorDef, ...] = ()
    types: Mapping[str, TypeDef] = field(default_factory=dict)
    """What is declared of values inside."""

    @cached_property
    def free_names(self) -> tuple[str, ...]:
        """The names that it reads but does not define, each once."""
        defined = {info.name for info in self.input}
        defined.update(tensor.name for tensor in self.constants)
        defined.update(name for node in self.node for name in node.output)
        names = dict.fromkeys(name for node in self.node for name in node.reads)
        names.update(dict.fromkeys(info.name for info in self.output))
        return tuple(name for name in names if name not in defined)

    @cached_property
    def identity(self) -> tuple[object, ...]:
        """Equal for graphs that do the same under the same names, and hashable."""
        nodes = tuple((node.name, node.output, node.identity) for node in self.node)
        tensors = tuple((tensor.name, tensor.identity) for tensor in self.constants)
        return nodes, self.input, self.output, tensors


@dataclass(frozen=True, eq=False)
class FunctionDef:
    """A function of a model, or one by which the standard defines an op."""

    name: str
    domain: str
    overload: str
    input: tuple[str, ...]
    output: tuple[str, ...]
    node: tuple[NodeDef, ...]
    defaults: Mapping[str, AttributeDef] = field(default_factory=dict)
    opset_import: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, eq=False)
class ModelDef:
    """A model: its main graph, its own functions, and the versions of domains that it names."""

    dialect: Dialect
    graph: GraphDef
    functions: tuple[FunctionDef, ...] = ()
    opset_import: tuple[tuple[str, int], ...] = ()
    ir_version: int = 0
    producer: str = ""
    """The program that wrote it, and its version."""
    warn: Callable[[str], None] = field(default=lambda text: None, repr=False)
    """Tells the user something about the model, once."""


def constant(name: str, array: Array) -> TensorDef:
    """A tensor whose elements are there already."""
    return TensorDef(name, lambda: array)


ROWS_DOMAIN, FIRST_ROWS, SEQUENCE_OF_ROWS = "afterglow.rows", "FirstRows", "SequenceOfRows"
"""The ops behind a loop that make a sequence of the rows which the loop appended."""

MASKED, BY_PLACES, WHOLE, PICKED = "Masked", "by_places", "whole", "picked"
"""The op that overwrites what a mask chooses, its two forms, and how many tensors it reads so."""

MASKED_ROWS = "MaskedRows"
"""The op that does so by places of rows; it has the form `BY_PLACES`, too."""

CUT_AXES = "cut_axes"
"""The attribute of a loop with the axes along which carried values may become longer."""


REST = "rest"
"""The attribute of a loop that is the rest of a body, and runs once."""


CHUNK = "chunk"
"""The attribute of a loop that is a part of another one's iterations."""


def rows_name(name: str) -> str:
    """What a loop calls the rows that it may stack, of which `name` are those that there are."""
    return name + _ROWS


def is_rows_name(name: str) -> bool:
    """Whether a loop calls rows so that it may stack."""
    return name.endswith(_ROWS)


def count_name(name: str) -> str:
    """What a loop calls the number of rows."""
    return name + _COUNT


def model_name(output: str) -> str:
    """What the model calls the rows that a loop stacks; nothing for their number."""
    return "" if output.endswith(_COUNT) else output.removesuffix(_ROWS)
