"""Losses as users give them: by name, with options, or as functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from afterglow.graph import Builder, Value
from afterglow.support.errors import UsageError
from afterglow.training.step import Loss
from afterglow.types import TensorType

EmitLoss: TypeAlias = Callable[[Builder, tuple[Value, ...], tuple[Value, ...]], Value]
"""Emits the loss of outputs and targets, a scalar."""
LossLike: TypeAlias = "str | Loss | EmitLoss"
"""The name of a loss, a loss with options, or a function."""


@dataclass(frozen=True)
class FunctionLoss:
    """A function that emits the loss; each output has a target of its own type."""

    function: EmitLoss

    def targets(self, outputs: tuple[TensorType, ...]) -> tuple[tuple[str, TensorType], ...]:
        """A target for each output."""
        names = ["target"] if len(outputs) == 1 else [f"target{n}" for n in range(len(outputs))]
        return tuple(zip(names, outputs, strict=True))

    def emit(self, b: Builder, outputs: tuple[Value, ...], targets: tuple[Value, ...]) -> Value:
        """What the function emits."""
        return self.function(b, outputs, targets)


def loss_of(given: Any) -> Loss:
    """The loss that a user means."""
    if hasattr(given, "emit") and hasattr(given, "targets"):
        return given  # type: ignore[no-any-return]
    if callable(given):
        return FunctionLoss(given)
    raise UsageError(f"cannot use {given!r} as a loss")
