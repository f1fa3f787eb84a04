"""What an importer function sees of its node: operands, attributes, and a way to emit ops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from afterglow.frontends.base import NeedsValuesError
from afterglow.frontends.definition.known import fold
from afterglow.frontends.definition.model import (
    AttributeDef,
    AttributeKind,
    GraphDef,
    NodeDef,
    TensorDef,
)
from afterglow.frontends.definition.problems import GrownReadError, NeedsInliningError
from afterglow.frontends.definition.symbolic import exact_array, objects, whole
from afterglow.graph import Builder, Constant, Node, Op, Subgraph, Value
from afterglow.ops.extents import Extents
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import boolean, i64
from afterglow.types.extent import RangedExtent, UndecidedExtentError, is_ranged

if TYPE_CHECKING:
    from afterglow.frontends.definition.graph import GraphImporter


class StaticSequence(tuple[Value, ...]):
    """An ONNX sequence whose length is known when importing: it needs no run-time object."""


@dataclass(frozen=True, eq=False)
class RowList:
    """An ONNX sequence of tensors of one type, as the rows of some tensors.

    Each part has rows, and which of them there are: None if all. In a body it is what the body
    appends to the list `base`, which it cannot read; None if the parts are all of it. What
    `is_before` is put before the base rather than behind it.
    """

    parts: tuple[tuple[Value, Value | None], ...] = ()
    base: RowList | None = None
    is_before: bool = False

    def with_part(
        self, rows: Value, present: Value | None, *, is_before: bool = False
    ) -> RowList | None:
        """The list with rows at one of its ends; None if it has others at the other end."""
        if self.base is not None and self.parts and self.is_before != is_before:
            return None
        part = (rows, present)
        parts = (part, *self.parts) if is_before else (*self.parts, part)
        return RowList(parts, self.base, is_before)


@dataclass(frozen=True, eq=False)
class Span:
    """A part of a tensor between two bounds (i64[]) along an axis, cut as ONNX says."""

    source: Value
    start: Value
    end: Value


@dataclass(frozen=True, eq=False)
class GrownTensor:
    """A tensor that became longer in a body, by as many rows as only data tell.

    It is `base` with the first `count` (i64[]) of `rows` behind it along an axis; None for a base
    without elements.
    """

    base: Value | None
    axis: int
    rows: Value
    count: Value
    bound: int | None = None
    """An extent that the count does not exceed; None for that of the rows."""
    span: Span | None = None
    """Which part of another tensor it is, if it is one."""

    @property
    def most(self) -> int:
        """How many rows count at most."""
        return self.rows.type.shape[self.axis] if self.bound is None else self.bound


@dataclass(frozen=True)
class RowMaps:
    """An ONNX sequence of maps, one a row of a tensor; its columns belong to the keys."""

    keys: tuple[int | str, ...]
    rows: Value


@dataclass(frozen=True)
class KnownMap:
    """An ONNX map whose entries are known when importing."""

    entries: Mapping[Any, Any]


@dataclass(frozen=True)
class ComplexParts:
    """Complex numbers: real and imaginary parts along the last axis."""

    parts: Value


@dataclass(frozen=True)
class ImportedBody:
    """A body as a function, and the outer values that it captures.

    `lists` are those of its outputs, by their places, that are lists, `grown` those that grew: of
    these the function returns nothing, as `lists.py` and `grown.py` say how.
    """

    subgraph: Subgraph
    captured: list[Value]
    lists: Mapping[int, RowList]
    grown: Mapping[int, GrownTensor]

    def outer(self, value: Value) -> Value | None:
        """The value outside that one in the body stands for; None if the body computes it."""
        if isinstance(value, Constant):
            return value
        inputs = self.subgraph.function.inputs
        own = inputs[len(inputs) - len(self.captured) :]
        return next(
            (x for x, taken in zip(self.captured, own, strict=True) if taken is value), None
        )


Imported: TypeAlias = (
    Value | StaticSequence | RowList | GrownTensor | RowMaps | KnownMap | ComplexParts
)
"""What a name stands for; None in its place is an input not given, or an empty optional."""

ChoiceT = TypeVar("ChoiceT")


class NodeContext:
    """One node of a model being imported."""

    def __init__(
        self,
        graph: GraphImporter,
        proto: NodeDef,
        attributes: Mapping[str, AttributeDef],
        operands: Sequence[Imported | None],
        opset: int,
        builder: Builder,
    ) -> None:
        self.graph = graph
        self.proto = proto
        self.attributes = attributes
        self.operands = list(operands)
        self.opset = opset
        self.builder = builder

    def __len__(self) -> int:
        return len(self.operands)

    def __getitem__(self, index: int) -> Value:
        """Operand `index`, which must be there and be a tensor."""
        value = self.get(index)
        if value is None:
            raise ModelError(f"input {index} is missing")
        return value

    def get(self, index: int) -> Value | None:
        """Operand `index`, or None if it was not given."""
        operand = self.operands[index] if index < len(self.operands) else None
        if isinstance(operand, Value) or operand is None:
            return operand
        if isinstance(operand, GrownTensor):
            raise GrownReadError()
        if isinstance(operand, ComplexParts):
            raise UnsupportedError(
                "complex numbers are not supported by this op",
                help="compute with real and imaginary parts",
            )
        what = "a sequence" if isinstance(operand, (StaticSequence, RowList, RowMaps)) else "a map"
        raise ModelError(f"input {index} is {what}, a tensor is needed")

    def values(self) -> list[Value]:
        """All operands, none of which may be missing: for variadic ops."""
        return [self[index] for index in range(len(self))]

    def check_alike(self, *indices: int) -> None:
        """Operands of these numbers must hold elements of one type."""
        first, *others = indices
        for other in others:
            if self[other].type.dtype is not self[first].type.dtype:
                raise ModelError(
                    f"inputs {first} and {other} must hold the same elements, "
                    f"got {self[first].type} and {self[other].type}",
                    help="insert a Cast",
                )

    def tensor_named(self, name: str) -> Value:
        """The tensor that a name of the graph stands for."""
        value = self.graph.scope.look_up(name)
        if not isinstance(value, Value):
            raise ModelError(f"{name!r} is not a tensor")
        return value

    def sequence(self, index: int) -> StaticSequence:
        """Operand `index`, which must be a sequence."""
        operand = self.operands[index] if index < len(self.operands) else None
        if not isinstance(operand, StaticSequence):
            raise ModelError(f"input {index} must be a sequence")
        return operand

    def with_operands(self, *operands: Imported | None) -> NodeContext:
        """The same node with other operands, for an importer that expects those."""
        return type(self)(
            self.graph, self.proto, self.attributes, operands, self.opset, self.builder
        )

    def wants(self, output: int) -> bool:
        """Whether the node names output `output`."""
        return output < len(self.proto.output) and bool(self.proto.output[output])

    def is_read(self, output: int) -> bool:
        """Whether something in the model may read output `output`."""
        return self.wants(output) and self.proto.output[output] in self.graph.session.read_names

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute as Python sees it: text as str, lists as tuples; `default` if not set."""
        found = self.attributes.get(name)
        return default if found is None else found.value

    def has(self, name: str) -> bool:
        """Whether the attribute is set."""
        return name in self.attributes

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute; without a default it must be set."""
        return int(self._required(name, default, AttributeKind.INT))

    def number(self, name: str, default: float | None = None) -> float:
        """A float attribute, or an integer one; without a default it must be set."""
        kinds = (AttributeKind.FLOAT, AttributeKind.INT)
        return float(self._required(name, default, *kinds))

    def text(self, name: str, default: str | None = None) -> str:
        """A string attribute; without a default it must be set."""
        return str(self._required(name, default, AttributeKind.STRING))

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """A list of integers; without a default it must be set."""
        return tuple(int(v) for v in self._required(name, default, AttributeKind.INTS))

    def numbers(self, name: str, default: Sequence[float] | None = None) -> tuple[float, ...]:
        """A list of floats; without a default it must be set."""
        return tuple(float(v) for v in self._required(name, default, AttributeKind.FLOATS))

    def texts(self, name: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
        """A list of strings; without a default it must be set."""
        return tuple(map(str, self._required(name, default, AttributeKind.STRINGS)))

    def choice(self, name: str, options: Mapping[str, ChoiceT], default: str = "") -> ChoiceT:
        """What a string attribute stands for, which must be one of the options."""
        chosen = self.text(name, default or None)
        if chosen not in options:
            listed = ", ".join(map(repr, options))
            raise ModelError(f"attribute {name!r} must be one of {listed}, it is {chosen!r}")
        return options[chosen]

    def counted(self, name: str, count: int, default: int | None = None) -> tuple[int, ...]:
        """A list of so many integers, each the default if it is not set."""
        numbers = self.integers(name, None if default is None else (default,) * count)
        if len(numbers) != count:
            raise ModelError(f"attribute {name!r} must have {count} numbers, it has {len(numbers)}")
        return numbers

    def extents(self, value: Value, rank: int) -> tuple[int, ...]:
        """The shape of a value that must have so many axes."""
        if value.type.rank != rank:
            raise ModelError(f"{value.name!r} must have {rank} axes, it is {value.type}")
        return value.type.shape

    def tensor(self, name: str) -> Array:
        """A tensor attribute; the array must not be written."""
        return self._array(name, AttributeKind.TENSOR)

    def sparse_tensor(self, name: str) -> Array:
        """A sparse tensor attribute with its zeros written out."""
        return self._array(name, AttributeKind.SPARSE_TENSOR)

    def _array(self, name: str, kind: AttributeKind) -> Array:
        tensor = self._required(name, None, kind)
        assert isinstance(tensor, TensorDef)
        return tensor.read()

    def dtype(self, name: str, default: DType | None = None) -> DType:
        """An element type attribute."""
        if default is not None and not self.has(name):
            return default
        return self.dtype_of(self.integer(name))

    def dtype_of(self, number: int) -> DType:
        """The element type that the dialect numbers so."""
        return self.graph.dialect.element_type(number)

    def _required(self, name: str, default: Any, *kinds: AttributeKind) -> Any:
        found = self.attributes.get(name)
        if found is None and default is None:
            raise ModelError(f"attribute {name!r} is missing")
        if found is not None and found.kind not in kinds:
            what = found.kind.value if found.kind is not AttributeKind.GRAPHS else "something else"
            raise ModelError(f"attribute {name!r} must be {kinds[0].value}, it is {what}")
        return self.attribute(name, default)

    def known(self, index: int) -> Array:
        """The value of operand `index`, which decides shapes and so must be known by now."""
        return self.value_of(self[index])

    def known_ints(self, index: int) -> tuple[int, ...]:
        """The same as a tuple of integers."""
        numbers = self.known(index)
        dtype = self[index].type.dtype
        is_finite = dtype.is_float and np.isfinite(numbers.astype(np.float64)).all()
        if not (dtype.is_integer or dtype is boolean or is_finite):
            raise ModelError(f"input {index} must hold integers, it is {self[index].type}")
        return tuple(int(v) for v in numbers.reshape(-1))

    def known_number(self, index: int) -> Any:
        """The same as a Python number, where it holds only one."""
        array = self.known(index)
        if array.size != 1 or array.dtype.kind in "Oc":
            raise ModelError(f"input {index} must hold one real number, it is {self[index].type}")
        return array.item()

    def known_int(self, index: int) -> int:
        """The same as an integer."""
        number = self.known_number(index)
        if not math.isfinite(number):
            raise ModelError(f"input {index} must hold an integer, it is {number}")
        return int(number)

    def known_extents(self, index: int) -> tuple[int, ...]:
        """The same as `known_ints`, for those who take ranged extents."""
        elements = self.graph.known.symbols_of(self[index])
        if elements is None:
            return self.known_ints(index)
        return tuple(whole(element) for element in elements.reshape(-1).tolist())

    def known_bound(self, index: int) -> Any:
        """The same as `known_number`, for those who take a ranged extent."""
        elements = self.graph.known.symbols_of(self[index])
        if elements is None or elements.size != 1:
            return self.known_number(index)
        return whole(elements.item())

    def known_extent(self, index: int) -> int:
        """The same as `known_int`, for those who take a ranged extent."""
        number = self.known_bound(index)
        return number if isinstance(number, RangedExtent) else self.known_int(index)

    def value_of(self, value: Value) -> Array:
        """The array that `value` will be; `NeedsValuesError` unless it follows from constants."""
        array = self.graph.known.array(value)
        may_vary = self.is_driven and not value.type.dtype.is_float
        if not may_vary and self.graph.known.varies(value):
            raise UnsupportedError(
                f"the value of {value.name!r} must be known, but a Gradient differentiates by it",
                help="leave it out of its 'xs', and feed it under its own name",
            )
        return array

    def value_if_known(self, value: Value) -> Array | None:
        """The same, or None if it does not follow from constants."""
        if self.graph.known.varies(value):
            return None
        try:
            return self.value_of(value)
        except (NeedsValuesError, NeedsInliningError, UndecidedExtentError):
            return None

    @property
    def is_driven(self) -> bool:
        """Whether all values are known, so that the host can drive If, Loop and Scan."""
        return self.graph.session.run_body is not None

    def constant(self, data: Array, name: str = "") -> Constant:
        """A constant in the module."""
        return self.builder.constant(data, name or self.builder.name or "constant")

    def integers_of(self, values: Sequence[int], shape: Sequence[int], dtype: DType = i64) -> Value:
        """A tensor of integers that may be ranged extents; if none is, a constant."""
        if not any(map(is_ranged, values)):
            return self.constant(np.array(values, dtype.numpy).reshape(tuple(shape)))
        result = self.builder.emit(Extents(tuple(values), tuple(shape), dtype))
        self.graph.known.symbols[result] = objects(values, shape)
        return result

    def emit(self, op: Op, *operands: Value | None) -> Value:
        """Apply an op with one result; small results of constants are computed at once."""
        (result,) = self.emit_all(op, *operands)
        return result

    def emit_all(self, op: Op, *operands: Value | None) -> tuple[Value, ...]:
        """Apply an op with any number of results."""
        node = self.builder.emit_node(op, *operands)
        for result in node.results:
            self.check_size(result.type)
        unchecked = self.graph.session.known.unchecked
        arrays = fold(node, always=self.is_driven, unchecked=unchecked)
        if arrays is None:
            return self._expressed(node) or node.results
        self.builder.function.erase(node)
        return tuple(self.constant(array, node.name) for array in arrays)

    def _expressed(self, node: Node) -> tuple[Value] | None:
        """The result of shape arithmetic with ranged extents, at once; None if it is not that."""
        elements = self.graph.known.expressions(node)
        if elements is None:
            return None
        type = node.result.type
        exact = exact_array(elements, type.dtype)
        if exact is None and not type.dtype.is_integer:
            self.graph.known.symbols[node.result] = elements
            return (node.result,)
        self.builder.function.erase(node)
        if exact is not None:
            return (self.constant(exact, node.name),)
        return (self.integers_of(elements.reshape(-1).tolist(), type.shape, type.dtype),)

    def check_size(self, type: TensorType) -> None:
        """Raise if a tensor takes more memory than it may: to be asked before it is made."""
        self.graph.session.check_size(type)

    def body(
        self, name: str, inputs: Sequence[TensorType | Constant]
    ) -> tuple[Subgraph, list[Value]]:
        """The graph attribute `name` as a function of its inputs, then of captured values.

        Of each input the type is given, or its value if that is the same each time: then it is none
        of the function. Returns the function and the outer values that it captured.
        """
        body = self.body_with_lists(name, inputs)
        if body.lists:
            raise NeedsInliningError(f"{name} returns a sequence, not a tensor")
        if body.grown:
            raise NeedsInliningError(f"{name} returns what grew by as much as only data tell")
        return body.subgraph, body.captured

    def body_with_lists(
        self, name: str, inputs: Sequence[TensorType | Constant | RowList]
    ) -> ImportedBody:
        """The same for a body that may also append to lists, which are no inputs of its own."""
        return self.graph.import_body(self, name, inputs)

    def inline(
        self, name: str, inputs: Sequence[Imported | None] = (), prefix: str = ""
    ) -> list[Imported | None]:
        """Import the graph attribute `name` in place, with these values for its inputs.

        The prefix tells names apart that are imported more than once.
        """
        return self.graph.import_inline(self, name, inputs, prefix)

    def graph_attribute(self, name: str) -> GraphDef:
        """A graph attribute."""
        graph = self._required(name, None, AttributeKind.GRAPH)
        assert isinstance(graph, GraphDef)
        return graph

    def fail(self, why: str, help: str = "") -> AfterglowError:
        """The error to raise when the node cannot be imported."""
        return UnsupportedError(why, help=help)
