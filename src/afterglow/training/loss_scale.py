"""Loss scaling: gradients of 16-bit floats that would be too small are computed multiplied.

Where the factor was too large, gradients overflow: the step then changes no weight and halves it.
After many good steps in a row it is doubled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.graph import Builder, Module, Value
from afterglow.graph.value import Placeholder
from afterglow.ops.elementwise import Add, Div, Equal, Less, Mul, Where, scalar
from afterglow.ops.reduction import emit_total
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32

SCALE = "loss_scale"
GOOD = "loss_scale.good_steps"
FIRST = 2.0**15
GROWS_AFTER = 2000
"""Good steps in a row after which the factor is doubled, as PyTorch does."""
MOST = 2.0**24

Updates = list[tuple[Placeholder, Value]]


@dataclass(frozen=True)
class LossScale:
    """The states of loss scaling in a training step."""

    factor: Placeholder
    good: Placeholder

    @staticmethod
    def declare(module: Module) -> LossScale:
        """Add the states to a module."""
        number = TensorType(f32, ())
        return LossScale(module.state(SCALE, number), module.state(GOOD, number))

    @staticmethod
    def initial() -> dict[str, Array]:
        """What the states begin with that are not zeros."""
        return {SCALE: np.array(FIRST, np.float32)}

    def unscaled(self, b: Builder, slopes: Sequence[Value]) -> list[Value]:
        """Gradients without the factor."""
        return [b.emit(Div(), slope, self.factor) for slope in slopes]

    def guarded(self, b: Builder, slopes: Sequence[Value], updates: Updates) -> Updates:
        """Updates that leave state as it is where a gradient is not finite; those of the factor."""
        finite = _are_finite(b, slopes)
        kept = [(state, b.emit(Where(), finite, value, state)) for state, value in updates]
        good = b.emit(Add(), self.good, scalar(b, 1.0, self.good))
        grows = b.emit(Less(), scalar(b, GROWS_AFTER - 0.5, good), good)
        doubled = b.emit(Mul(), self.factor, scalar(b, 2.0, self.factor))
        can_grow = b.emit(Less(), self.factor, scalar(b, MOST, self.factor))
        larger = b.emit(Where(), can_grow, doubled, self.factor)
        zero = scalar(b, 0.0, good)
        factor = b.emit(Where(), grows, larger, self.factor)
        halved = b.emit(Mul(), self.factor, scalar(b, 0.5, self.factor))
        count = b.emit(Where(), grows, zero, good)
        return [
            *kept,
            (self.factor, b.emit(Where(), finite, factor, halved)),
            (self.good, b.emit(Where(), finite, count, zero)),
        ]


def _are_finite(b: Builder, slopes: Sequence[Value]) -> Value:
    """Whether all elements are: then so is the sum of each times zero."""
    total: Value | None = None
    for slope in slopes:
        part = emit_total(b, b.emit(Mul(), slope, scalar(b, 0.0, slope)))
        total = part if total is None else b.emit(Add(), total, part)
    assert total is not None
    return b.emit(Equal(), total, scalar(b, 0.0, total))
