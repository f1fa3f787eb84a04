"""The cheapest cut between two vertices of a network, by Dinic's algorithm."""

from __future__ import annotations

from collections import deque


class Network:
    """Directed edges with capacities, which are integers so that sums are exact."""

    def __init__(self, vertices: int) -> None:
        self._heads: list[int] = []
        self._left: list[int] = []
        self._edges: list[list[int]] = [[] for _ in range(vertices)]

    def add_vertex(self) -> int:
        """One vertex more; its number."""
        self._edges.append([])
        return len(self._edges) - 1

    def connect(self, tail: int, head: int, capacity: int) -> None:
        """An edge; its twin in the other direction, at the next number, takes back what flows."""
        for end, other, left in ((tail, head, capacity), (head, tail, 0)):
            self._edges[end].append(len(self._heads))
            self._heads.append(other)
            self._left.append(left)

    def cut(self, source: int, sink: int) -> set[int]:
        """The vertices on the source's side of the cheapest cut; the fewest if several are."""
        while True:
            levels = self._levels(source)
            if levels[sink] < 0:
                return {vertex for vertex, level in enumerate(levels) if level >= 0}
            tried = [0] * len(self._edges)
            while self._augment(source, sink, levels, tried):
                pass

    def _levels(self, source: int) -> list[int]:
        """The number of edges with capacity left from the source to each vertex; -1 if none."""
        levels = [-1] * len(self._edges)
        levels[source] = 0
        waiting = deque([source])
        while waiting:
            vertex = waiting.popleft()
            for edge in self._edges[vertex]:
                head = self._heads[edge]
                if self._left[edge] and levels[head] < 0:
                    levels[head] = levels[vertex] + 1
                    waiting.append(head)
        return levels

    def _augment(self, source: int, sink: int, levels: list[int], tried: list[int]) -> bool:
        """Let more flow along one shortest path; whether there was one."""
        path: list[int] = []
        vertex = source
        while vertex != sink:
            edges = self._edges[vertex]
            while tried[vertex] < len(edges):
                edge = edges[tried[vertex]]
                head = self._heads[edge]
                if self._left[edge] and levels[head] == levels[vertex] + 1:
                    break
                tried[vertex] += 1
            else:  # a dead end: one step back, never to come here again
                if not path:
                    return False
                vertex = self._heads[path.pop() ^ 1]
                tried[vertex] += 1
                continue
            path.append(edge)
            vertex = head
        flow = min(self._left[edge] for edge in path)
        for edge in path:
            self._left[edge] -= flow
            self._left[edge ^ 1] += flow
        return True
