"""What produces the names of a graph as its definition has it, before anything is imported."""

from __future__ import annotations

from collections.abc import Container

from afterglow.frontends.definition.model import GraphDef, NodeDef, TensorDef
from afterglow.frontends.definition.order import reads
from afterglow.support.errors import AfterglowError


class Producers:
    """What produces the names of a graph, within graphs around it."""

    def __init__(self, graph: GraphDef, outer: Producers | None = None) -> None:
        self.producers = {name: node for node in graph.node for name in node.output if name}
        self.tensors = {tensor.name: tensor for tensor in graph.constants}
        self.outer = outer

    def producer(self, name: str, *ops: str) -> NodeDef | None:
        """The node of this graph that a name comes from, if it is one of these ops."""
        node = self.producers.get(name)
        return node if node and not node.domain and node.op_type in ops else None

    def integer(self, name: str) -> int | None:
        """The integer that a name stands for, whatever its shape; None if it is no constant."""
        if name in self.tensors:
            return _integer(self.tensors[name])
        node = self.producer(name, "Constant")
        if node is not None:
            values = (node.attributes.get(key) for key in ("value", "value_int", "value_ints"))
            return next((_integer(each.value) for each in values if each is not None), None)
        if name in self.producers or self.outer is None:
            return None
        return self.outer.integer(name)

    def depends(self, name: str, on: Container[str]) -> bool:
        """Whether a name comes from one of some names of this graph."""
        waiting, seen = [name], set[str]()
        while waiting:
            name = waiting.pop()
            if name in on:
                return True
            if name in self.producers and name not in seen:
                waiting.extend(reads(self.producers[name]))
            seen.add(name)
        return False


def _integer(value: object) -> int | None:
    if isinstance(value, tuple) and len(value) == 1:
        (value,) = value
    if not isinstance(value, TensorDef):
        return value if isinstance(value, int) else None
    try:
        array = value.read()
    except AfterglowError:
        return None  # whoever imports the tensor reports it
    return int(array.item()) if array.size == 1 and array.dtype.kind == "i" else None
