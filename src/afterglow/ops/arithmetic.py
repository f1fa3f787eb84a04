"""Arithmetic that is emitted as it is written, for formulas of several terms."""

from __future__ import annotations

from afterglow.graph import Builder, Value
from afterglow.ops.elementwise import Add, Div, Mul, Sub, scalar


class Arithmetic:
    """Emits arithmetic on elements of one type; plain numbers become constants of that type."""

    def __init__(self, b: Builder, like: Value) -> None:
        self.b = b
        self.like = like

    def value(self, x: Value | float) -> Value:
        """A value as it is, a number as a constant."""
        return x if isinstance(x, Value) else scalar(self.b, x, self.like)

    def add(self, x: Value | float, y: Value | float) -> Value:
        """x + y."""
        return self.b.emit(Add(), self.value(x), self.value(y))

    def sub(self, x: Value | float, y: Value | float) -> Value:
        """x - y."""
        return self.b.emit(Sub(), self.value(x), self.value(y))

    def mul(self, x: Value | float, y: Value | float) -> Value:
        """x * y."""
        return self.b.emit(Mul(), self.value(x), self.value(y))

    def div(self, x: Value | float, y: Value | float) -> Value:
        """x / y."""
        return self.b.emit(Div(), self.value(x), self.value(y))

    def blend(self, x: Value, y: Value, share: float) -> Value:
        """x, of which a share is replaced by y: x + (y - x) * share."""
        return self.add(x, self.mul(self.sub(y, x), share))
