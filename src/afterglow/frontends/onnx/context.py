"""What an importer function sees of its node: operands, attributes, and a way to emit ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import onnx
from onnx import numpy_helper

from afterglow.frontends.onnx.elements import DTYPE_OF_ONNX
from afterglow.graph import Array, Builder, Constant, Node, Op, Placeholder, Subgraph, Value, run_op
from afterglow.support.errors import AfterglowError, UnsupportedError
from afterglow.types import DType, TensorType

if TYPE_CHECKING:
    from afterglow.frontends.onnx.importer import GraphImporter

EAGER_ELEMENTS = 4096
"""Results up to this size are computed at once where all operands are known: shape arithmetic."""


class StaticSequence(tuple[Value, ...]):
    """An ONNX sequence whose length is known when importing: it needs no run-time object."""


Imported: TypeAlias = Value | StaticSequence


class NeedsValuesError(UnsupportedError):
    """Shapes depend on the values of some inputs, which must be bound to import the model."""

    def __init__(self, inputs: tuple[str, ...]) -> None:
        names = ", ".join(map(repr, inputs))
        super().__init__(
            f"shapes in the model depend on the values of input {names}",
            help="bind them when compiling: values={name: array}",
        )
        self.inputs = inputs


class NodeContext:
    """One ONNX node being imported."""

    def __init__(
        self,
        graph: GraphImporter,
        proto: onnx.NodeProto,
        operands: Sequence[Imported | None],
        opset: int,
        builder: Builder,
    ) -> None:
        self.graph = graph
        self.proto = proto
        self.operands = list(operands)
        self.opset = opset
        self.builder = builder
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}

    def __len__(self) -> int:
        return len(self.operands)

    def __getitem__(self, index: int) -> Value:
        """Operand `index`, which must be there and be a tensor."""
        value = self.get(index)
        if value is None:
            raise self.fail(f"input {index} is missing")
        return value

    def get(self, index: int) -> Value | None:
        """Operand `index`, or None if it was not given."""
        operand = self.operands[index] if index < len(self.operands) else None
        if isinstance(operand, StaticSequence):
            raise self.fail(f"input {index} is a sequence, a tensor is needed")
        return operand

    def values(self) -> list[Value]:
        """All operands, none of which may be missing: for variadic ops."""
        return [self[index] for index in range(len(self))]

    def sequence(self, index: int) -> StaticSequence:
        """Operand `index`, which must be a sequence."""
        operand = self.operands[index] if index < len(self.operands) else None
        if not isinstance(operand, StaticSequence):
            raise self.fail(f"input {index} must be a sequence")
        return operand

    def wants(self, output: int) -> bool:
        """Whether the node names output `output`."""
        return output < len(self.proto.output) and bool(self.proto.output[output])

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute as Python sees it: text as str, lists as tuples; `default` if not set."""
        proto = self._attributes.get(name)
        if proto is None:
            return default
        value = onnx.helper.get_attribute_value(proto)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, (str, int, float, onnx.TensorProto, onnx.GraphProto)):
            return value
        if isinstance(value, onnx.SparseTensorProto):
            return value
        return tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value)

    def has(self, name: str) -> bool:
        """Whether the attribute is set."""
        return name in self._attributes

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute; without a default it must be set."""
        return int(self._required(name, default))

    def number(self, name: str, default: float | None = None) -> float:
        """A float attribute; without a default it must be set."""
        return float(self._required(name, default))

    def text(self, name: str, default: str | None = None) -> str:
        """A string attribute; without a default it must be set."""
        return str(self._required(name, default))

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """A list of integers; without a default it must be set."""
        return tuple(int(v) for v in self._required(name, default))

    def tensor(self, name: str) -> Array:
        """A tensor attribute."""
        return numpy_helper.to_array(self._required(name, None))

    def dtype(self, name: str, default: DType | None = None) -> DType:
        """An element type attribute."""
        value = self.attribute(name)
        if value is None:
            if default is None:
                raise self.fail(f"attribute {name!r} is missing")
            return default
        return self.dtype_of(value)

    def dtype_of(self, number: int) -> DType:
        """The element type that ONNX numbers so."""
        if number not in DTYPE_OF_ONNX:
            raise self.fail(f"element type {number} is unknown")
        return DTYPE_OF_ONNX[number]

    def _required(self, name: str, default: Any) -> Any:
        value = self.attribute(name, default)
        if value is None:
            raise self.fail(f"attribute {name!r} is missing")
        return value

    def known(self, index: int) -> Array:
        """The value of operand `index`, which decides shapes and so must be known by now."""
        return self.value_of(self[index])

    def known_ints(self, index: int) -> tuple[int, ...]:
        """The same as a tuple of integers."""
        return tuple(int(v) for v in self.known(index).reshape(-1))

    def value_of(self, value: Value) -> Array:
        """The array that `value` will be; `NeedsValuesError` unless it follows from constants."""
        return evaluate_now(value, self.graph.input_name)

    def constant(self, data: Array, name: str = "") -> Constant:
        """A constant in the module."""
        return self.builder.constant(data, name or self.builder.name or "constant")

    def emit(self, op: Op, *operands: Value | None) -> Value:
        """Apply an op with one result; small results of constants are computed at once."""
        (result,) = self.emit_all(op, *operands)
        return result

    def emit_all(self, op: Op, *operands: Value | None) -> tuple[Value, ...]:
        """Apply an op with any number of results."""
        node = self.builder.emit_node(op, *operands)
        if not _is_foldable(node):
            return node.results
        arrays = evaluate_node(node, {})
        name = node.name
        node_function = self.builder.function
        node_function.erase(node)
        return tuple(self.constant(array, name) for array in arrays)

    def body(self, name: str, types: Sequence[TensorType]) -> tuple[Subgraph, list[Value]]:
        """The graph attribute `name` as a function of inputs of `types`, then of captured values.

        Returns it and those outer values, to be passed after the inputs.
        """
        return self.graph.import_body(self, self._required(name, None), types)

    def inline(self, name: str) -> list[Imported]:
        """Import the graph attribute `name`, which has no inputs, in place."""
        return self.graph.import_inline(self._required(name, None))

    def fail(self, why: str, help: str = "") -> AfterglowError:
        """The error to raise when the node cannot be imported."""
        return UnsupportedError(why, help=help)


def evaluate_now(value: Value, input_name: Callable[[Value], str]) -> Array:
    """Compute a value from constants alone."""
    done: dict[Value, Array] = {}
    stack = [value]
    missing: dict[str, None] = {}
    while stack:
        current = stack[-1]
        if current in done or isinstance(current, (Constant, Placeholder)):
            if isinstance(current, Constant):
                done[current] = current.data
            elif isinstance(current, Placeholder):
                missing[input_name(current)] = None
            stack.pop()
            continue
        producer = current.producer
        assert producer is not None
        pending = [v for v in producer.given if v not in done and not isinstance(v, Placeholder)]
        for v in producer.given:
            if isinstance(v, Placeholder):
                missing[input_name(v)] = None
        if pending:
            stack.extend(pending)
            continue
        stack.pop()
        if not missing:
            done.update(zip(producer.results, evaluate_node(producer, done), strict=True))
        else:
            done.update((r, None) for r in producer.results)  # type: ignore[misc]  # not read: see below
    if missing:
        raise NeedsValuesError(tuple(missing))
    return done[value]


def evaluate_node(node: Node, known: dict[Value, Array]) -> tuple[Array, ...]:
    """Evaluate one node whose operands are constants or in `known`."""
    operands = [
        None if v is None else v.data if isinstance(v, Constant) else known[v]
        for v in node.operands
    ]
    return run_op(node.op, operands, [result.type for result in node.results])


def _is_foldable(node: Node) -> bool:
    return (
        node.op.pure
        and all(isinstance(value, Constant) for value in node.inputs())
        and sum(result.type.size for result in node.results) <= EAGER_ELEMENTS
        and sum(value.type.size for value in node.inputs()) <= EAGER_ELEMENTS
    )
