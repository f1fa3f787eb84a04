"""Layers of layers."""

from __future__ import annotations

from afterglow.graph import Value
from afterglow.nn.layer import Layer
from afterglow.nn.scope import AnyLayer, Scope, describe
from afterglow.ops.elementwise import Add
from afterglow.support.lazy_dataclass import dataclass


class Sequential(Layer):
    """One layer after the other; the name of each is its number."""

    def __init__(self, *layers: AnyLayer) -> None:
        self.layers = layers

    def build(self, scope: Scope, x: Value) -> Value:
        """Each of what the one before it gives."""
        for number, layer in enumerate(self.layers):
            x = scope.layer(str(number), layer, x)
        return x

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(describe, self.layers))})"


@dataclass(frozen=True, repr=False)
class Residual(Layer):
    """x + block(x), or shortcut(x) + block(x) where the block changes the shape."""

    block: AnyLayer
    shortcut: AnyLayer | None = None

    def build(self, scope: Scope, x: Value) -> Value:
        """A sum."""
        y = scope.layer("block", self.block, x)
        around = x if self.shortcut is None else scope.layer("shortcut", self.shortcut, x)
        return scope.emit(Add(), y, around)
