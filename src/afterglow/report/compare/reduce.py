"""A few nodes of a model that still differ from the reference, found by leaving others out.

What a node that is left out would compute becomes an input, with the value that the reference has.
So what the nodes that are left should compute is known without running the reference again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

from afterglow.report.compare.comparer import Comparer
from afterglow.report.compare.model_graph import ModelGraph
from afterglow.report.compare.sides import CompiledSide, Tensors
from afterglow.support.errors import AfterglowError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

MOST_TRIALS = 200
"""Parts of a model that are compiled at most."""


@dataclass(frozen=True)
class Part:
    """Nodes of a model that compute a tensor which differs, of arrays."""

    graph: ModelGraph
    nodes: tuple[int, ...]
    wanted: str
    given: Tensors
    """Inputs and constants that nodes outside of it compute, as the reference has them."""
    actual: Array
    expected: Array
    trials: int
    exhausted: bool = False
    """Whether the search ended at the limit of trials."""

    @property
    def inputs(self) -> Tensors:
        """What it takes as inputs."""
        return {name: x for name, x in self.given.items() if name in self.graph.varying}


@dataclass
class Reducer:
    """A comparison that found a difference in a tensor, and the search for fewer nodes."""

    comparer: Comparer
    wanted: str
    most: int = MOST_TRIALS
    trials: int = 0
    _values: dict[str, Any] = field(default_factory=dict)
    _tried: dict[frozenset[int], Array | None] = field(default_factory=dict)

    @cached_property
    def graph(self) -> ModelGraph:
        """The main graph of the model."""
        graph = self.comparer.graph
        assert graph is not None
        return graph

    @cached_property
    def expected(self) -> Array:
        """What the tensor should be."""
        return self.comparer.reference.run([self.wanted], self.comparer.feed)[self.wanted]

    def find(self) -> Part:
        """The fewest nodes that a search finds."""
        if self.graph.producer.get(self.wanted) is None:
            raise UsageError(f"no node computes tensor {self.wanted!r}")
        nodes = self._window()
        nodes = self._minimised(nodes)
        actual = self._tried[frozenset(nodes)]
        assert actual is not None
        given = self._given(nodes)
        return Part(
            self.graph,
            tuple(sorted(nodes)),
            self.wanted,
            given,
            actual,
            self.expected,
            self.trials,
            self.trials >= self.most,
        )

    def _window(self) -> set[int]:
        """The nodes before the tensor, as many steps back as are needed for it to differ."""
        every = self.graph.ancestors([self.wanted])
        steps = 0
        while True:
            nodes = self._completed(self._near(steps))
            if self._differs(nodes):
                return nodes
            if nodes >= every:
                break
            steps = 2 * steps + 1
        raise UsageError(
            f"tensor {self.wanted!r} agrees if the model is compiled up to it: nothing to reduce",
            help="the difference depends on the rest of the model; try --bisect-passes",
        )

    def _near(self, steps: int) -> set[int]:
        """The nodes at most some steps before the tensor."""
        found = {self.graph.producer[self.wanted]}
        for _ in range(steps):
            names = (name for index in found for name in self.graph.reads[index])
            found |= {self.graph.producer[n] for n in names if n in self.graph.producer}
        return found

    def _completed(self, nodes: Collection[int]) -> set[int]:
        """Nodes together with those whose results the reference does not have."""
        nodes, available = {*nodes}, {*self.comparer.reference.names, *self.comparer.feed}
        while True:
            taken = self.graph.taken(nodes)
            missing = {self.graph.producer[n] for n in taken if n not in available}
            if not missing:
                return nodes
            nodes |= missing

    def _minimised(self, nodes: set[int]) -> set[int]:
        """The nodes without those that can be left out, tried in ever smaller chunks."""
        count = 2
        while len(nodes) > 1 and self.trials < self.most:
            smaller = self._smaller(sorted(nodes), count)
            if smaller is not None:
                nodes, count = smaller, max(count - 1, 2)
            elif count >= len(nodes):
                break
            else:
                count = min(len(nodes), 2 * count)
        return nodes

    def _smaller(self, nodes: Sequence[int], count: int) -> set[int] | None:
        """The nodes without one of some chunks, if they still differ."""
        size = -(-len(nodes) // count)
        maker = self.graph.producer[self.wanted]
        for start in range(0, len(nodes), size):
            rest = {*nodes[:start], *nodes[start + size :], maker}
            rest = self._connected(self._completed(rest))
            if len(rest) < len(nodes) and self._differs(rest):
                return rest
        return None

    def _connected(self, nodes: set[int]) -> set[int]:
        """Those nodes that the tensor depends on by nodes among them."""
        waiting, found = [self.graph.producer[self.wanted]], set[int]()
        while waiting:
            index = waiting.pop()
            if index in nodes and index not in found:
                found.add(index)
                names = (n for n in self.graph.reads[index] if n in self.graph.producer)
                waiting.extend(self.graph.producer[name] for name in names)
        return found

    def _differs(self, nodes: set[int]) -> bool:
        """Whether nodes by themselves compute something else than the reference has."""
        key = frozenset(nodes)
        if key not in self._tried:
            self.trials += 1
            self.comparer.progress(f"reduce: {len(nodes)} nodes, trial {self.trials}")
            self._tried[key] = self._trial(nodes)
        return self._tried[key] is not None

    def _trial(self, nodes: set[int]) -> Array | None:
        """What nodes compute, if it differs."""
        ours = self.comparer.ours
        assert isinstance(ours, CompiledSide)
        try:
            given = self._given(nodes)
            actual = ours.part(sorted(nodes), self.wanted, given)[self.wanted]
        except (AfterglowError, KeyError):  # a part that cannot be compiled shows nothing
            return None
        return None if self.comparer.agrees(self.wanted, actual, self.expected) else actual

    def _given(self, nodes: Collection[int]) -> Tensors:
        """What nodes take, as the reference has it; it is asked for each tensor once."""
        names = self.graph.taken(nodes)
        new = [name for name in names if name not in self._values]
        self._values.update(self.comparer.recorded(new) if new else {})
        return {name: self._values[name] for name in names}
