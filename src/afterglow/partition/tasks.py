"""Tasks: groups of nodes that stay together, whatever device computes them.

A task is what a backend would make one kernel of: an anchor (a convolution, a matrix product, a
reduction …) with the element-wise nodes and movements around it. Nodes that touch one state are one
task, and a node that carries functions stays whole.

Tasks never depend on each other in a circle. To contract an edge of a graph without circles makes
one only if there is another way from its one end to the other. So a group joins another if all that
reads it is there, or if all that it reads is there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from afterglow.graph import Constant, Function, Node, Value
from afterglow.graph.dims import dims_of_op, dims_of_type
from afterglow.graph.order import producers
from afterglow.partition.extract import learn_extents, shared_values
from afterglow.support.errors import InternalError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import Dim, dims_of

MOST_NODES = 64
"""Nodes of a task, unless a state keeps more of them together."""


@dataclass(frozen=True, eq=False)
class TaskNodes:
    """Nodes in topological order that one device computes."""

    nodes: tuple[Node, ...]

    @property
    def name(self) -> str:
        """The name of its anchor, or else of its last node, as the model has it."""
        node = next((node for node in self.nodes if is_anchor(node)), self.nodes[-1])
        return node.origin or node.name


def is_anchor(node: Node) -> bool:
    """Whether a node is more than arithmetic on elements, or their movement."""
    op = node.op
    if op.elementwise:
        return False
    return not op.moves_only or any(
        isinstance(value, Constant) and value.data.size > node.results[0].type.size
        for value in node.given
    )


def _same_kind(node: Node) -> Hashable:
    return None


def tasks_of(function: Function, kind: Callable[[Node], Hashable] = _same_kind) -> list[TaskNodes]:
    """The tasks of a function in topological order; each has nodes of one kind, but for states."""
    grouping = _Grouping(function, kind)
    grouping.join_users_of_states()
    grouping.join_followers()
    grouping.join_leaders()
    return [TaskNodes(tuple(group.nodes)) for group in _in_order(grouping)]


class _Group:
    """Nodes of a task in the making."""

    def __init__(self, node: Node, kind: Hashable) -> None:
        self.nodes = [node]
        self.kinds = {kind}
        self.has_anchor = is_anchor(node)
        self.readers = {user for value in node.results for user in value.users}
        """Nodes outside that read its results."""

    def may_join(self, other: _Group) -> bool:
        """Whether one task may do the work of both."""
        return (
            len(self.kinds | other.kinds) == 1
            and not (self.has_anchor and other.has_anchor)
            and len(self.nodes) + len(other.nodes) <= MOST_NODES
        )


class _Grouping:
    """The groups of a function's nodes, at first one each."""

    def __init__(self, function: Function, kind: Callable[[Node], Hashable]) -> None:
        self.function = function
        self.rank = {node: rank for rank, node in enumerate(function.nodes)}
        self.group_of = {node: _Group(node, kind(node)) for node in self.rank}

    @property
    def groups(self) -> list[_Group]:
        """All groups, in the order of their first nodes."""
        return list(dict.fromkeys(self.group_of.values()))

    def join(self, groups: Iterable[_Group]) -> None:
        """Make one group of some."""
        first, *others = sorted(dict.fromkeys(groups), key=lambda group: -len(group.nodes))
        for other in others:
            first.nodes += other.nodes
            first.kinds |= other.kinds
            first.has_anchor |= other.has_anchor
            first.readers |= other.readers
            self.group_of.update(dict.fromkeys(other.nodes, first))
        first.readers -= {node for node in first.readers if self.group_of.get(node) is first}

    def read_by(self, group: _Group) -> list[_Group]:
        """The other groups that a group reads."""
        read = (self.group_of[p] for node in group.nodes for p in producers(node))
        return [other for other in dict.fromkeys(read) if other is not group]

    def join_users_of_states(self) -> None:
        """Join what touches one state, and then all that depends on each other in a circle."""
        if not self.function.module.states:
            return
        for nodes in self._users_of_states().values():
            if nodes:
                self.join(self.group_of[node] for node in nodes)
        for circle in _circles(self.groups, self.read_by):
            self.join(circle)

    def _users_of_states(self) -> dict[Value, list[Node]]:
        """The nodes that read each state, compute what it holds next, or need its fill level."""
        states = self.function.module.states.values()
        found: dict[Value, list[Node]] = {state: [] for state in states}
        for node in self.rank:
            for state in filter(found.__contains__, shared_values([node])):
                found[state].append(node)
        for update in self.function.updates:
            if update.value.producer is not None:
                found[update.state].append(update.value.producer)
            found[update.state] += found.get(update.value, [])
        for node, state in _told_by_states(self.function):
            found[state].append(node)
        return found

    def join_followers(self) -> None:
        """Let arithmetic and movements join what they read, where that is read by nobody else."""
        for node in self.rank:
            group = self.group_of[node]
            if is_anchor(node) or len(group.nodes) > 1:
                continue
            read = self.read_by(group)
            if len(read) == 1 and read[0].may_join(group):
                self.join((group, read[0]))
                continue
            for other in reversed(read):
                if other.readers == {node} and other.may_join(self.group_of[node]):
                    self.join((other, self.group_of[node]))

    def join_leaders(self) -> None:
        """Let groups without an anchor join the only group that reads them."""
        for group in reversed(self.groups):
            if self.group_of[group.nodes[0]] is not group:
                continue  # joined by one that reads it
            readers = {self.group_of[node] for node in group.readers}
            if not group.has_anchor and len(readers) == 1:
                (reader,) = readers
                if reader.may_join(group):
                    self.join((reader, group))


