"""Layered layout of a directed acyclic graph: ranks, order within ranks, coordinates.

The usual four steps of Sugiyama, Tagawa and Toda: nodes get ranks by longest paths, long edges are
cut into pieces of one rank each, ranks are ordered by the barycentre of neighbours, and nodes are
moved towards their neighbours as far as those beside them allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial

from afterglow.support.lazy_dataclass import dataclass

GAP = 28.0
"""Free space between two nodes of a rank."""
BEND_WIDTH = 10.0
"""Room for an edge that passes a rank."""
SWEEPS = 8
"""How often ranks are ordered, and nodes moved, once downwards and once upwards each."""
SIDE_WEIGHT = 0.1
"""How much a node without operands, or a bend, counts in where others lie: paths stay straight."""
MOST_BENDS = 4
"""Bends per node that edges may have in all; the longest edges beyond that are drawn straight."""

Edge = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """Where the nodes of a graph lie: centres, ranks, and the bends of each edge as centres."""

    xs: list[float]
    ranks: list[int]
    bends: list[list[float]]
    """Of each edge: its x in each rank between those of its ends; none if it is drawn straight."""


@dataclass
class _Vertices:
    """Nodes and bends as vertices, with neighbours in the rank above and in that below."""

    ranks: list[int]
    widths: list[float]
    above: list[list[int]] = field(default_factory=list)
    below: list[list[int]] = field(default_factory=list)

    def add_bend(self, rank: int) -> int:
        """A vertex for an edge that passes a rank."""
        self.ranks.append(rank)
        self.widths.append(BEND_WIDTH)
        self.above.append([])
        self.below.append([])
        return len(self.ranks) - 1

    def connect(self, upper: int, lower: int) -> None:
        """Make two vertices in neighbouring ranks neighbours."""
        self.below[upper].append(lower)
        self.above[lower].append(upper)


def layered_layout(widths: Sequence[float], edges: Sequence[Edge]) -> Layout:
    """Lay out nodes, given by their widths; each edge leads to a node behind the one it is from."""
    ranks = _ranks(len(widths), edges)
    count = len(widths)
    vertices = _Vertices([*ranks], [*widths], [[] for _ in ranks], [[] for _ in ranks])
    chains = _route(vertices, edges, MOST_BENDS * count)
    rows = _ordered(vertices)
    xs = _coordinates(vertices, rows, count)
    bends = [[xs[bend] for bend in chain] for chain in chains]
    return Layout(xs[:count], ranks, bends)


def _ranks(count: int, edges: Sequence[Edge]) -> list[int]:
    """Longest paths from above; then nodes with no more operands than readers move towards those.

    So what is computed from constants lies beside its reader, not at the top.
    """
    ranks, operands = [0] * count, [0] * count
    readers: list[list[int]] = [[] for _ in range(count)]
    for start, end in sorted(edges, key=lambda edge: edge[1]):
        ranks[end] = max(ranks[end], ranks[start] + 1)
        operands[end] += 1
        readers[start].append(end)
    for node in reversed(range(count)):
        if readers[node] and operands[node] <= len(readers[node]):
            ranks[node] = min(ranks[reader] for reader in readers[node]) - 1
    return ranks


def _route(vertices: _Vertices, edges: Sequence[Edge], most: int) -> list[list[int]]:
    """Connect the ends of edges, the shortest first; edges from one node share their bends."""
    ranks, chains = vertices.ranks, [[] for _ in edges]  # type: list[int], list[list[int]]
    shared: dict[int, list[int]] = {}
    for place in sorted(range(len(edges)), key=lambda e: ranks[edges[e][1]] - ranks[edges[e][0]]):
        start, end = edges[place]
        chain, length = shared.setdefault(start, []), ranks[end] - ranks[start] - 1
        most -= max(length - len(chain), 0)
        if most < 0:
            continue
        while len(chain) < length:
            bend = vertices.add_bend(ranks[start] + len(chain) + 1)
            vertices.connect(chain[-1] if chain else start, bend)
            chain.append(bend)
        chains[place] = chain[:length]
        vertices.connect(chain[length - 1] if length else start, end)
    return chains


def _ordered(vertices: _Vertices) -> list[list[int]]:
    """The vertices of each rank from left to right, so that few edges cross."""
    rows: list[list[int]] = [[] for _ in range(max(vertices.ranks, default=-1) + 1)]
    for vertex, rank in enumerate(vertices.ranks):
        rows[rank].append(vertex)
    places = [0.0] * len(vertices.ranks)
    for row in rows:
        _number(row, places)
    for _ in range(SWEEPS):
        for row in rows:
            _sort(row, vertices.above, places)
        for row in reversed(rows):
            _sort(row, vertices.below, places)
    return rows


def _sort(row: list[int], neighbours: Sequence[Sequence[int]], places: list[float]) -> None:
    """Sort a rank by the mean place of neighbours; without any, a vertex keeps its place."""
    if len(row) > 1:
        row.sort(key=lambda vertex: _mean(neighbours[vertex], places, places[vertex]))
        _number(row, places)


def _number(row: Sequence[int], places: list[float]) -> None:
    for place, vertex in enumerate(row):
        places[vertex] = place - (len(row) - 1) / 2


def _mean(vertices: Sequence[int], xs: Sequence[float], otherwise: float) -> float:
    return sum(xs[vertex] for vertex in vertices) / len(vertices) if vertices else otherwise


def _weighted_mean(
    vertices: Sequence[int], xs: Sequence[float], weights: Sequence[float], otherwise: float
) -> float:
    if not vertices:
        return otherwise
    total = sum(weights[vertex] for vertex in vertices)
    return sum(xs[vertex] * weights[vertex] for vertex in vertices) / total


def _coordinates(vertices: _Vertices, rows: Sequence[Sequence[int]], nodes: int) -> list[float]:
    """Move each vertex towards the mean of its neighbours, rank by rank."""
    xs = [0.0] * len(vertices.ranks)
    above, below = vertices.above, vertices.below
    weights = [
        1.0 if vertex < nodes and above[vertex] else SIDE_WEIGHT for vertex in range(len(xs))
    ]
    place = partial(_spread, widths=vertices.widths, weights=weights, xs=xs)
    for row in rows:
        place(row, [0.0] * len(row))
    for _ in range(SWEEPS):
        for row in rows:
            place(row, [_weighted_mean(above[v], xs, weights, xs[v]) for v in row])
        for row in reversed(rows):
            place(row, [_weighted_mean(below[v] or above[v], xs, weights, xs[v]) for v in row])
    left = min((x - w / 2 for x, w in zip(xs, vertices.widths, strict=True)), default=0.0)
    return [x - left for x in xs]


def _spread(
    row: Sequence[int],
    wanted: Sequence[float],
    *,
    widths: Sequence[float],
    weights: Sequence[float],
    xs: list[float],
) -> None:
    """Place a rank as near as its order and widths allow to where it wants to be (least squares).

    Neighbours that would overlap become a block, which lies at the mean of what its members want.
    """
    offsets, offset = [], 0.0
    for place, vertex in enumerate(row):
        if place:
            offset += (widths[row[place - 1]] + widths[vertex]) / 2 + GAP
        offsets.append(offset)
    blocks: list[tuple[float, float, int]] = []
    for vertex, want, offset in zip(row, wanted, offsets, strict=True):
        weight, count = weights[vertex], 1
        total = weight * (want - offset)
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / weight:
            before = blocks.pop()
            total, weight, count = total + before[0], weight + before[1], count + before[2]
        blocks.append((total, weight, count))
    placed = (total / weight for total, weight, count in blocks for _ in range(count))
    for vertex, start, offset in zip(row, placed, offsets, strict=True):
        xs[vertex] = start + offset
