"""Training mode: what a model computes otherwise while it learns."""

from __future__ import annotations

from afterglow.graph import Function
from afterglow.graph.value import Placeholder
from afterglow.training.parameters import Parameter


def to_training_mode(function: Function, step: Placeholder) -> list[Parameter]:
    """Rewrite a function that infers to one that learns; the running statistics, now states.

    `step` is the number of steps so far.
    """
    return []