def _told_by_states(function: Function) -> Iterator[tuple[Node, Value]]:
    """Nodes that depend on dimensions of which only the fill level of a state tells the extent.

    Each comes with such a state: the one that what it reads was made of, or else the first.
    """
    levels = {s: dims_of(s.level.before) for s in function.states() if s.level is not None}
    known: dict[str, int] = {}
    learn_extents((n for value in function.inputs for n in value.type.shape), known)
    untold = {dim for dims in levels.values() for dim in dims if dim.name not in known}
    nearest: dict[Value, Value] = {state: state for state in levels}
    for node in function.nodes if untold else ():
        near = next((nearest[value] for value in node.given if value in nearest), None)
        if near is not None:
            nearest.update(dict.fromkeys(node.results, near))
        for dim in _needed_dims(node) & untold:
            able = [state for state, dims in levels.items() if dim in dims]
            yield node, near if near in able else able[0]


def _needed_dims(node: Node) -> set[Dim]:
    """The dimensions that a node depends on, and the shapes of its operands do not tell."""
    made = (dim for value in node.results for dim in dims_of_type(value.type))
    told: dict[str, int] = {}
    learn_extents((n for value in node.given for n in value.type.shape), told)
    return {dim for dim in (*dims_of_op(node.op), *made) if dim.name not in told}


def _circles(
    groups: Sequence[_Group], read_by: Callable[[_Group], list[_Group]]
) -> list[list[_Group]]:
    """Groups that depend on each other, by the two walks of Kosaraju."""
    finished = _walk(groups, read_by)
    readers: dict[_Group, list[_Group]] = {group: [] for group in groups}
    for group in groups:
        for read in read_by(group):
            readers[read].append(group)
    seen: set[_Group] = set()
    circles = []
    for group in reversed(finished):
        if group not in seen:
            circle = _walk([group], readers.__getitem__, seen)
            circles.append(circle)
    return [circle for circle in circles if len(circle) > 1]


def _walk(
    starts: Sequence[_Group],
    following: Callable[[_Group], list[_Group]],
    seen: set[_Group] | None = None,
) -> list[_Group]:
    """All that can be reached and was not seen, each behind what follows it."""
    seen = set() if seen is None else seen
    order: list[_Group] = []
    waiting = [(group, False) for group in reversed(starts)]
    while waiting:
        group, is_done = waiting.pop()
        if is_done:
            order.append(group)
        elif group not in seen:
            seen.add(group)
            waiting.append((group, True))
            waiting.extend((other, False) for other in following(group) if other not in seen)
    return order


def _in_order(grouping: _Grouping) -> list[_Group]:
    """The groups, each after those it reads, and otherwise in the order of their first nodes."""
    rank = grouping.rank
    groups = grouping.groups
    for group in groups:
        group.nodes.sort(key=rank.__getitem__)
    missing = {group: len(grouping.read_by(group)) for group in groups}
    by_rank = {rank[group.nodes[0]]: group for group in groups}
    ready = [first for first, group in by_rank.items() if not missing[group]]
    heapify(ready)
    order = []
    while ready:
        group = by_rank[heappop(ready)]
        order.append(group)
        for reader in dict.fromkeys(grouping.group_of[node] for node in group.readers):
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, rank[reader.nodes[0]])
    if len(order) < len(groups):
        raise InternalError("tasks depend on each other in a circle")
    return order
