"""The ways in which a kernel can be written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """A way to compute something: its name, and about how many FLOPs take as long as it."""

    name: str
    cost: float
