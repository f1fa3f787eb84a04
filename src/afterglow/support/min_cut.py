"""Minimum cuts of networks, by maximum flows (Dinic's algorithm)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

SOURCE, SINK = 0, 1
"""The numbers of the two nodes that every network has."""
UNBOUNDED = 1 << 60
"""More than any cut may cost."""


class Network:
    """Nodes and arcs with capacities; whole numbers throughout.

    A cut gives each node a side, the source's or the sink's, and costs the capacity of the arcs
    that lead from the source's side to the sink's.

    >>> network = Network()
    >>> a, b = network.add_node(), network.add_node()
    >>> network.connect(SOURCE, a, 3)
    >>> network.connect(a, b, 1)
    >>> network.connect(b, SINK, 2)
    >>> sorted(network.cheapest_cut())
    [0, 2]
    """

    def __init__(self) -> None:
        self._arcs: list[list[int]] = [[], []]
        self._heads: list[int] = []
        self._room: list[int] = []

    def add_node(self) -> int:
        """A new node, by its number."""
        self._arcs.append([])
        return len(self._arcs) - 1

    def connect(self, tail: int, head: int, capacity: int, back: int = 0) -> None:
        """Add an arc from `tail` to `head`, and one with capacity `back` in the other direction."""
        for start, end, room in ((tail, head, capacity), (head, tail, back)):
            self._arcs[start].append(len(self._heads))
            self._heads.append(end)
            self._room.append(room)

    def cheapest_cut(self, preferred: Iterable[int] = ()) -> set[int]:
        """The source's side of a cheapest cut.

        Of several, the smallest that holds every preferred node which any of them holds.
        """
        while (levels := self._levels())[SINK] >= 0:
            self._fill(levels)
        lost = self._reached([SINK], backwards=True)
        return self._reached([SOURCE, *(node for node in preferred if node not in lost)])

    def _levels(self) -> list[int]:
        """How many arcs with room lead from the source to each node; -1 where none do."""
        levels = [-1] * len(self._arcs)
        levels[SOURCE] = 0
        pending = deque([SOURCE])
        while pending:
            node = pending.popleft()
            for arc in self._arcs[node]:
                head = self._heads[arc]
                if self._room[arc] and levels[head] < 0:
                    levels[head] = levels[node] + 1
                    pending.append(head)
        return levels

    def _fill(self, levels: list[int]) -> None:
        """Send flow along shortest paths until each has a full arc."""
        tried = [0] * len(self._arcs)
        path: list[int] = []
        node = SOURCE
        while True:
            if node == SINK:
                self._send(path)
                path, node = [], SOURCE
            arc = self._next_arc(node, levels, tried)
            if arc is not None:
                path.append(arc)
                node = self._heads[arc]
            elif not path:
                return
            else:
                levels[node] = -1
                node = self._heads[path.pop() ^ 1]

    def _next_arc(self, node: int, levels: list[int], tried: list[int]) -> int | None:
        """The first arc with room to the next level; those before it, `tried`, have none left."""
        arcs = self._arcs[node]
        while tried[node] < len(arcs):
            arc = arcs[tried[node]]
            if self._room[arc] and levels[self._heads[arc]] == levels[node] + 1:
                return arc
            tried[node] += 1
        return None

    def _send(self, path: list[int]) -> None:
        amount = min(self._room[arc] for arc in path)
        for arc in path:
            self._room[arc] -= amount
            self._room[arc ^ 1] += amount

    def _reached(self, starts: list[int], *, backwards: bool = False) -> set[int]:
        """The nodes to which arcs with room lead, or from which they do."""
        reached = set(starts)
        pending = list(starts)
        while pending:
            for arc in self._arcs[pending.pop()]:
                head = self._heads[arc]
                if head not in reached and self._room[arc ^ 1 if backwards else arc]:
                    reached.add(head)
                    pending.append(head)
        return reached
