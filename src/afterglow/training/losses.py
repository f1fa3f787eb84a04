"""Losses as users give them: by name, with options, or as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from afterglow.graph import Builder, Value
from afterglow.optim import Loss
from afterglow.optim.losses import Targets, named
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType

EmitLoss: TypeAlias = Callable[[Builder, Sequence[Value], Sequence[Value]], Value]
"""Emits the loss of outputs and targets, a scalar."""
LossLike: TypeAlias = "str | Loss | EmitLoss"
"""The name of a loss, a loss with options, or a function."""


@dataclass(frozen=True)
class FunctionLoss:
    """A function that emits the loss; each output has a target of its own type."""

    function: EmitLoss

    def targets(self, outputs: Sequence[TensorType]) -> Targets:
        """A target for each output."""
        names = ["target"] if len(outputs) == 1 else [f"target{n}" for n in range(len(outputs))]
        return tuple(zip(names, outputs, strict=True))

    def emit(self, b: Builder, outputs: Sequence[Value], targets: Sequence[Value]) -> Value:
        """What the function emits."""
        value = self.function(b, outputs, targets)
        if not isinstance(value, Value) or value.type.rank:
            got = value.type if isinstance(value, Value) else repr(value)
            raise UsageError(
                f"a function that emits a loss must return a scalar of the graph, got {got}",
                help="end it with a reduction: return b.emit(ReduceMean((0, 1), False), error)",
            )
        return value


def loss_of(given: Any) -> Loss:
    """The loss that a user means."""
    if isinstance(given, str):
        return named(given)
    if isinstance(given, Loss) and not isinstance(given, type):
        return given
    if callable(given) and not isinstance(given, type):
        return FunctionLoss(given)
    raise UsageError(
        f"a loss is a name, one of ag.optim, or a function, got {given!r}",
        help='write loss="cross_entropy", or ag.optim.CrossEntropy(label_smoothing=0.1)',
    )
