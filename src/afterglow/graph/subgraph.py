"""A function as an attribute of an op: the bodies of If, Loop and Scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afterglow.support.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from afterglow.graph.function import Function


@dataclass(frozen=True)
class Subgraph:
    """A function of the same module. It is closed: outer values that it needs are its inputs."""

    function: Function

    def __str__(self) -> str:
        return f"@{self.function.name}"
