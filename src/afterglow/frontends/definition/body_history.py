"""What imports of a body have shown, so that later ones begin with it.

A body is imported again whenever an attempt fails: to be a function of its own, with carried values
that keep their types, with some that grow, with a rest behind a value that grew. If each of nested
bodies began anew, their number would double with each level. So what was learned stays: an import
repeats no attempt that failed, and the bodies inside are imported once more for each failure around
them, not for each combination of failures.
"""

from __future__ import annotations

from afterglow.frontends.definition.model import GraphDef
from afterglow.frontends.definition.problems import GrownReadError, GrowsError
from afterglow.frontends.definition.rest import with_rest

MOST_FAILURES = 8
"""Attempts to make an op of a loop that may fail for reasons which lie around it."""


class BodyHistory:
    """What is known of one body."""

    def __init__(self, graph: GraphDef) -> None:
        self.original = graph  # kept, so that no other has its identity
        self.graph = graph
        """The body, with its rests (`rest.py`) as bodies of their own."""
        self.growth: GrowsError | None = None
        """How its carried values grew when it last became a function."""
        self._failures = 0
        self._unrolled: int | None = None

    def split_off(self, error: GrownReadError) -> bool:
        """Make a body of its own of what reads a value that grew; whether that could be done."""
        split = with_rest(self.graph, error.node, error.names)
        if split is not None:
            self.graph = split
        return split is not None

    @property
    def may_be_function(self) -> bool:
        """Whether it is worth another attempt to import it as a function."""
        return self._failures < MOST_FAILURES

    def refuse(self, *, always: bool) -> None:
        """Note that it could not be a function: in any place, or in this one."""
        self._failures = MOST_FAILURES if always else self._failures + 1

    def may_be_unrolled(self, iterations: int) -> bool:
        """Whether so many iterations may be few enough to import each."""
        return self._unrolled is None or iterations < self._unrolled

    def refuse_unrolled(self, iterations: int) -> None:
        """Note that this loop unrolled into too many nodes."""
        self._unrolled = iterations
