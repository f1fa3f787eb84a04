"""Order nodes so that as few bytes as possible are live at once."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from afterglow.graph import Function, Node, Value
from afterglow.graph.order import producers
from afterglow.passes import Pass


class Schedule(Pass):
    """Puts the nodes in the order of least peak memory among several; never a worse one."""

    name = "schedule"

    def run(self, function: Function) -> bool:
        """See the class."""
        own = list(function.nodes)
        escaping = frozenset(function.escaping())
        orders = (own, greedy_order(function), depth_first_order(function))
        best = min(orders, key=lambda order: peak_bytes(order, escaping))
        if best == own:
            return False
        function.reorder(best)
        return True


def peak_bytes(order: Sequence[Node], escaping: frozenset[Value]) -> int:
    """The most bytes that results of nodes take at once; what leaves the function stays."""
    remaining = {v: v.use_count + (v in escaping) for node in order for v in node.results}
    live = peak = 0
    for node in order:
        live += _result_bytes(node)
        peak = max(peak, live)
        for value, uses in _reads(node).items():
            if value in remaining:
                remaining[value] -= uses
                live -= value.type.nbytes if not remaining[value] else 0
    return peak


def greedy_order(function: Function) -> list[Node]:
    """Of the nodes that are ready, always the one after which the fewest bytes are live."""
    return _Greedy(function).run()


class _Greedy:
    """List scheduling by the growth of live memory."""

    def __init__(self, function: Function) -> None:
        self.position = {node: index for index, node in enumerate(function.nodes)}
        self.remaining = {v: v.use_count for node in self.position for v in node.results}
        self.remaining.update((v, v.use_count + 1) for v in function.escaping())
        self.missing = {node: len(producers(node)) for node in self.position}
        self.ready: list[tuple[int, int, Node]] = []

    def run(self) -> list[Node]:
        for node, count in self.missing.items():
            if not count:
                self._push(node)
        order: list[Node] = []
        while self.ready:
            stale, _, node = heappop(self.ready)
            if self._growth(node) != stale:  # others used its operands in the meantime
                self._push(node)
                continue
            order.append(node)
            self._finish(node)
        return order

    def _growth(self, node: Node) -> int:
        freed = sum(
            value.type.nbytes
            for value, uses in _reads(node).items()
            if self.remaining.get(value) == uses
        )
        return _result_bytes(node) - freed

    def _push(self, node: Node) -> None:
        heappush(self.ready, (self._growth(node), self.position[node], node))

    def _finish(self, node: Node) -> None:
        for value, uses in _reads(node).items():
            if value in self.remaining:
                self.remaining[value] -= uses
        for user in dict.fromkeys(user for value in node.results for user in value.users):
            self.missing[user] -= 1
            if not self.missing[user]:
                self._push(user)


def depth_first_order(function: Function) -> list[Node]:
    """Each output's producers just before it, the ones that need most memory first."""
    order: dict[Node, None] = {}
    roots = [value.producer for value in function.escaping() if value.producer is not None]
    roots.extend(node for node in function.nodes if not any(v.use_count for v in node.results))
    for root in dict.fromkeys(roots):
        stack: list[tuple[Node, bool]] = [(root, False)]
        while stack:
            node, expanded = stack.pop()
            if node in order:
                continue
            if expanded:
                order[node] = None
                continue
            stack.append((node, True))
            before = [p for p in producers(node) if p not in order]
            stack.extend((p, False) for p in sorted(before, key=_result_bytes))
    return list(order)


def _result_bytes(node: Node) -> int:
    return sum(result.type.nbytes for result in node.results)


def _reads(node: Node) -> dict[Value, int]:
    counts: dict[Value, int] = {}
    for value in node.inputs():
        counts[value] = counts.get(value, 0) + 1
    return counts
