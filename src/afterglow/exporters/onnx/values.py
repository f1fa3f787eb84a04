"""Which tensors of a file hold a value of the graph, each in another order of axes.

A transpose is added only where a value is needed in a layout that no tensor has, so those of a
graph that was made channels-last vanish in a file that has channels first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from afterglow.exporters.onnx.file import GraphFile
from afterglow.exporters.onnx.layouts import (
    Layout,
    after_transpose,
    between,
    moves_nothing,
    plain,
)
from afterglow.graph import Constant, Node, Value

Write = Callable[[Node, Layout], str]


class Values:
    """The tensors that hold values."""

    def __init__(self, file: GraphFile, write: Write) -> None:
        self.file = file
        self.write = write
        """Writes a node in a layout: of those whose operands are constants, when asked for."""
        self.held: dict[Value, dict[Layout, str]] = {}
        self.waiting: dict[Value, Node] = {}

    def hold(self, value: Value, name: str, layout: Layout | None = None) -> None:
        """A tensor holds a value."""
        self.held.setdefault(value, {})[layout or plain(value.type.rank)] = name

    def wait(self, node: Node) -> None:
        """The result of a node is written when somebody asks for it, in the layout asked for."""
        self.waiting[node.result] = node

    def transposed(self, value: Value, source: Value, perm: Layout) -> None:
        """A value is the transpose of another: whatever holds that holds this."""
        if source not in self.held:
            self.find(source, plain(source.type.rank))
        for layout, name in self.held[source].items():
            self.hold(value, name, after_transpose(layout, perm))

    def rename(self, old: str, new: str) -> None:
        """A tensor has another name."""
        for held in self.held.values():
            held.update((layout, new) for layout, name in [*held.items()] if name == old)

    def layout(self, value: Value) -> Layout | None:
        """The layout of a value that no tensor holds in the graph's own order."""
        held = self.held.get(value, {})
        return None if plain(value.type.rank) in held else next(iter(held), None)

    def find(self, value: Value, layout: Layout) -> str:
        """The tensor that holds a value in a layout, made if there is none."""
        held = self.held.setdefault(value, {})
        if layout not in held:
            held[layout] = self._make(value, layout)
        return held[layout]

    def in_order(self, value: Value) -> str:
        """A tensor whose elements lie in the order of the value, whatever its shape."""
        for layout, name in self.held.get(value, {}).items():
            if moves_nothing(layout, value.type.shape):
                return name
        return self.find(value, plain(value.type.rank))

    def broadcast(self, value: Value, layout: Layout) -> str:
        """The tensor that holds a value of fewer axes, which come last, in a layout of more."""
        rank, more = value.type.rank, len(layout) - value.type.rank
        if more == 0:
            return self.find(value, layout)
        if value.type.size == 1:
            return self.find(value, plain(rank))
        shape = (*(1 for _ in range(more)), *value.type.shape)
        permuted = tuple(shape[axis] for axis in layout)
        if isinstance(value, Constant):
            data = value.data.reshape(shape).transpose(layout)
            return self.file.constant(data, value.name)
        own = [axis - more for axis in layout if axis >= more]
        name = self.find(value, tuple(own))
        return self.file.reshape(name, permuted, value.name)

    def _make(self, value: Value, layout: Layout) -> str:
        if isinstance(value, Constant):
            return self.file.constant(np.transpose(value.data, layout), value.name)
        if value in self.waiting:
            return self.write(self.waiting[value], layout)
        held, name = next(iter(self.held[value].items()))
        perm = between(held, layout)
        shape = value.type.shape
        if moves_nothing(perm, [shape[axis] for axis in held]):
            return self.file.reshape(name, tuple(shape[axis] for axis in layout), value.name)
        return self.file.add("Transpose", (name,), value.name, attributes={"perm": perm})[0]
