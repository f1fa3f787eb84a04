"""From text to a definition: names, nodes and constants."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.definition.model import (
    AttributeDef,
    AttributeKind,
    GraphDef,
    ModelDef,
    NodeDef,
    TensorDef,
    TypeDef,
    ValueDef,
    constant,
)
from afterglow.support.errors import ModelError
from afterglow.types.dtype import f32
from sketch_frontend.importers import SKETCH


def read_sketch(data: bytes) -> ModelDef:
    """The model that a text describes; a `ModelError` names the line that is wrong."""
    sketch = _Sketch()
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            try:
                sketch.add(words)
            except ValueError as error:
                raise ModelError(f"{error}: {line.strip()!r}", where=f"in line {number}") from None
    return sketch.model()


class _Sketch:
    def __init__(self) -> None:
        self.inputs: list[ValueDef] = []
        self.outputs: list[ValueDef] = []
        self.constants: list[TensorDef] = []
        self.nodes: list[NodeDef] = []

    def add(self, words: list[str]) -> None:
        """Take in a line."""
        match words:
            case ["sketch", version]:
                if version != "1":
                    raise ValueError("only version 1 is known")
            case ["input", name, *extents]:
                shape = tuple(int(e) if e.isdigit() else e for e in extents)
                self.inputs.append(ValueDef(name, TypeDef("tensor", f32, shape)))
            case ["output", *names]:
                self.outputs.extend(map(ValueDef, names))
            case ["weights", name, *rest]:
                split = rest.index("=")
                shape, numbers = map(int, rest[:split]), np.array(rest[split + 1 :], np.float32)
                self.constants.append(constant(name, numbers.reshape(tuple(shape))))
            case [name, "=", op, *rest]:
                self.nodes.append(_node(name, op, rest))
            case _:
                raise ValueError("a line that no sketch has")

    def model(self) -> ModelDef:
        """All of it."""
        graph = GraphDef(
            "sketch",
            tuple(self.nodes),
            tuple(self.inputs),
            tuple(self.outputs),
            tuple(self.constants),
        )
        return ModelDef(SKETCH, graph)


def _node(name: str, op: str, words: list[str]) -> NodeDef:
    """An op applied to values; a word such as `axis=1` is an attribute."""
    pairs = (word.split("=", 1) for word in words if "=" in word)
    attributes = {key: AttributeDef(AttributeKind.INT, int(value)) for key, value in pairs}
    operands = tuple(word for word in words if "=" not in word)
    return NodeDef(op, "", name, operands, (name,), attributes)
