"""How a backend computes one step, decided before memory is planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from afterglow.support.lazy_dataclass import dataclass

Setting: TypeAlias = int | str | tuple[int, ...]
"""A number or word that tells variants of an algorithm apart, such as the size of a tile."""


ON_HOST = "host"
"""The algorithm of a step without a kernel: an op is lowered if it can be, or run by the host."""


@dataclass(frozen=True)
class KernelPlan:
    """The kernel of a step: its algorithm, what that costs, and the memory that it needs.

    A plan is a value: code generation follows it and decides nothing, tuning compares several, and
    the text of a program shows it. `workspace` is memory that the threads of a kernel share: each
    entry becomes a scratch operand of the step, in the same order.
    """

    algorithm: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    cost: float = 0.0
    """An estimate of the time, in FLOPs that take as long at the target's peak."""
    workspace: Mapping[str, int] = field(default_factory=dict)
    """Bytes of shared memory by name."""
    thread_bytes: int = 0
    """Bytes of memory that each thread needs besides."""
    packed: tuple[int, ...] = ()
    """The operands, by position, of which the kernel reads a copy packed at compile time."""
    halo: tuple[int, ...] = ()
    """The operands, by position, whose padding the kernel would rather find in memory."""
    gap: tuple[int, ...] = ()
    """Elements to leave unused behind each axis of such an operand, to make its strides larger."""
    weight_growth: int = 0
    """Bytes that packed operands take besides those of the constants that they are made of."""
    alignment: int = 1
    """A number of bytes: buffers must begin at its multiples."""

    @property
    def variant(self) -> str:
        """The algorithm with its settings: what tells alternatives for one step apart."""
        settings = ", ".join(f"{name} {_words(value)}" for name, value in self.settings.items())
        return f"{self.algorithm} ({settings})" if settings else self.algorithm

    @property
    def workspace_bytes(self) -> int:
        """All shared memory."""
        return sum(self.workspace.values())


def _words(value: Setting) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
