"""What an exporter of an op works with: the op, its operands by name, and what adds nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto

from afterglow.exporters.onnx.file import onnx_type
from afterglow.exporters.onnx.layouts import Layout, plain
from afterglow.exporters.onnx.values import Values
from afterglow.graph import Function, Node, Op, Value
from afterglow.types import Array, DType, TensorType

WriteBody = Callable[[Function, Sequence[str], int | None], GraphProto]
"""Writes a function whose last inputs are tensors outside, and the first ones its own."""


class NodeWriter:
    """A node that is being written, its operands and results in one layout."""

    def __init__(
        self,
        values: Values,
        write_body: WriteBody,
        node: Node,
        op: Op,
        layout: Layout | None,
    ) -> None:
        self.file = values.file
        self.values = values
        self.write_body = write_body
        self.node = node
        self.op: Any = op
        """The op, as it is in this layout."""
        self.layout = layout
        """That of results and of operands with as many axes; None for that of the graph."""

    def value(self, index: int) -> Value | None:
        """An operand, None if it is not given."""
        operands = self.node.operands
        return operands[index] if index < len(operands) else None

    def type(self, index: int) -> TensorType:
        """The type of an operand, in the graph."""
        value = self.value(index)
        assert value is not None
        return value.type

    def operand(self, index: int, layout: Layout | None = None) -> str:
        """The name of an operand, in a given layout or in that of the node; "" if not given."""
        value = self.value(index)
        if value is None:
            return ""
        if layout is not None:
            return self.values.find(value, layout)
        vector = self.op.operand_names[min(index, len(self.op.operand_names) - 1)]
        if self.layout is None or vector in self.op.along_axis:
            return self.values.find(value, plain(value.type.rank))
        return self.values.broadcast(value, self.layout)

    @property
    def operands(self) -> list[str]:
        """The names of all operands."""
        return [self.operand(index) for index in range(len(self.node.operands))]

    def emit(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node that has one result."""
        return self.file.add(op_type, inputs, self.node.name, 1, _given(attributes))[0]

    def emit_all(
        self, op_type: str, inputs: Sequence[str], outputs: int, **attributes: Any
    ) -> list[str]:
        """Add a node that has several results."""
        return self.file.add(op_type, inputs, self.node.name, outputs, _given(attributes))

    def constant(self, data: Array) -> str:
        """A small constant."""
        return self.file.small_constant(data, f"{self.node.name}.constant")

    def scalar(self, number: float, index: int = 0) -> str:
        """A number of the type of an operand."""
        return self.constant(np.array(number, self.type(index).dtype.numpy))

    def integers(self, *values: int) -> str:
        """A vector of i64."""
        return self.file.integers(values)

    def reshape(self, name: str, *shape: int) -> str:
        """A tensor with another shape."""
        return self.file.reshape(name, shape, self.node.name)

    def as_type(self, name: str, given: DType, wanted: DType) -> str:
        """A tensor of another element type."""
        return name if given is wanted else self.emit("Cast", name, to=onnx_type(wanted))

    def body(
        self, function: Function, captured: Sequence[str], *, condition_at: int | None = None
    ) -> GraphProto:
        """A function that an op carries, as a graph; its last inputs are tensors around it.

        ONNX gives some bodies one input more: whether to go on.
        """
        return self.write_body(function, captured, condition_at)

    @property
    def result_type(self) -> TensorType:
        """The type of the first result, in the graph."""
        return self.node.results[0].type


def _given(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}
