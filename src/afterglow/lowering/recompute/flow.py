"""The cheapest cut through a network, by the largest flow."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

ENDLESS = 2**60
"""The capacity of an edge that no cut goes through."""


class Network:
    """Edges with capacities between a source, 0, a sink, 1, and vertices that are added."""

    SOURCE, SINK = 0, 1

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]
        """For each vertex, the edges that leave it; edge e and e ^ 1 are one in both directions."""
        self._ends: list[int] = []
        self._room: list[int] = []

    def vertex(self) -> int:
        """Add a vertex."""
        self._edges.append([])
        return len(self._edges) - 1

    def connect(self, start: int, end: int, capacity: int = ENDLESS) -> None:
        """Add an edge."""
        for vertex, other, room in ((start, end, capacity), (end, start, 0)):
            self._edges[vertex].append(len(self._ends))
            self._ends.append(other)
            self._room.append(room)

    def beyond_cut(self) -> set[int]:
        """The vertices on the sink's side of the cheapest cut, of several the one nearest to it."""
        while (levels := self._levels())[self.SINK] is not None:
            edges = [iter(some) for some in self._edges]
            while path := self._path(levels, edges):
                flow = min(self._room[edge] for edge in path)
                for edge in path:
                    self._room[edge] -= flow
                    self._room[edge ^ 1] += flow
        beyond, waiting = {self.SINK}, [self.SINK]
        while waiting:
            for edge in self._edges[waiting.pop()]:
                if self._room[edge ^ 1] and self._ends[edge] not in beyond:
                    beyond.add(self._ends[edge])
                    waiting.append(self._ends[edge])
        return beyond

    def _levels(self) -> list[int | None]:
        """How many edges with room each vertex is away from the source; None if it is cut off."""
        levels: list[int | None] = [None] * len(self._edges)
        levels[self.SOURCE] = 0
        waiting = deque([self.SOURCE])
        while waiting:
            vertex = waiting.popleft()
            for edge in self._edges[vertex]:
                end, level = self._ends[edge], levels[vertex]
                if self._room[edge] and levels[end] is None and level is not None:
                    levels[end] = level + 1
                    waiting.append(end)
        return levels

    def _path(self, levels: list[int | None], edges: list[Iterator[int]]) -> list[int]:
        """Edges with room that lead from the source to the sink, level by level; none if none do.

        Edges that lead nowhere are taken out of `edges`.
        """
        path: list[int] = []
        vertex = self.SOURCE
        while vertex != self.SINK:
            edge = next((e for e in edges[vertex] if self._leads_on(e, levels)), None)
            if edge is not None:
                path.append(edge)
                vertex = self._ends[edge]
            elif path:
                vertex = self._ends[path.pop() ^ 1]
            else:
                return []
        for used in path:  # they may have room left
            start = self._ends[used ^ 1]
            edges[start] = _again(used, edges[start])
        return path

    def _leads_on(self, edge: int, levels: list[int | None]) -> bool:
        level = levels[self._ends[edge ^ 1]]
        return (
            bool(self._room[edge]) and level is not None and levels[self._ends[edge]] == level + 1
        )


def _again(first: int, others: Iterator[int]) -> Iterator[int]:
    yield first
    yield from others
